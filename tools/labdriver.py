"""Opens notebooks in a real JupyterLab and a real browser: for the browser tests and the benchmarks.

The server runs on a free port of this machine, with settings of its own; it and its kernels are ended
whatever happens.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Playwright

ROOT = Path(__file__).resolve().parent.parent
"""The project's folder."""

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

_SETTINGS: dict[str, dict[str, Any]] = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}

_CHROMIUM_ARGUMENTS = (
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

ALLOWED_ERRORS = (
    # ipywidgets' extension for JupyterLab expects a session in every notebook; one without a kernel has none.
    ("reading 'kernel'", "@jupyter-widgets/jupyterlab-manager"),
    # JupyterLab's debugger asks a kernel for its state; one that ends in the meantime does not answer.
    ("Could not restore the debugger state", "Canceled future"),
)
"""Errors in the console that are not the notebooks' doing, each given by texts that it holds."""


class BrowserMissingError(RuntimeError):
    """There is no Chromium on this machine."""


def chromium() -> str:
    """The Chromium to drive: what JAXPRVIZ_CHROMIUM names, else one on the PATH.

    Raises:
        BrowserMissingError: there is none.
    """
    names = (
        os.environ.get("JAXPRVIZ_CHROMIUM"),
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
    )
    for name in names:
        found = shutil.which(name) if name else None
        if found:
            return found
    raise BrowserMissingError(
        "no Chromium was found: install it, or name it in JAXPRVIZ_CHROMIUM, or leave these tests out with "
        "`-m 'not browser'`"
    )


@contextmanager
def browsing(playwright: Playwright) -> Iterator[Browser]:
    """A Chromium without a window."""
    arguments = [
        *_CHROMIUM_ARGUMENTS,
        *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
    ]
    browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
    try:
        yield browser
    finally:
        browser.close()


@dataclass(frozen=True)
class Server:
    """A JupyterLab that serves.

    Attributes:
        url: where, without a path.
        token: the secret that lets one in.
        folder: the notebooks that it serves.
        environment: the environment variables that it runs with.
    """

    url: str
    token: str
    folder: Path
    environment: dict[str, str]

    def trust(self, *names: str) -> None:
        """Marks notebooks as trusted, as `jupyter trust` does."""
        command = [sys.executable, "-m", "jupyter", "trust", *names]
        subprocess.run(
            command, cwd=self.folder, env=self.environment, check=True, capture_output=True, timeout=60
        )


@contextmanager
def serving(folder: Path, home: Path, *, seconds: float = 60) -> Iterator[Server]:
    """Serves a folder with JupyterLab, and ends the server and its kernels afterwards.

    Args:
        folder: the notebooks.  They are served where they are: pass a copy.
        home: an empty folder for settings, logs and signatures.
        seconds: how long the server may take to answer.

    Raises:
        RuntimeError: it does not serve; the end of its log is in the message.
    """
    environment = _environment(home)
    port, token = _free_port(), secrets.token_hex(16)
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"),
        *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}"),
        *("--ServerApp.terminals_enabled=False", "--LabApp.collaborative=False"),
    ]
    server = Server(f"http://127.0.0.1:{port}", token, folder, environment)
    log = home / "server.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + seconds
            while not _answers(server):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(
                        f"JupyterLab does not serve:\n{log.read_text(errors='replace')[-3000:]}"
                    )
                time.sleep(0.1)
            yield server
        finally:
            _end(process)


def _environment(home: Path) -> dict[str, str]:
    settings = home / "settings"
    for name, values in _SETTINGS.items():
        file = settings / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    own = {
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": settings,
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "IPYTHONDIR": home / "ipython",
    }
    kept = {name: value for name, value in os.environ.items() if name not in {"JUPYTER_TOKEN", "XLA_FLAGS"}}
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {
        **kept,
        **{name: str(path) for name, path in own.items()},
        "PYTHONPATH": paths,
        "JAX_PLATFORMS": "cpu",
    }


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _answers(server: Server) -> bool:
    request = urllib.request.Request(
        f"{server.url}/api/status", headers={"Authorization": f"token {server.token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a server: asked first, so that it ends its kernels, which are in process groups of their own."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            continue
    process.wait(timeout=15)


@dataclass
class Lab:
    """One page of a browser with JupyterLab in it.

    Attributes:
        page: the page.
        server: the server that it shows.
        errors: what the console and the page reported as errors, but for the allowed ones.
    """

    page: Page
    server: Server
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self._report(f"{error.message}\n{error.stack}"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._report(f"{message.text} ({message.location.get('url', '')})")

    def _report(self, error: str) -> None:
        if not any(all(text in error for text in texts) for texts in ALLOWED_ERRORS):
            self.errors.append(error)

    def open(self, name: str, *, kernel: bool = True, theme: str = "light") -> None:
        """Opens a notebook of the served folder, with a kernel that is idle, or without any."""
        self.page.goto(f"{self.server.url}/lab?reset&token={self.server.token}")
        self.page.wait_for_function("window.jupyterapp !== undefined")
        self._run("async () => { await jupyterapp.restored; }")
        self._settle()
        self._run(
            "async theme => { await jupyterapp.commands.execute('apputils:change-theme', {theme}); }",
            THEMES[theme],
        )
        self._settle()
        preference = None if kernel else {"shouldStart": False, "shouldReuse": False}
        self._run(
            """async ({name, preference}) => {
                jupyterapp.shell.collapseLeft();
                const panel = await jupyterapp.commands.execute("docmanager:open", {
                    path: name, factory: "Notebook", ...(preference && {kernelPreference: preference}),
                });
                await panel.context.ready;
            }""",
            {"name": name, "preference": preference},
        )
        if kernel:
            self._run("async () => { await jupyterapp.shell.currentWidget.sessionContext.ready; }")
            self.page.wait_for_function(
                "() => jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'",
                timeout=60_000,
            )

    def _settle(self) -> None:
        """Waits for the splash: JupyterLab fails when its theme changes while that is fading."""
        self.page.wait_for_function("document.getElementById('jupyterlab-splash') === null")

    def run_all(self, *, seconds: float = 180) -> None:
        """Runs every cell.  Raises AssertionError when a cell fails."""
        self._run(
            "async () => { await jupyterapp.commands.execute('notebook:run-all-cells'); }", seconds=seconds
        )
        failed = self.page.evaluate(
            """() => Array.from(jupyterapp.shell.currentWidget.content.model.cells)
                .filter(cell => cell.type === "code")
                .flatMap(cell => cell.toJSON().outputs)
                .filter(output => output.output_type === "error")
                .map(output => `${output.ename}: ${output.evalue}`)"""
        )
        assert failed == []

    def printed(self, number: int) -> str:
        """What a cell printed."""
        return self.page.evaluate(
            """number => jupyterapp.shell.currentWidget.content.model.cells.get(number).toJSON().outputs
                .filter(output => output.name === "stdout")
                .map(output => [output.text].flat().join(""))
                .join("")""",
            number,
        )

    def trusted(self) -> bool:
        """Whether JupyterLab trusts every cell of the notebook."""
        return self.page.evaluate(
            """() => Array.from(jupyterapp.shell.currentWidget.content.model.cells)
                .filter(cell => cell.type === "code")
                .every(cell => cell.trusted)"""
        )

    def explorer(self, number: int = 0) -> Explorer:
        """One of the notebook's explorers, brought into view, its picture drawn."""
        root = self.page.locator(".jaxprviz-explorer").nth(number)
        root.wait_for(timeout=30_000)
        root.scroll_into_view_if_needed()
        return Explorer(self.page, root)

    def close(self) -> None:
        """Ends the notebook's kernel and closes the page."""
        self._run("async () => { await jupyterapp.serviceManager.sessions.shutdownAll(); }", seconds=30)
        self.page.close()

    def _run(self, function: str, argument: Any = None, *, seconds: float = 60) -> Any:
        """Awaits a function in the page, at most for a time."""
        return self.page.evaluate(
            f"""([argument, ms]) => Promise.race([
                ({function})(argument),
                new Promise((_, no) => setTimeout(() => no(new Error(`not done after ${{ms}} ms`)), ms)),
            ])""",
            [argument, seconds * 1000],
        )


@dataclass(frozen=True)
class Explorer:
    """The sliders and the picture of one `explore(...)` cell in a page."""

    page: Page
    root: Locator

    @property
    def picture(self) -> Locator:
        return self.root.locator(".jaxprviz-picture > svg")

    @property
    def status(self) -> Locator:
        return self.root.get_by_role("status")

    def slider(self, name: str) -> Locator:
        """A slider's handle, found by its accessible name."""
        return self.root.get_by_role("slider", name=name, exact=True)

    def value(self, name: str) -> int:
        """Where a slider stands."""
        return round(float(self.slider(name).get_attribute("aria-valuenow") or "nan"))

    def press(self, name: str, keys: Sequence[str]) -> None:
        """Presses keys on a slider, as fast as the browser takes them."""
        self.slider(name).focus()
        for key in keys:
            self.page.keyboard.press(key)

    def drag(self, name: str, *fractions: float) -> None:
        """Takes a slider with the mouse and moves it to one place of its track after the other (0 to 1)."""
        handle = self.slider(name)
        handle.scroll_into_view_if_needed()
        box = handle.bounding_box()
        track = handle.locator("xpath=ancestor::*[contains(@class, 'noUi-base')][1]").bounding_box()
        assert box is not None
        assert track is not None
        height = box["y"] + box["height"] / 2
        self.page.mouse.move(box["x"] + box["width"] / 2, height)
        self.page.mouse.down()
        for fraction in fractions:
            self.page.mouse.move(track["x"] + fraction * track["width"], height, steps=10)
        self.page.mouse.up()
