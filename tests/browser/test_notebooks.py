"""The lessons in a real JupyterLab: run, with sliders moved; opened without a kernel; not trusted."""

from __future__ import annotations

import time
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from labdriver import Explorer, Lab, Server
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

LESSON = "07_pmap_inside_jit.ipynb"
LESSONS = ("00_start_here.ipynb", LESSON)


def moves(explorer: Explorer, devices: int, batch: int, d: int) -> None:
    """Waits for the picture and the words of a position."""
    whole, block = f"f32[{devices},{batch},{d}]", f"f32[{batch},{d}]"
    expect(explorer.picture).to_contain_text(f"{devices} devices")
    expect(explorer.picture).to_contain_text(whole)
    expect(explorer.picture).to_contain_text(block)
    expect(explorer.root.locator(".jaxprviz-words")).to_contain_text(whole)
    expect(explorer.status).to_be_empty()
    assert [explorer.value(name) for name in ("devices", "batch", "d")] == [devices, batch, d]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["question.ipynb", LESSON])
def test_the_sliders_of_the_question(lab: Lab, name: str, theme: str) -> None:
    lab.open(name, theme=theme)
    lab.run_all()
    explorer = lab.explorer()
    devices, batch, d = (explorer.value(name) for name in ("devices", "batch", "d"))
    moves(explorer, devices, batch, d)
    explorer.press("devices", ["ArrowLeft"])
    moves(explorer, devices - 1, batch, d)
    explorer.press("d", ["ArrowRight"])
    moves(explorer, devices - 1, batch, d + 1)
    explorer.drag("devices", 1.0, 0.0)
    expect(explorer.picture).to_contain_text("1 device")
    explorer.press("devices", ["ArrowRight"] * 5)
    explorer.press("devices", ["ArrowLeft"] * 3)
    moves(explorer, 3, batch, d + 1)
    time.sleep(0.5)  # a late picture of an earlier position would arrive now
    moves(explorer, 3, batch, d + 1)


def test_more_devices_than_there_are(lab: Lab) -> None:
    lab.open("question.ipynb")
    lab.run_all()
    explorer = lab.explorer()
    explorer.press("devices", ["End", "ArrowLeft", "ArrowRight"])
    expect(explorer.status).to_contain_text("No picture for devices=9, batch=2, d=3.")
    expect(explorer.status).to_contain_text("The grey picture below is still that of devices=")
    expect(explorer.picture).to_have_css("filter", "grayscale(1)")
    explorer.press("devices", ["ArrowLeft"])
    moves(explorer, 8, 2, 3)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_runs_without_an_error(lab: Lab, lesson: str) -> None:
    lab.open(lesson)
    lab.run_all()
    expect(lab.explorer().picture).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("trusted", [False, True], ids=["fresh clone", "trusted"])
@pytest.mark.parametrize("lesson", ["saved.ipynb", *LESSONS])
def test_the_default_picture_is_there_without_a_kernel(
    lab: Lab, server: Server, lesson: str, trusted: bool, theme: str
) -> None:
    name = lesson
    if trusted:
        name = f"trusted_{lesson}"
        notebook = nbformat.read(server.folder / lesson, as_version=4)
        # Jupyter trusts contents, not files: the same notebook under another name would be trusted too.
        notebook.metadata["trusted_copy"] = theme
        nbformat.write(notebook, server.folder / name)
        server.trust(name)
    lab.open(name, kernel=False, theme=theme)
    assert lab.trusted() is trusted
    alts = stored_alts(server.folder / name)
    assert alts
    assert all(alt.strip() for alt in alts)
    for alt in alts:
        picture = lab.page.get_by_role("img", name=alt, exact=True).first
        picture.scroll_into_view_if_needed()
        expect(picture).to_be_visible()
        lab.page.wait_for_function(
            "image => image.complete && image.naturalWidth > 0", arg=picture.element_handle()
        )
        expect(picture).to_have_css("background-color", "rgb(255, 255, 255)")


def stored_alts(path: Path) -> list[str]:
    """The alt texts of the pictures in a notebook's outputs."""
    found: list[str] = []

    class Images(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag == "img":
                found.append(dict(attrs).get("alt") or "")

    cells = nbformat.read(path, as_version=4).cells
    for output in (output for cell in cells for output in cell.get("outputs", ())):
        parser = Images()
        parser.feed(output.get("data", {}).get("text/html", ""))
        parser.close()
    return found
