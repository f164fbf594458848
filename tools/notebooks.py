"""Runs the notebooks from top to bottom and stores their outputs: `make notebooks`.

    .venv/bin/python tools/notebooks.py                        all of them
    .venv/bin/python tools/notebooks.py notebooks/00_*.ipynb   those named

Stored outputs hold for the versions of requirements.lock, so another environment is refused unless `--check`
says that nothing is to be stored.  What differs from run to run is left out: times, the state of widgets, the
version of the Python.  A widget is stored as its text alone: that is what a reader sees without a kernel.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"

_WIDGET = "application/vnd.jupyter.widget-view+json"
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_PINNED = ("jax", "graphviz-pure", "ipywidgets", "anywidget")
"""The packages whose versions outputs depend on."""


def run(notebook: nbformat.NotebookNode, folder: Path = NOTEBOOKS, seconds: int = 120) -> None:
    """Runs a notebook in a kernel of this Python and puts the outputs into it, without what is volatile.

    Args:
        notebook: the notebook; changed in place.
        folder: where its kernel runs.
        seconds: how long one cell may take.

    Raises:
        CellExecutionError: a cell raised an exception.
    """
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    NotebookClient(
        notebook,
        timeout=seconds,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
        record_timing=False,
    ).execute(env=_environment())
    strip(notebook)


def _environment() -> dict[str, str]:
    """The environment of a kernel: it has this folder's jaxprviz, and no setting of the user's counts."""
    kept = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    return {**kept, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}


def strip(notebook: nbformat.NotebookNode) -> None:
    """Takes out of a notebook what differs from run to run, or from machine to machine."""
    notebook.metadata = nbformat.from_dict({"kernelspec": _KERNEL, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.outputs = [_without_widget(output) for output in _joined(cell.outputs)]


def _without_widget(output: Any) -> Any:
    if "data" in output:
        output.data.pop(_WIDGET, None)
        output.metadata = nbformat.from_dict({})
    return output


def _joined(outputs: list[Any]) -> list[Any]:
    """The outputs with printed text in one piece: where a kernel cuts it depends on timing."""
    joined: list[Any] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and output.output_type == last.output_type == "stream"
            and output.name == last.name
        ):
            last.text += output.text
        else:
            joined.append(output)
    return joined


def unpinned() -> list[str]:
    """The packages that are here in another version than requirements.lock has, each with both versions."""
    lock = (
        line.partition(" ")[0].split("==") for line in (ROOT / "requirements.lock").read_text().splitlines()
    )
    locked = {pin[0]: pin[1] for pin in lock if len(pin) == 2}
    here = {name: metadata.version(name) for name in _PINNED}
    return [f"{name} {here[name]}, locked: {locked[name]}" for name in _PINNED if here[name] != locked[name]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(NOTEBOOKS.glob("*.ipynb")))
    parser.add_argument("--check", action="store_true", help="run them, store nothing")
    arguments = parser.parse_args()
    if not arguments.check and (others := unpinned()):
        sys.exit(
            f"Stored outputs need the locked versions, and here is {'; '.join(others)}. Run `make notebooks`."
        )
    failed = False
    for path in arguments.notebooks:
        notebook = nbformat.read(path, as_version=4)
        try:
            run(notebook, path.parent)
        except CellExecutionError as error:
            failed = True
            print(f"{path.name}: {error}", file=sys.stderr)
            continue
        if not arguments.check:
            nbformat.validate(notebook)
            nbformat.write(notebook, path)
        print(f"{path.name}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells run")
    sys.exit(failed)


if __name__ == "__main__":
    main()
