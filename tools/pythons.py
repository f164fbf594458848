"""Finds Python interpreters on this machine: on PATH, among pyenv's, among uv's."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Version = tuple[int, int]
"""Major and minor, as in (3, 11)."""

OLDEST: Version = (3, 11)
NEWEST: Version = (3, 14)
"""The range that requirements.lock was resolved for."""

_ASK = "import sys; print(*sys.version_info[:3], sep='.'); print(sys.executable)"
_ASK_VENV = "import ensurepip, venv"


@dataclass(frozen=True)
class Python:
    """An interpreter that runs.

    Attributes:
        path: its executable, never a shim.
        full: its whole version, as in "3.11.7".
    """

    path: Path
    full: str

    @property
    def version(self) -> Version:
        major, minor = self.full.split(".")[:2]
        return int(major), int(minor)

    @property
    def makes_venvs(self) -> bool:
        """Whether it has what `python -m venv` needs; Debian keeps that in a package of its own."""
        return _run(self.path, _ASK_VENV) is not None


def text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _run(path: Path | str, code: str) -> str | None:
    """What the interpreter prints; None when it does not run."""
    try:
        done = subprocess.run(
            [str(path), "-c", code], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


@functools.cache
def ask(path: Path | str) -> Python | None:
    """The interpreter behind a path or a command; None when there is none that runs."""
    printed = _run(path, _ASK)
    if printed is None:
        return None
    full, executable = printed.splitlines()
    return Python(Path(executable), full)


def base() -> Path:
    """The interpreter that runs this script, outside of any virtual environment."""
    if sys.prefix == sys.base_prefix:
        return Path(sys.executable)
    return Path(sys.base_prefix, "bin", f"python{text(sys.version_info[:2])}")


def _folders() -> Iterator[Path]:
    """Folders that hold one folder an interpreter."""
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False).stdout.strip()
        if root:
            yield Path(root, "versions")
    yield Path.home() / ".pyenv" / "versions"
    if "UV_PYTHON_INSTALL_DIR" in os.environ:
        yield Path(os.environ["UV_PYTHON_INSTALL_DIR"])
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    yield Path(data) / "uv" / "python"


def _candidates(version: Version) -> Iterator[Path | str]:
    """Commands and paths that, by their names, could be an interpreter of this version."""
    running = ask(base())
    if running is not None and running.version == version:
        yield base()
    yield f"python{text(version)}"
    yield "python3"
    named = re.compile(rf"(?:cpython-)?{re.escape(text(version))}(?:\.\d+)?(?:-.*)?")
    for folder in _folders():
        if folder.is_dir():
            yield from sorted(
                inside / "bin" / "python3" for inside in folder.iterdir() if named.fullmatch(inside.name)
            )


def find(versions: tuple[Version, ...]) -> Python | None:
    """The first interpreter that can make virtual environments, in the order of the versions asked for."""
    for version in versions:
        for candidate in _candidates(version):
            found = ask(candidate)
            if found is not None and found.version == version and found.makes_venvs:
                return found
    return None
