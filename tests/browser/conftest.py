"""JupyterLab with the notebooks of the project and one made here, and a browser that opens them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from labdriver import ROOT, Lab, Server, browsing, serving
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import Browser, expect, sync_playwright

from jaxprviz._figure import Figure

NOTEBOOKS = ROOT / "notebooks"

# Milliseconds.  A kernel on a busy machine may need more than the usual 5 s.
expect.set_options(timeout=20_000)

SMALL = '''\
import base64
from types import SimpleNamespace

import jaxprviz._mistakes  # what draws has imported JAX long before a reader meets the first mistake
from jaxprviz._controls import controls_for
from jaxprviz._explore import Explorer

def draw(fn, devices, batch, kind):
    """Draws without JAX: a row of boxes, one a device, and a word for what was asked."""
    if batch % devices:
        raise ValueError(f"batch {batch} cannot be divided by {devices} devices")
    width = 4000 if kind == "wide" else 200
    size = 9 if kind == "wide" else 14
    odd = {
        "script": "<script>window.wrong = true</script>",
        "handler": "<path d='M0 0' onload='window.wrong = true'/>",
        "link": "<a href='javascript:window.wrong = true'><text>x</text></a>",
        "foreign": "<foreignObject><p xmlns='http://www.w3.org/1999/xhtml'>x</p></foreignObject>",
        "broken": "<g>",
    }
    box = "<rect x='{}' y='40' width='16' height='16' fill='#0072B2'/>"
    boxes = "".join(box.format(8 + 20 * number) for number in range(devices))
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{80 + 10 * devices}' "
        f"viewBox='0 0 {width} {80 + 10 * devices}' role='img'><title>devices and batch</title>"
        f"<rect width='{width}' height='100%' fill='white'/>"
        f"<text x='8' y='20' font-family='Arial' font-size='{size}'>{devices} devices, batch {batch}</text>"
        f"{boxes}{odd.get(kind, '')}</svg>"
    )
    text = f"There are {devices} devices.\\n  The batch is {batch}, <b>not bold</b>."
    return SimpleNamespace(svg=svg, text=text)

def build(devices, batch, kind):
    return None, (devices, batch, kind)

kinds = ["small", "wide", "script", "handler", "link", "foreign", "broken"]
controls = dict(devices=(1, 8), batch=(1, 16), kind=kinds)
explorer = Explorer(build, controls_for(build, controls, {}, "explore(build)"), draw)'''


QUESTION = """\
import jax
import jax.numpy as jnp
from jaxprviz import explore

jax.config.update("jax_num_cpu_devices", 8)

def build(devices=4, batch=2, d=3):
    @jax.jit
    def f(w, x):
        def g(block):
            return w * block
        return jax.pmap(g)(x)
    return f, (jnp.ones((batch, d)), jnp.ones((devices, batch, d)))

explore(build, devices=(1, 9), batch=(1, 16), d=(1, 8))"""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab on a copy of the notebooks, none of them trusted yet, as in a fresh clone."""
    folder, home = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("home")
    if NOTEBOOKS.is_dir():
        shutil.copytree(NOTEBOOKS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
    cells = [new_markdown_cell("# A small explorer"), new_code_cell(SMALL), new_code_cell("explorer")]
    write(folder / "small.ipynb", cells)
    write(folder / "question.ipynb", [new_code_cell(QUESTION)])
    write(folder / "saved.ipynb", [_kept_figure(), _kept_explorer()])
    with serving(folder, home) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright, browsing(playwright) as browser:
        yield browser


@pytest.fixture
def lab(server: Server, browser: Browser) -> Iterator[Lab]:
    """A page with JupyterLab.  A test that uses it fails when the console shows an error."""
    lab = Lab(browser.new_page(viewport={"width": 1200, "height": 900}), server)
    yield lab
    lab.close()
    assert lab.errors == []


def _kept_figure() -> nbformat.NotebookNode:
    """A cell that shows a figure, with its output, as a lesson keeps it."""
    dot = 'digraph { node [fontname=Arial]; w -> "a < b" }'
    figure = Figure(program=None, dot=dot, text='w is "copied" to 4 devices, a < b.', title="f & g")
    data = figure._repr_mimebundle_()
    return new_code_cell(
        "figure", execution_count=1, outputs=[new_output("execute_result", data, execution_count=1)]
    )


def _kept_explorer() -> nbformat.NotebookNode:
    """A cell that shows an explorer, with its output: a widget that is gone, and its text."""
    view = {"model_id": "0" * 32, "version_major": 2, "version_minor": 0}
    data = {"text/plain": "Explorer(devices=4)", "application/vnd.jupyter.widget-view+json": view}
    output = new_output("execute_result", data, execution_count=2)
    return new_code_cell("explore(build)", execution_count=2, outputs=[output])


def write(path: Path, cells: list[nbformat.NotebookNode]) -> None:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
