"""Figures: what a notebook shows, what is saved, and the errors of saving."""

from __future__ import annotations

import base64
import html
import io
import os
import re
import stat
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from jaxprviz import _export, _render
from jaxprviz._export import PNG_PIXELS, PNG_SIDE, png_scale
from jaxprviz._figure import Figure
from jaxprviz._json import from_json
from jaxprviz._render import find
from jaxprviz.errors import RenderError, SaveError
from jaxprviz.program import Body, Program, Type

DOT = """\
digraph "f" {
  graph [fontname="Arial" bgcolor="white" pad=0.15]
  node [fontname="Arial" fontsize=11 shape=box style="rounded,filled" fillcolor="white"]
  w [label=<<B>w</B>&#160;f32[2,3]> color="#0072B2"]
  g [shape=plain label=<<TABLE><TR><TD BGCOLOR="#F5B57F">\u03b8 \u00d7 \u2192 \U0001f600</TD></TR></TABLE>>]
  w -> g [color="#D55E00" style=dashed penwidth=2.4]
}
"""
TEXT = '`g` captures `w` & "more" <here>.\n`w` is copied whole to 4 devices \u00d7 24 bytes.\n'
PROGRAM = Program((Body("f", (Type("float32"),), (), (0,), ("x",), (), (0,), (None,)),), 0, "0.10.2", 1)
FIGURE = Figure(PROGRAM, DOT, TEXT, "jit f")
KNOWN = ".svg, .png, .pdf, .dot, .html, .json, .txt"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def png(content: bytes) -> Any:
    """A PNG as an RGB image."""
    image = pytest.importorskip("PIL.Image")
    return image.open(io.BytesIO(content)).convert("RGB")


def test_the_picture_is_drawn_once_and_carries_title_and_sentences() -> None:
    figure = Figure(PROGRAM, DOT, TEXT, "jit f")
    root = ET.fromstring(figure.svg)
    found = [root.findtext("{http://www.w3.org/2000/svg}" + name) for name in ("title", "desc")]
    assert found == ["jit f", TEXT]
    assert figure.svg is figure.svg


def test_figures_are_values_that_can_not_be_changed() -> None:
    assert Figure(PROGRAM, DOT, TEXT, "jit f") == FIGURE
    assert hash(Figure(PROGRAM, DOT, TEXT, "jit f")) == hash(FIGURE)
    with pytest.raises(AttributeError):
        FIGURE.title = "other"  # type: ignore[misc]


def test_printed_it_is_its_sentences() -> None:
    assert (repr(FIGURE), str(FIGURE), f"{FIGURE}") == (TEXT, TEXT, TEXT)
    assert repr(Figure(None, DOT, "", "jit f")) == "jit f"


@pytest.mark.parametrize(
    ("title", "text", "alt"),
    [
        ("jit f", "One.\n  Two.\n\nThree.", "jit f: One. Two. Three."),
        ("jit f", "", "jit f"),
        ("jit\nf", "word " * 100, "jit f: " + "word " * 58 + "..."),
        ("t", "x" * 400, "t: ..."),
    ],
)
def test_alt_text_is_the_title_and_the_first_sentences(title: str, text: str, alt: str) -> None:
    assert Figure(None, DOT, text, title).alt == alt
    assert len(alt) <= 304


def test_a_notebook_gets_an_image_with_alt_text_the_svg_and_the_sentences() -> None:
    bundle = FIGURE._repr_mimebundle_()
    data = base64.b64encode(FIGURE.svg.encode()).decode()
    assert bundle == {
        "text/html": f'<img src="data:image/svg+xml;base64,{data}" alt="{html.escape(FIGURE.alt)}"'
        ' style="max-width:100%;height:auto;background-color:#ffffff">',
        "image/svg+xml": FIGURE.svg,
        "text/plain": TEXT,
    }
    assert 'alt="jit f: `g` captures `w` &amp; &quot;more&quot; &lt;here&gt;. `w` is' in bundle["text/html"]


def test_text_files(tmp_path: Path) -> None:
    saved = {suffix: FIGURE.save(tmp_path / f"x{suffix}") for suffix in (".svg", ".dot", ".txt", ".json")}
    assert saved == {suffix: tmp_path / f"x{suffix}" for suffix in saved}
    content = {suffix: path.read_bytes().decode() for suffix, path in saved.items()}
    assert from_json(content.pop(".json")) == PROGRAM
    assert content == {".svg": FIGURE.svg, ".dot": DOT, ".txt": TEXT}
    assert names(tmp_path) == ["x.dot", "x.json", "x.svg", "x.txt"]


def test_the_page_stands_alone(tmp_path: Path) -> None:
    nasty = '</title><script>alert(1)</script> {svg} & "'
    page = Figure(None, DOT, nasty, nasty).save(tmp_path / "x.html").read_bytes().decode()
    svg = Figure(None, DOT, nasty, nasty).svg
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n')
    assert f"<title>{html.escape(nasty)}</title>" in page
    assert f"<figure>\n{svg}</figure>\n<pre>{html.escape(nasty)}</pre>" in page
    assert "color-scheme: light dark" in page
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="|url\(|@import', page) == []


@pytest.mark.parametrize("suffix", [".svg", ".html", ".txt", ".dot", ".json"])
def test_the_same_bytes_every_time(tmp_path: Path, suffix: str) -> None:
    first = FIGURE.save(tmp_path / f"1{suffix}").read_bytes()
    assert Figure(PROGRAM, DOT, TEXT, "jit f").save(str(tmp_path / f"2{suffix}")).read_bytes() == first


def test_half_of_a_surrogate_pair_does_no_harm(tmp_path: Path) -> None:
    figure = Figure(None, DOT, "\ud800", "\ud800")
    found = [figure.save(tmp_path / f"x{suffix}").read_bytes() for suffix in (".txt", ".html", ".svg")]
    assert found[0] == b"\\ud800\n"
    assert "text/html" in figure._repr_mimebundle_()


def test_a_file_that_is_there_is_replaced_and_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    assert FIGURE.save(tmp_path / "link.txt") == tmp_path / "link.txt"
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_bytes().decode() == TEXT


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_the_file_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    saved = FIGURE.save(tmp_path / "x.txt")
    assert stat.S_IMODE(saved.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize(
    ("name", "wrong", "remedy"),
    [
        ("x.gif", "the suffix '.gif' is unknown", f"Choose one of {KNOWN}."),
        ("x", "it has no suffix", f"Choose one of {KNOWN}."),
        ("folder.svg", "it is a folder", "Add the name of a file."),
        ("no/x.svg", "there is no folder {tmp}/no", "Make the folder first, or choose another."),
        ("file/x.svg", "there is no folder {tmp}/file", "Make the folder first, or choose another."),
    ],
)
def test_a_place_that_can_not_be(tmp_path: Path, name: str, wrong: str, remedy: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveError) as caught:
        FIGURE.save(tmp_path / name)
    assert (caught.value.asked, caught.value.wrong, caught.value.remedy) == (
        f"save the figure as {tmp_path / name}",
        wrong.format(tmp=tmp_path),
        remedy,
    )


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no folder that nobody can write")
def test_a_folder_that_can_not_be_written() -> None:
    with pytest.raises(SaveError) as caught:
        FIGURE.save("/proc/self/x.svg")
    assert (caught.value.asked, caught.value.remedy) == (
        "save the figure as /proc/self/x.svg",
        "Choose another folder, or change its permissions.",
    )
    assert caught.value.wrong.startswith("the folder /proc/self can't be written (")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SaveError, match=r"can't be written \(Permission denied\)"):
        FIGURE.save(tmp_path / "x.svg")
    tmp_path.chmod(0o700)


def test_nothing_half_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.txt").write_text("old")

    def full(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(SaveError, match="No space left on device"):
        FIGURE.save(tmp_path / "x.txt")
    monkeypatch.undo()
    with pytest.raises(RenderError):
        Figure(None, "digraph { a -> ", "", "t").save(tmp_path / "x.svg")
    assert names(tmp_path) == ["x.txt"]
    assert (tmp_path / "x.txt").read_text() == "old"


def test_a_figure_without_a_program_has_no_json(tmp_path: Path) -> None:
    with pytest.raises(SaveError) as caught:
        Figure(None, DOT, TEXT, "legend").save(tmp_path / "x.json")
    assert (caught.value.wrong, caught.value.remedy) == (
        "this figure shows no program",
        "Choose another suffix.",
    )


def test_png_has_twice_the_size_and_everything_in_it(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    image = png(FIGURE.save(tmp_path / "x.png").read_bytes())
    root = ET.fromstring(FIGURE.svg)
    size = [float(root.get(name, "")) * 2 for name in ("width", "height")]
    assert [abs(a - b) < 1 for a, b in zip(image.size, size, strict=True)] == [True, True]
    colours = {colour for _, colour in image.getcolors(image.width * image.height)}
    assert colours >= {(0xF5, 0xB5, 0x7F), (0xD5, 0x5E, 0x00), (0x00, 0x72, 0xB2), (255, 255, 255)}
    assert image.getpixel((0, 0)) == (255, 255, 255)


def ink(tmp_path: Path, label: str) -> int:
    """How many pixels of a picture that is nothing but a label are dark."""
    dot = f'digraph {{ bgcolor="white" a [shape=plain fontname="Arial" label=<{label}>] }}'
    image = png(Figure(None, dot, "", "t").save(tmp_path / "x.png").read_bytes())
    return sum(count for count, colour in image.getcolors(image.width * image.height) if sum(colour) < 380)


def test_text_is_in_the_png_and_bold_text_is_bolder(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    blank, plain, bold = (ink(tmp_path, label) for label in ("&#160;", "captured", "<B>captured</B>"))
    assert blank == 0
    assert 0 < plain * 1.2 < bold
    for character in "\u00d7\u2192\u03b8":
        assert ink(tmp_path, character) > 0


def test_pdf_has_the_size_of_the_layout_and_fonts(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    content = FIGURE.save(tmp_path / "x.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    view = ET.fromstring(FIGURE.svg).get("viewBox", "").split()[2:]
    box = re.search(rb"/MediaBox ?\[([^\]]*)\]", content)
    assert box is not None
    assert [float(number) for number in box.group(1).split()] == pytest.approx(
        [0, 0, *map(float, view)], abs=0.1
    )
    assert b"/ToUnicode" in content


@pytest.mark.parametrize(
    ("width", "height", "scale"),
    [
        (500, 400, 2.0),
        (10_000, 4_000, 1.0),
        (20_000, 8_000, 0.5),
        (60_000, 10, 0.5),
        (0, 0, 2.0),
    ],
)
def test_large_pictures_get_a_smaller_scale(width: float, height: float, scale: float) -> None:
    assert png_scale(f'<svg width="{width}" height="{height}">') == pytest.approx(scale)
    assert width * height * scale**2 <= PNG_PIXELS
    assert max(width, height) * scale <= PNG_SIDE


@pytest.mark.skipif(find("dot") is None, reason="Graphviz is not installed")
def test_the_systems_dot_makes_png_and_pdf_where_vl_convert_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_export, "_vl_convert", lambda: None)
    image = png(FIGURE.save(tmp_path / "x.png").read_bytes())
    width = float(ET.fromstring(FIGURE.svg).get("width", "")) * 2
    assert abs(image.width - width) < 0.2 * width
    assert FIGURE.save(tmp_path / "x.pdf").read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize("fmt", ["png", "pdf"])
def test_without_anything_that_makes_it_one_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fmt: str
) -> None:
    monkeypatch.setattr(_export, "_vl_convert", lambda: None)
    pure = find("graphviz-pure")
    monkeypatch.setattr(_render, "find", {"graphviz-pure": pure}.get)
    with pytest.raises(RenderError) as caught:
        FIGURE.save(tmp_path / f"x.{fmt}")
    assert str(caught.value) == (
        f"draw the picture as {fmt.upper()}: dot was not found\n"
        "Run `pip install vl-convert-python`, or install Graphviz (https://graphviz.org/download/)."
    )
    assert names(tmp_path) == []


def test_a_name_that_is_too_long_is_told_as_such(tmp_path: Path) -> None:
    name = "n" * 300 + ".svg"
    with pytest.raises(SaveError) as caught:
        FIGURE.save(tmp_path / name)
    assert (caught.value.wrong, caught.value.remedy) == (
        f"the name {'n' * 40}… has 304 characters, too many for a file here",
        "Choose a shorter name.",
    )
