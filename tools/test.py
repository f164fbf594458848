"""`make test`: every check of the project, each as one step; all run, even when one fails.

Runs in the environment that tools/environment.py made.  A *lane* is a further one, with another Python or
another JAX; a lane whose Python is not on this machine is reported as not run.  What a step needs is installed while
the steps before it run.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import browser
import pythons
from counts import counted
from environment import LOCK, MAIN, ROOT, Environment, SetupError
from lane import FOLDER, LANES

_LIMIT = 900
"""Seconds that one command may take."""

Variables = dict[str, str]
Command = list[str | Path]


@dataclass
class Outcome:
    """What became of one step.

    Attributes:
        failed: the commands that failed, in words.
        counts: how many tests passed, failed, were skipped.
        missing: why the step could not be run here; None when it was run.
    """

    failed: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    missing: str | None = None

    @property
    def word(self) -> str:
        return "not run" if self.missing else "FAILED" if self.failed else "passed"

    @property
    def note(self) -> str:
        told = [f"{number} {name}" for name, number in self.counts.items()]
        return self.missing or ", ".join((*told, *self.failed))


@dataclass(frozen=True)
class Step:
    """One check.

    Attributes:
        name: how it is chosen on the command line.
        about: what it checks.
        run: runs it in an environment, given the environment variables for its commands.
        prepare: makes that environment, installed; or gives the outcome that says that its Python is not here.
    """

    name: str
    about: str
    run: Callable[[Environment, Variables], Outcome]
    prepare: Callable[[], Environment | Outcome]


def _run(outcome: Outcome, about: str, command: Command, variables: Variables) -> None:
    """Runs one command, shows what it prints, and notes what became of it."""
    print(f"\n$ {' '.join(str(part).removeprefix(f'{ROOT}/') for part in command)}", flush=True)
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    late = threading.Event()

    def stop() -> None:
        late.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(_LIMIT, stop)
    timer.start()
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        for name, number in (counted(line) or {}).items():
            outcome.counts[name] = outcome.counts.get(name, 0) + number
    status = process.wait()
    timer.cancel()
    if late.is_set():
        outcome.failed.append(f"{about}: stopped after {_LIMIT} s")
    elif status != 0:
        outcome.failed.append(f"{about}: exit status {status}")


def _pytest(venv: Environment, *arguments: str) -> Command:
    return [venv.python, "-m", "pytest", "-q", *arguments]


_UNIT = ("tests", "--ignore=tests/browser", "-n", "2", "--dist", "worksteal")
_OF_PROGRAMS = tuple(
    f"tests/test_{name}.py" for name in ("bars", "captures", "cases", "placement", "primitives", "same")
)
"""The tests of what is found out about programs."""

_OF_LANES = (
    *_OF_PROGRAMS,
    *(f"tests/test_{name}.py" for name in ("check", "explore", "found", "json", "trace", "values")),
)
"""The tests of what differs from JAX to JAX."""
_NOTEBOOKS = ("notebooks", "--nbval-current-env", "--nbval-cell-timeout=120", "-n", "2", "--dist", "loadfile")


def _main() -> Environment:
    return MAIN


def _style(venv: Environment, variables: Variables) -> Outcome:
    outcome = Outcome()
    _run(outcome, "ruff check", [venv.command("ruff"), "check", "."], variables)
    _run(outcome, "ruff format", [venv.command("ruff"), "format", "--check", "."], variables)
    return outcome


def _types(venv: Environment, variables: Variables) -> Outcome:
    outcome = Outcome()
    _run(outcome, "pyright", [venv.command("pyright"), "--pythonpath", venv.python], variables)
    return outcome


def _unit(venv: Environment, variables: Variables) -> Outcome:
    outcome = Outcome()
    _run(outcome, "tests", _pytest(venv, *_UNIT), variables)
    return outcome


def _notebooks(venv: Environment, variables: Variables) -> Outcome:
    outcome = Outcome()
    _run(outcome, "notebooks", _pytest(venv, "--nbval", *_NOTEBOOKS), variables)
    return outcome


def _with_chromium() -> Environment:
    browser.ensure(MAIN)
    return MAIN


def _browser(venv: Environment, variables: Variables) -> Outcome:
    outcome = Outcome()
    command = _pytest(venv, "tests/browser", "-n", "2", "--dist", "worksteal")
    _run(outcome, "browser", command, {**variables, browser.VARIABLE: browser.ensure(venv)})
    return outcome


def _constants(venv: Environment, variables: Variables) -> Outcome:
    """What JAX prepares to make its default: array constants stand as literals in the equations."""
    outcome = Outcome()
    command = _pytest(venv, *_OF_PROGRAMS, "-n", "2", "-m", "not locked")
    _run(outcome, "tests", command, {**variables, "JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS": "1"})
    return outcome


def _with_another_jax(venv: Environment, variables: Variables) -> Outcome:
    """The tests, and every notebook with its assertions alone: pictures differ from JAX to JAX."""
    outcome = Outcome()
    _run(outcome, "tests", _pytest(venv, *_OF_LANES, "-n", "2", "-m", "not locked"), variables)
    _run(outcome, "notebooks", _pytest(venv, "--nbval-lax", *_NOTEBOOKS), variables)
    return outcome


def _ready(
    make: Callable[[pythons.Python], Environment], versions: tuple[pythons.Version, ...]
) -> Environment | Outcome:
    """A lane's environment, installed; or the outcome that says that its Python is not here."""
    found = pythons.find(versions)
    if found is None:
        wanted = " or ".join(pythons.text(version) for version in versions)
        return Outcome(missing=f"no Python {wanted} on this machine")
    venv = make(found)
    venv.ensure(found)
    return venv


def _locked() -> Environment | Outcome:
    """The stored outputs hold on another Python too: a newer one where .venv has 3.11, else 3.11."""
    here = pythons.ask(MAIN.python)
    assert here is not None
    versions = ((3, 13), (3, 12), (3, 14)) if here.version == (3, 11) else ((3, 11),)
    lane = FOLDER / "lane.in"
    told = ("--constraint", str(LOCK.relative_to(ROOT)), "--requirement", str(lane.relative_to(ROOT)))

    def locked(python: pythons.Python) -> Environment:
        folder = ROOT / ".lanes" / f"locked-py{pythons.text(python.version)}"
        return Environment(folder, told, (LOCK, lane))

    return _ready(locked, versions)


STEPS = (
    Step("style", "ruff, notebooks too", _style, _main),
    Step("types", "pyright", _types, _main),
    Step("unit", "tests/ without the browser", _unit, _main),
    Step("notebooks", "every notebook run again, its outputs compared", _notebooks, _main),
    Step("browser", "JupyterLab in Chromium", _browser, _with_chromium),
    Step("locked", "the notebooks again with another Python", _notebooks, _locked),
    Step("constants", "array constants as literals in the equations", _constants, _main),
    *(
        Step(
            lane.name,
            lane.about,
            _with_another_jax,
            functools.partial(_ready, lane.environment, lane.pythons),
        )
        for lane in LANES
    ),
)


@contextlib.contextmanager
def _variables() -> Iterator[Variables]:
    """Environment variables for the commands, free of what the user's own settings could change."""
    kept = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "PYTHONPATH")}
    with tempfile.TemporaryDirectory(prefix="jaxprviz-") as folder:
        own = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
        yield {
            **kept,
            **{name: str(Path(folder, name.lower())) for name in own},
            "JAX_PLATFORMS": "cpu",
            "PYTHONUNBUFFERED": "1",
        }


def _do(step: Step, prepared: Future[Environment | Outcome], variables: Variables) -> Outcome:
    print(f"\n=== {step.name}: {step.about}", flush=True)
    try:
        venv = prepared.result()
        return venv if isinstance(venv, Outcome) else step.run(venv, variables)
    except SetupError as error:
        print(error, flush=True)
        return Outcome(failed=[str(error).splitlines()[0]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [step.name for step in STEPS]
    parser.add_argument(
        "steps",
        nargs="*",
        choices=[*names, []],
        metavar="STEP",
        help="the steps to run; all when none is named",
    )
    chosen = parser.parse_args().steps or names
    done: list[tuple[Step, Outcome, float]] = []
    steps = [step for step in STEPS if step.name in chosen]
    with _variables() as variables, ThreadPoolExecutor(1) as installer:
        prepared = [installer.submit(step.prepare) for step in steps]
        for step, ready in zip(steps, prepared, strict=True):
            start = time.monotonic()
            outcome = _do(step, ready, variables)
            done.append((step, outcome, time.monotonic() - start))
    print("\n=== what became of it")
    for step, outcome, seconds in done:
        print(f"{step.name:10} {outcome.word:8} {seconds:5.0f} s  {outcome.note}".rstrip())
    words = [outcome.word for _, outcome, _ in done]
    print("\nSteps:")
    print(f"{words.count('passed')} passed, {words.count('FAILED')} failed, {words.count('not run')} skipped")
    sys.exit("FAILED" in words)


if __name__ == "__main__":
    main()
