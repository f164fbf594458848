"""The scripts behind `make`."""

from __future__ import annotations

import importlib.util
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import environment
import pytest
import pythons
import versions
from counts import counted
from lane import LANES

pytestmark = pytest.mark.locked

ROOT = Path(__file__).parent.parent
_SPEC = importlib.util.spec_from_file_location("make_test", ROOT / "tools" / "test.py")
assert _SPEC is not None
assert _SPEC.loader is not None
make_test = importlib.util.module_from_spec(_SPEC)
sys.modules["make_test"] = make_test
_SPEC.loader.exec_module(make_test)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("12 passed in 3.21s", {"passed": 12}),
        (
            "===== 2 failed, 12 passed, 1 skipped in 63.21s (0:01:03) =====",
            {"failed": 2, "passed": 12, "skipped": 1},
        ),
        ("1 passed, 2 errors in 0.10s", {"passed": 1, "error": 2}),
        ("3 xfailed, 4 warnings in 0.10s", {"xfailed": 3}),
        ("no tests ran in 0.01s", None),
        ("tests/test_tools.py ........ [100%]", None),
        ("we passed 3 of them in 4 s", None),
    ],
)
def test_closing_line_of_pytest(line: str, counts: dict[str, int] | None) -> None:
    assert counted(line) == counts


def test_failing_command_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    outcome = make_test.Outcome()
    code = "print('1 failed, 2 passed in 0.50s'); raise SystemExit(3)"
    make_test._run(outcome, "tests", [sys.executable, "-c", code], dict(os.environ))
    assert (outcome.word, outcome.note) == ("FAILED", "1 failed, 2 passed, tests: exit status 3")
    assert "1 failed, 2 passed in 0.50s" in capfd.readouterr().out


def test_lane_without_its_python_is_not_run() -> None:
    outcome = make_test._ready(lambda python: None, ((3, 99),))
    assert (outcome.word, outcome.note) == ("not run", "no Python 3.99 on this machine")


def test_asking_a_python() -> None:
    here = pythons.ask(sys.executable)
    assert here is not None
    assert here.full == ".".join(map(str, sys.version_info[:3]))
    assert here.version == sys.version_info[:2]
    assert pythons.ask("no-such-python") is None


def test_finding_the_python_that_runs_this() -> None:
    found = pythons.find((sys.version_info[:2],))
    assert found is not None
    assert found.version == sys.version_info[:2]


def _fake(folder: Path, version: str) -> Path:
    """A command that answers like a Python of another version."""
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\necho {version}\necho {path}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("version", ["3.10.13", "3.99.0"])
def test_unsupported_python_gets_one_clear_message(tmp_path: Path, version: str) -> None:
    path = _fake(tmp_path, version)
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "environment.py", f"--python={path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"jaxprviz: {path} is Python {version}; jaxprviz's pinned packages run on Python 3.11 to 3.14.\n"
        "Name another one: make lab PYTHON=python3.12\n"
    )


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[environment.Environment, list[str]]:
    """An environment that installs nothing, and the list of what was to be installed."""
    told: list[str] = []
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(
        environment.Environment, "_install", lambda _, *arguments: told.append(" ".join(arguments))
    )
    lock = tmp_path / "some.lock"
    lock.write_text("a==1\n")
    return environment.Environment(tmp_path / "venv", ("-r", "some.lock"), (lock,), project=False), told


def test_environment_is_made_once_and_again_when_a_file_changes(
    small: tuple[environment.Environment, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    venv, told = small
    venv.ensure()
    assert told == ["-r some.lock"]
    assert venv.python.exists()
    capsys.readouterr()
    venv.ensure()
    assert told == ["-r some.lock"]
    assert capsys.readouterr().out == ""
    venv.files[0].write_text("a==2\n")
    venv.ensure()
    assert told == ["-r some.lock", "-r some.lock"]


def test_environment_is_made_again_when_it_was_moved(
    small: tuple[environment.Environment, list[str]],
) -> None:
    venv, told = small
    venv.ensure()
    moved = environment.Environment(venv.folder.with_name("moved"), venv.install, venv.files, project=False)
    venv.folder.rename(moved.folder)
    moved.ensure()
    assert told == ["-r some.lock", "-r some.lock"]
    assert str(moved.folder) in (moved.folder / "bin" / "activate").read_text()


def test_the_table_of_versions_has_a_row_for_each_lane() -> None:
    rows = versions.rows(versions.README.read_text(encoding="utf-8"))
    assert tuple(rows) == versions.versions()
    pythons_of = {lane.jax: lane.pythons for lane in LANES}
    for jax, row in rows.items():
        _, version, python, *columns, _ = row.split("|")
        assert version.strip() == jax
        ran = tuple(map(int, python.strip().split(".")))[:2]
        assert ran in pythons_of.get(jax, ((3, 11), (3, 12), (3, 13), (3, 14)))
        assert all("run" in column and "FAIL" not in column for column in columns)


def test_each_lane_is_pinned() -> None:
    for lane in LANES:
        pins = [line for line in lane.file.read_text().splitlines() if not line.startswith("#")]
        assert f"jax=={lane.jax}" in pins
        assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", pin)] == []


def test_the_table_of_versions_is_written_between_its_marks() -> None:
    found = {version: f"| {version} | 3.12.1 | 1 run | 1 run |\n" for version in versions.versions()}
    assert versions.rows(f"before\n{versions.table(found)}after\n") == found
