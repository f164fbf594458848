"""Writes README.md's table of what runs on which JAX: made by running it there.

    python tools/versions.py
    python tools/versions.py --with 0.8.3=/an/environment/bin/python

In the main environment and in each lane's: the programs of tests/cases, and the lessons with their
assertions.  A JAX for which no Python is on this machine keeps its row as it is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pythons
from counts import counted
from environment import MAIN, ROOT, SetupError
from lane import LANES, main_jax

README = ROOT / "README.md"
BEGIN, END = "<!-- versions: written by tools/versions.py -->\n", "<!-- /versions -->\n"
_HEAD = "| JAX | Python | programs | lessons |\n| --- | --- | --- | --- |\n"

_LAX = ("--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=120")
_COLUMNS: tuple[tuple[str, ...], ...] = (
    ("tests/test_cases.py",),
    ("notebooks", *_LAX),
)


def versions() -> tuple[str, ...]:
    """The versions of JAX that the table has a row for, oldest first."""
    found = {main_jax(), *(lane.jax for lane in LANES)}
    return tuple(sorted(found, key=lambda version: tuple(map(int, version.split(".")))))


def rows(text: str) -> dict[str, str]:
    """The table's rows in README's text, by version of JAX."""
    table = text.partition(BEGIN)[2].partition(END)[0].removeprefix("\n").removeprefix(_HEAD)
    return {line.split("|")[1].strip(): f"{line}\n" for line in table.splitlines() if line}


def table(found: dict[str, str]) -> str:
    """README's table of these rows, between its marks."""
    return f"{BEGIN}\n{_HEAD}{''.join(found[version] for version in versions() if version in found)}\n{END}"


def _counts(python: Path, arguments: tuple[str, ...]) -> str:
    """How many tests passed, failed, were left out."""
    command = [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "not locked", *arguments]
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    told = [counts for line in done.stdout.splitlines() if (counts := counted(line)) is not None]
    if not told:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    words = {"passed": "run", "skipped": "not there", "failed": "FAIL", "error": "FAIL"}
    return ", ".join(f"{number} {words.get(name, name)}" for name, number in told[-1].items())


def row(jax: str, python: Path) -> str:
    """The row of one JAX, made by running."""
    full = pythons.ask(python)
    assert full is not None
    columns = (_counts(python, arguments) for arguments in _COLUMNS)
    return f"| {jax} | {full.full} | {' | '.join(columns)} |\n"


def _environment(jax: str) -> Path | None:
    """The Python of a JAX's environment, installed; None when no Python for it is on this machine."""
    if jax == main_jax():
        return MAIN.python
    lane = next(lane for lane in LANES if lane.jax == jax)
    found = pythons.find(lane.pythons)
    if found is None:
        return None
    venv = lane.environment(found)
    venv.ensure(found)
    return venv.python


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--with",
        dest="given",
        action="append",
        default=[],
        metavar="JAX=PYTHON",
        help="an environment that is there already; without it those of `make test` are taken",
    )
    parser.add_argument("--only", action="append", metavar="JAX", help="this row alone")
    options = parser.parse_args()
    given = dict(one.split("=", 1) for one in options.given)
    text = README.read_text(encoding="utf-8")
    found = rows(text)
    for jax in options.only or versions():
        try:
            python = Path(given[jax]) if jax in given else _environment(jax)
        except SetupError as error:
            sys.exit(str(error))
        if python is None:
            print(f"JAX {jax}: no Python for it on this machine; its row stays")
            continue
        found[jax] = row(jax, python)
        print(found[jax], end="", flush=True)
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    README.write_text(before + table(found) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
