"""Makes virtual environments that hold pinned packages, and leaves them alone while they are up to date."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pythons

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
_PROJECT = ROOT / "pyproject.toml"

# JupyterLab asks every new reader about its news, over the first lesson.
_QUIET = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}


class SetupError(Exception):
    """The environment cannot be made; the message says what to do."""


@dataclass(frozen=True)
class Environment:
    """One virtual environment.

    Attributes:
        folder: where it is.
        install: what is to be installed, as the arguments of `pip install`.
        files: the files among them: when one changes, the environment is brought up to date.
        project: whether jaxprviz itself is installed too, as a link to this folder.
    """

    folder: Path
    install: tuple[str, ...]
    files: tuple[Path, ...] = ()
    project: bool = True

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def command(self, name: str) -> Path:
        """The path of a command that is installed in it."""
        return self.folder / "bin" / name

    @property
    def _stamp(self) -> Path:
        return self.folder / "jaxprviz-stamp.json"

    def _wanted(self, version: str) -> dict[str, str]:
        """What the stamp says when everything is installed."""
        content = hashlib.sha256()
        for file in (*self.files, _PROJECT):
            content.update(file.read_bytes())
        # A virtual environment does not survive a move: its scripts hold its path.
        return {
            "python": version,
            "folder": str(self.folder),
            "install": " ".join(self.install),
            "files": content.hexdigest(),
        }

    def _version(self) -> str | None:
        """The Python version of what is there; None when nothing is there that works."""
        settings = self.folder / "pyvenv.cfg"
        if not (settings.is_file() and os.access(self.python, os.X_OK)):
            return None
        lines = (line.partition("=") for line in settings.read_text().splitlines())
        return {key.strip(): value.strip() for key, _, value in lines}.get("version")

    def _written(self) -> dict[str, str]:
        try:
            return json.loads(self._stamp.read_text())
        except (OSError, ValueError):
            return {}

    def ensure(self, python: pythons.Python | None = None) -> None:
        """Makes it, or brings it up to date; does nothing when it is.

        Args:
            python: the interpreter to make it with.  None keeps the one that it was made with, and takes the
                one that runs this script when there is none yet.

        Raises:
            SetupError: it cannot be made.
        """
        present, written = self._version(), self._written()
        version = present if python is None and present is not None else None
        if version is None:
            python = python or _running()
            version = python.full
        wanted = self._wanted(version)
        if present == version and written == wanted:
            return
        if present != version or written.get("folder") != wanted["folder"]:
            self._create(python or _running())
        self._stamp.unlink(missing_ok=True)
        where = self.folder.relative_to(ROOT)
        print(
            f"Installing into {where} (Python {version}); the first time takes a minute or two.", flush=True
        )
        self._install(*self.install)
        if self.project:
            self._install("--no-deps", "--editable", str(ROOT))
            settings = self.folder / "etc" / "jupyter" / "labconfig" / "page_config.json"
            settings.parent.mkdir(parents=True, exist_ok=True)
            settings.write_text(json.dumps(_QUIET))
        self._stamp.write_text(json.dumps(wanted, indent=1))

    def _create(self, python: pythons.Python) -> None:
        if not python.makes_venvs:
            raise SetupError(
                f"{python.path} cannot make virtual environments: it lacks the modules venv and ensurepip.\n"
                f"On Debian or Ubuntu: apt-get install python{pythons.text(python.version)}-venv"
            )
        made = [str(python.path), "-m", "venv", "--clear", str(self.folder)]
        if subprocess.run(made, check=False).returncode != 0:
            raise SetupError(
                f"{python.path} could not make the virtual environment {self.folder}; see above."
            )

    def _install(self, *arguments: str) -> None:
        """Installs with uv, which takes a tenth of pip's time, and with pip where uv does not get there.

        pip knows settings of the user that uv does not read: a mirror, a proxy, a folder of wheels.
        """
        if not MAIN.command("uv").is_file() and self.folder == MAIN.folder:
            _told(self._pip, "install", *_UV)
        uv = [MAIN.command("uv"), "pip", "install", "--quiet", "--python", self.python]
        if MAIN.command("uv").is_file() and _told(uv, *arguments) is None:
            return
        failed = _told(self._pip, "install", *arguments)
        if failed is not None:
            raise SetupError(
                f"pip could not install what {self.folder.relative_to(ROOT)} needs:\n{failed[-3000:]}\n"
                "Without a network this works only once everything is installed."
            )

    @property
    def _pip(self) -> list[str | Path]:
        return [self.python, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]


def _told(command: list[str | Path], *arguments: str) -> str | None:
    """Runs a command: None when it succeeds, else all that it printed."""
    done = subprocess.run(
        [*command, *arguments],
        check=False,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return None if done.returncode == 0 else done.stdout


def _running() -> pythons.Python:
    """The interpreter that runs this script."""
    return _checked(_named(str(pythons.base())))


_UV = tuple(line for line in LOCK.read_text().splitlines() if line.startswith("uv=="))

MAIN = Environment(ROOT / ".venv", ("--requirement", "requirements.lock"), (LOCK,))
"""What `make lab` and `make test` run in."""


def _checked(python: pythons.Python) -> pythons.Python:
    """The interpreter itself.  Raises SetupError when the pinned packages do not run on it."""
    if not pythons.OLDEST <= python.version <= pythons.NEWEST:
        raise SetupError(
            f"{python.path} is Python {python.full}; jaxprviz's pinned packages run on Python "
            f"{pythons.text(pythons.OLDEST)} to {pythons.text(pythons.NEWEST)}.\n"
            "Name another one: make lab PYTHON=python3.12"
        )
    return python


def _named(name: str) -> pythons.Python:
    """The interpreter that the user named.  Raises SetupError when there is none."""
    found = pythons.ask(name)
    if found is None:
        raise SetupError(f"PYTHON={name}: there is no such Python, or it does not run.")
    return found


def main() -> None:
    """Makes the main environment, or brings it up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", help="the interpreter to make .venv with; what it was made with when missing"
    )
    options = parser.parse_args()
    try:
        MAIN.ensure(_checked(_named(options.python)) if options.python else None)
    except SetupError as error:
        sys.exit(f"jaxprviz: {error}")


if __name__ == "__main__":
    main()
