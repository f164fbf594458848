"""Finds the Chromium that the browser tests drive, and installs it where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import environment

VARIABLE = "JAXPRVIZ_CHROMIUM"
"""The environment variable that tells the tests where Chromium is; set it to choose another one."""

_COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FROM_PLAYWRIGHT = (
    "from playwright.sync_api import sync_playwright as s\nwith s() as p: print(p.chromium.executable_path)"
)


def _runs(command: str) -> bool:
    """Whether it starts: on Ubuntu the package `chromium` can be a stub that only names another store."""
    try:
        asked = subprocess.run([command, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def _found(venv: environment.Environment) -> str | None:
    named = os.environ.get(VARIABLE)
    on_path = [path for command in _COMMANDS if (path := shutil.which(command))]
    for command in [named] if named else on_path:
        if _runs(command):
            return command
    if named:
        raise environment.SetupError(f"{VARIABLE}={named}: this is no browser that runs.")
    asked = subprocess.run([venv.python, "-c", _FROM_PLAYWRIGHT], capture_output=True, text=True, check=False)
    own = asked.stdout.strip()
    return own if asked.returncode == 0 and Path(own).is_file() and _runs(own) else None


def _apt() -> tuple[str, ...] | None:
    """How apt-get is run here; None where it cannot be."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return ("apt-get",)
    may = shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    return ("sudo", "-n", "apt-get") if may and may.returncode == 0 else None


def _apt_install(*packages: str) -> None:
    """Installs Debian packages where that is possible; what came of it is for the caller to look at."""
    apt = _apt()
    if apt is None:
        return
    print(f"Installing {' and '.join(packages)} with apt-get.", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (("update",), ("install", "--yes", "--no-install-recommends", *packages)):
        done = subprocess.run(
            [*apt, *arguments],
            env=quiet,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode != 0:
            print(done.stdout[-2000:], flush=True)


def _has_fonts() -> bool:
    """Whether text is measured and drawn with the metrics of Arial."""
    if not sys.platform.startswith("linux"):
        return True
    if shutil.which("fc-match") is None:
        return False
    matched = subprocess.run(
        ["fc-match", "--format=%{family}", "Arial"], capture_output=True, text=True, check=False
    )
    return any(family in matched.stdout for family in ("Arial", "Liberation Sans", "Arimo"))


def _driver_runs(venv: environment.Environment) -> bool:
    """Whether Playwright's own Node.js starts: it needs a library that a bare Debian lacks."""
    asked = subprocess.run([venv.command("playwright"), "--version"], capture_output=True, check=False)
    return asked.returncode == 0


def ensure(venv: environment.Environment) -> str:
    """The path of a Chromium that runs, with fonts to draw text with; installs what is missing.

    Args:
        venv: the environment that holds Playwright.

    Raises:
        SetupError: something is missing that cannot be installed.
    """
    missing = {
        "chromium": _found(venv) is None,
        "fonts-liberation": not _has_fonts(),
        "libatomic1": not _driver_runs(venv),
    }
    packages = [name for name, is_missing in missing.items() if is_missing]
    if packages:
        _apt_install(*packages)
    if not _driver_runs(venv):
        raise environment.SetupError(
            "Playwright, which drives the browser tests, does not start: see `.venv/bin/playwright`.\n"
            "On Debian or Ubuntu: apt-get install libatomic1"
        )
    if _found(venv) is None:
        print("Installing Chromium with Playwright.", flush=True)
        subprocess.run([venv.command("playwright"), "install", "chromium"], check=False)
    chromium = _found(venv)
    if chromium is None:
        raise environment.SetupError(
            "The browser tests need Chromium; neither apt-get nor Playwright could install it.\n"
            f"Install it (Debian: apt-get install chromium fonts-liberation), or set {VARIABLE} to its path."
        )
    return chromium
