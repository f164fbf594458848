"""The programs of tests/cases with their right answers: traced, explained, drawn; nothing is claimed that is wrong."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import pytest

from jaxprviz import draw
from jaxprviz._captures import all_captures, first_scopes, is_captured
from jaxprviz._placement import placement
from jaxprviz._render import render
from jaxprviz._words import layout_text, result_name
from jaxprviz.errors import DevicesError, JaxprvizError
from jaxprviz.program import Program

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.glob("*/*.py"))
PROGRAMS = [file for file in FILES if file.parent.name == "programs"]


ALSO_CAPTURED = {
    # By its notes: the body captures foo's x as well, which is y outside.
    "21_fori_closed_big_const": {"y"},
    # By its notes: in partial(mul, y=x) it is x that is captured.
    "76_method_and_partial": {"x"},
}
"""What a case captures beyond its `captured`."""


def load(file: Path) -> ModuleType:
    """A case; skipped when a package that it needs is missing."""
    spec = importlib.util.spec_from_file_location(f"case_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    return module


def wanted_error(expect: dict[str, Any]) -> bool:
    """Whether this JAX refuses the program."""
    versions = expect.get("raises_by_version", {})
    return bool(versions.get(jax.__version__, expect.get("raises")))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_case(file: Path) -> None:
    case = load(file)
    try:
        fn, args = case.build()
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    try:
        figure = draw(fn, *args)
    except JaxprvizError as error:
        check_refusal(error, case.EXPECT)
        return
    assert figure.program is not None
    assert b"</svg>" in render(figure.dot)
    check_captures(figure.program, case.EXPECT, ALSO_CAPTURED.get(file.stem, set()))
    check_placement(figure.program, case.EXPECT)


def check_refusal(error: JaxprvizError, expect: dict[str, Any]) -> None:
    """That JAX refuses the program as well, and that the message holds the words that it must."""
    words = expect.get("message_says", ())
    # A pmap over more devices than there are is refused here on every JAX; 0.7.2 fails when it runs.
    too_many = isinstance(error, DevicesError) and expect.get("norun")
    assert words or wanted_error(expect) or too_many, f"refused: {error}"
    assert [word for word in words if word not in str(error)] == []


def check_captures(program: Program, expect: dict[str, Any], also: set[str]) -> None:
    """What is captured, by name: all of it is right, and where no input is unknown, it is complete."""
    if "captured" not in expect:
        return
    names = {name for captured in expect["captured"].values() for name in captured}
    names |= {name for captured in expect.get("consts", {}).values() for name in captured}
    roots = {_root(name) for name in names} | also
    captures = [capture for capture in all_captures(program) if capture.name is not None]
    found = {str(capture.name) for capture in captures if not capture.constant}
    if expect["captured"]:
        unknown = any(
            is_captured(scope, position) is None
            for scope in first_scopes(program)
            for position in range(len(scope.body.inputs))
        )
        wanted = {_root(name) for captured in expect["captured"].values() for name in captured}
        missing = wanted - {_root(str(capture.name)) for capture in captures}
        assert not missing or unknown, f"missing {missing}, found {found}"
    assert expect.get("would_capture") or not names or {_root(name) for name in found} <= roots, found


def _root(name: str) -> str:
    return name.removeprefix("self.").split("[")[0].split(".")[0]


def check_placement(program: Program, expect: dict[str, Any]) -> None:
    """The words for arguments and results that enter or leave a device scope (the cases of `programs` have them)."""
    said: dict[str, set[str]] = {}
    for scope in first_scopes(program):
        placed, parent, equation = placement(scope), scope.parent, scope.equation
        if placed is None or parent is None or equation is None:
            continue
        for crossing in placed.entering:
            atom = equation.operands[crossing.position]
            name = parent.name(atom) if isinstance(atom, int) else None
            said.setdefault(name or "", set()).add(_plain(layout_text(crossing.layout)))
        for crossing in placed.leaving:
            name = result_name(parent, equation.results[crossing.position])
            said.setdefault(name or "", set()).add(_plain(layout_text(crossing.layout)))
    for name, words in expect.get("placement", {}).items():
        if (
            name in said
            and words.startswith(("copied whole to", "axis "))
            and " over " not in words.split(",")[0]
        ):
            assert _plain(words) in said[name], (name, words, said[name])


def _plain(words: str) -> str:
    """Words without what may be said or not: the name of a pmap's axis, the word devices."""
    return words.replace(" devices", "").replace("split over ", "split by ").replace("by i=", "by ")


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda file: file.stem)
def test_inside_and_constants(file: Path) -> None:
    case = load(file)
    expect = case.EXPECT
    if not {"inside", "constants", "arguments", "results", "repeats", "collectives"} & set(expect):
        return
    if not expect.get("runs", True):
        return
    fn, args = case.build()
    program = draw(fn, *args).program
    assert program is not None
    if "inside" in expect:
        shapes = {
            parent.name(atom): crossing.inner.shape
            for scope in first_scopes(program)
            if (placed := placement(scope)) is not None
            and (parent := scope.parent) is not None
            and scope.equation is not None
            for crossing in placed.entering
            if isinstance(atom := scope.equation.operands[crossing.position], int)
        }
        assert {name: shapes[name] for name in expect["inside"]} == expect["inside"]
    if "constants" in expect:
        names = {constant.name for body in program.bodies for constant in body.constants}
        assert {name for name in names if name is not None} <= set(expect["constants"])
        assert {*expect["constants"]} <= names | {None}
    if "arguments" in expect:
        assert set(expect["arguments"]) <= set(program.main.input_names)
    if "results" in expect:
        assert list(program.main.output_names) == expect["results"]
    if "repeats" in expect:
        calls = [equation.name for body in program.bodies for equation in body.equations]
        assert {name: calls.count(name) for name in expect["repeats"]} == expect["repeats"]
    if "collectives" in expect:
        there = [
            (equation.primitive.removesuffix("_invariant"), axis)
            for body in program.bodies
            for equation in body.equations
            for axis in equation.axes
        ]
        assert [one for one in expect["collectives"] if one not in there] == []
