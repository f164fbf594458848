"""The project's own files agree with each other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
import urllib.parse
from pathlib import Path

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement

pytestmark = pytest.mark.locked

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NAME = PROJECT["project"]["urls"]["Repository"].removeprefix("https://github.com/")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LOCKS = [ROOT / "requirements.lock", *sorted((ROOT / "tools" / "lanes").glob("*.txt"))]

_BADGE = re.compile(r"https://(?:mybinder\.org/v2|colab\.research\.google\.com/github)/[^\s)\"'\\]+")
_PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[0-9][0-9a-z.+!]*)(?: ; (?P<marker>.+))?")


def badges(notebook: str) -> set[str]:
    """The addresses that open a notebook on Binder and on Colab."""
    return {
        f"https://mybinder.org/v2/gh/{NAME}/main?urlpath=lab/tree/notebooks/{notebook}",
        f"https://colab.research.google.com/github/{NAME}/blob/main/notebooks/{notebook}",
    }


def badges_in(text: str) -> set[str]:
    return {urllib.parse.unquote(address) for address in _BADGE.findall(text)}


def pins(path: Path) -> dict[str, tuple[str, str | None]]:
    """Version and marker of each package that a lock file pins; fails on a line that is no pin."""
    found = {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        pin = _PIN.fullmatch(line)
        assert pin, f"{path.name}: {line!r} is no pin"
        assert pin["name"] not in found, f"{path.name}: {pin['name']} is pinned twice"
        found[pin["name"]] = (pin["version"], pin["marker"])
    return found


def tracked() -> list[Path]:
    command = ["git", "ls-files", "-z"]
    git = shutil.which("git") and subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if not git or git.returncode != 0:
        pytest.skip("without git and its checkout nothing says which files belong to the project")
    files = [ROOT / name for name in git.stdout.split("\0") if name]
    return [file for file in files if file.is_file()]


def test_readme_badges_open_the_first_lesson_of_this_repository() -> None:
    assert badges_in((ROOT / "README.md").read_text()) == badges("00_start_here.ipynb")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_badges_open_the_notebook_itself(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert badges_in(text) == badges(notebook.name)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_was_run_from_top_to_bottom(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    counts = [
        cell["execution_count"] for cell in cells if cell["cell_type"] == "code" and "".join(cell["source"])
    ]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_metadata_is_valid_on_github(notebook: Path) -> None:
    widgets = json.loads(notebook.read_text())["metadata"].get("widgets", {})
    assert all("state" in stored for stored in widgets.values())


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_lock_holds_pins_alone(lock: Path) -> None:
    found = pins(lock)
    assert found["jaxlib"] == found["jax"]
    for _, marker in found.values():
        assert marker is None or Marker(marker)


def test_lock_has_one_jax_for_all_pythons() -> None:
    assert pins(ROOT / "requirements.lock")["jax"] == ("0.10.2", None)


def test_lanes_hold_their_jax() -> None:
    lanes = {path.stem: f"jax-{pins(path)['jax'][0]}" for path in LOCKS[1:]}
    assert lanes == {name: name for name in ("jax-0.7.2", "jax-0.8.3", "jax-0.9.2", "jax-0.12.0.1")}


def test_lock_satisfies_the_requirements_of_the_project() -> None:
    locked = pins(ROOT / "requirements.lock")
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    assert wanted
    for requirement in map(Requirement, wanted):
        version, _ = locked[requirement.name]
        assert requirement.specifier.contains(version), f"{requirement} is locked to {version}"


def test_oldest_lane_has_the_lower_bounds() -> None:
    """What pyproject.toml promises as the least is what the oldest lane runs with."""
    oldest = pins(ROOT / "tools" / "lanes" / "jax-0.7.2.txt")
    bounds = {
        requirement.name: str(requirement.specifier).removeprefix(">=")
        for requirement in map(Requirement, PROJECT["project"]["dependencies"])
        if requirement.name in ("jax", "ipywidgets", "anywidget")
    }
    assert {name: oldest[name][0] for name in bounds} == bounds


def test_conda_environment_holds_the_pins_of_the_lock() -> None:
    import yaml  # not in the lanes, which leave this test out

    locked = pins(ROOT / "requirements.lock")
    told = yaml.safe_load((ROOT / "environment.yml").read_text())
    *conda, pip = told["dependencies"]
    assert told["channels"] == ["conda-forge", "nodefaults"]
    assert conda == ["python=3.12", "graphviz", "pip"]
    environment = {**default_environment(), "python_full_version": "3.12.0", "python_version": "3.12"}
    for line in pip["pip"]:
        pin = _PIN.fullmatch(line)
        assert pin, line
        assert pin["version"] == locked[pin["name"]][0]
    held = {Requirement(line).name for line in pip["pip"]}
    direct = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["lab"]]
    assert {
        requirement.name
        for requirement in map(Requirement, direct)
        if requirement.marker is None or requirement.marker.evaluate(environment)
    } <= held


def test_binder_builds_the_same_environment() -> None:
    """With a folder binder/ the files of the root are not looked at."""
    assert (ROOT / "binder" / "environment.yml").read_text() == (ROOT / "environment.yml").read_text()


def test_version_is_in_the_changelog() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0] == PROJECT["project"]["version"]


def test_no_file_holds_a_path_of_a_machine_or_the_host_of_a_registry() -> None:
    # Put together here, so that this file does not hold them.
    folders = "|".join(("root", "home", "Users", "work", "tmp/envs"))
    hosts = "|".join(
        map(re.escape, ("pypi" + ".org", "python" + "hosted.org", "npmjs" + ".org", "npmjs" + ".com"))
    )
    found = re.compile(rf"(?<![\w.~+/:-])/(?:{folders})/[\w.-]|{hosts}|--(?:extra-)?index-url\b")
    told = []
    for file in tracked():
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines, start=1):
            if match := found.search(line):
                near = line[max(0, match.start() - 20) : match.end() + 40]
                told.append(f"{file.relative_to(ROOT)}:{number}: {near}")
    assert told == []
