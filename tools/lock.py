"""`make lock`: the pins, resolved anew: requirements.lock, the lanes' and those in environment.yml.

Pins that still satisfy pyproject.toml stay as they are; `make lock LOCK_ARGS=--upgrade` takes the newest.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import environment
import lane
import pythons

_HEAD = """\
# Made by `make lock` from pyproject.toml and requirements.lock.  binder/environment.yml is this file.
name: jaxprviz
channels:
  - conda-forge
  - nodefaults
dependencies:
  - python=3.12
  - graphviz
  - pip
  - pip:
"""


def _compile(out: Path, *sources: str, python: str, extra: tuple[str, ...] = ()) -> None:
    """Resolves sources into a file of pins that hold on every platform and from `python` on."""
    command = [
        *(str(environment.MAIN.command("uv")), "pip", "compile", "--quiet", "--universal", "--no-annotate"),
        # The same version everywhere: stored outputs are compared on every Python.
        *("--fork-strategy", "fewest"),
        *("--python-version", python, "--custom-compile-command", "make lock"),
        *("--no-emit-index-url", "--no-emit-find-links"),
        *extra,
        *("--output-file", str(out)),
        *sources,
    ]
    subprocess.run(command, check=True, cwd=environment.ROOT)


def _pins(lock: Path) -> list[str]:
    return [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]


def main() -> None:
    more = tuple(sys.argv[1:])
    oldest = pythons.text(pythons.OLDEST)
    extras = ("--extra", "lab", "--extra", "export")
    one_jax = str(lane.FOLDER / "locked.in")
    _compile(
        environment.LOCK, "pyproject.toml", one_jax, python=oldest, extra=(*extras, "--extra", "test", *more)
    )
    for one in lane.LANES:
        sources = map(str, one.sources)
        _compile(one.file, *sources, python=pythons.text(min(one.pythons)), extra=more)
    with tempfile.TemporaryDirectory() as folder:
        lab = Path(folder, "lab.txt")
        _compile(lab, "pyproject.toml", python=oldest, extra=(*extras, "--constraint", str(environment.LOCK)))
        pins = "".join(f'      - "{pin}"\n' for pin in _pins(lab))
    (environment.ROOT / "environment.yml").write_text(_HEAD + pins)


if __name__ == "__main__":
    main()
