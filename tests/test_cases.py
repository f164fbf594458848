"""The programs of tests/cases with their right answers: traced, explained, drawn; nothing is claimed that is wrong."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import pytest

from jaxprviz import draw
from jaxprviz._captures import all_captures, first_scopes, is_captured
from jaxprviz._facts import Ground, Layout
from jaxprviz._flow import flow
from jaxprviz._placement import placement, places
from jaxprviz._render import render
from jaxprviz._scope import Scope
from jaxprviz._words import result_name
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
    check_placement(file.stem, figure.program, case.EXPECT)
    check_varying(figure.program, case.EXPECT)
    check_unknown(figure.program)


def check_unknown(program: Program) -> None:
    """That of every variable it is known whether it is captured, how it crosses a border, and where it differs."""
    spreads = flow(program)
    for scope in first_scopes(program):
        borders = placement(scope)
        unknown = {
            "captured": [at for at in range(len(scope.body.inputs)) if is_captured(scope, at) is None],
            "placed": [
                crossing for crossing in (*borders.entering, *borders.leaving) if crossing.layout.spec is None
            ]
            if borders is not None
            else [],
            "varying": [
                variable
                for variable, spread in enumerate(spreads.of(scope))
                if spread.unknown and not HOST & {equation.primitive for equation in scope.body.equations}
            ],
        }
        assert unknown == {"captured": [], "placed": [], "varying": []}, scope.path


HOST = {"io_callback", "pure_callback"}
"""What a host answers may differ from call to call."""


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


def check_varying(program: Program, expect: dict[str, Any]) -> None:
    """Which named values of the device scopes can differ from device to device."""
    known, found = flow(program), {}
    for scope in first_scopes(program):
        for variable, spread in enumerate(known.of(scope)):
            name = scope.name(variable)
            if spread.axes and name is not None:
                found[name] = not set(spread.axes) <= set(spread.same)
    varying = expect.get("varying", {})
    assert {name: found[name] for name in varying} == varying


NOT_CLAIMED = {
    # Results of the inner function that nothing returns under that name.
    ("08_pmap_out_axes_none_aux", "loss"),
    ("74_grad_pmap_fan_in", "ct"),
    # A number of no type on the mesh: JAX copies it, but nothing in the program says so.
    ("16_explicit_mesh_ok", "scale"),
}
"""Placements that the case tells, and the program does not show."""

NAMED_OTHERWISE = {
    ("03_fori_over_pmap_in_jit", "state"): "s",
    ("07_pmap_in_axes_none", "params.w"): "params['w']",
    ("07_pmap_in_axes_none", "params.b"): "params['b']",
    ("18_auto_mesh_fft_allgather", "x"): "a",
}
"""What stands under another name in the program: that of the function's own argument."""


def check_placement(case: str, program: Program, expect: dict[str, Any]) -> None:
    """How arguments and results lie: at the borders of device scopes, by their types, by what is asked for."""
    said: dict[str, list[Layout | None]] = {}
    for scope in first_scopes(program):
        placed, parent, equation = placement(scope), scope.parent, scope.equation
        if placed is None or parent is None or equation is None:
            continue
        for crossing in placed.entering:
            atom = equation.operands[crossing.position]
            name = parent.name(atom) if isinstance(atom, int) else None
            said.setdefault(name or "", []).append(crossing.layout)
        for crossing in placed.leaving:
            name = result_name(parent, equation.results[crossing.position])
            said.setdefault(name or "", []).append(crossing.layout)
    known, body = places(program).of(Scope.root(program)), program.main
    for name, atom in zip(
        (*body.input_names, *body.output_names), (*body.inputs, *body.outputs), strict=True
    ):
        place = known[atom] if isinstance(atom, int) else None
        if place is not None and (place.ground is not Ground.COMPILER or name not in said):
            said.setdefault(name or "", []).append(None if place.ground is Ground.COMPILER else place.layout)
    wanted: dict[Any, Any] = {
        NAMED_OTHERWISE.get((case, name), name): words
        for name, words in expect.get("placement", {}).items()
        if "constant" not in words and (case, name) not in NOT_CLAIMED
    }
    if len(body.outputs) == 1 and "out" in wanted and "out" not in said:
        wanted["result"] = wanted.pop("out")
    told = {name: [_splits(layout) for layout in layouts] for name, layouts in said.items()}
    wrong = {
        name: (words, told.get(name))
        for name, words in wanted.items()
        if not any(_agrees(words, one) for one in told.get(name, ()))
    }
    assert wrong == {}


_AXIS = re.compile(r"axis (\d+) (?:split )?(?:by|over) ((?:[^,]|, (?!axis|copied|replicated))+)")
_TYPED = re.compile(r"\w+\[([^]]*)\]")
_SIZE = re.compile(r"(?:(\w+)[=(])?(\d+)")


def _splits(layout: Layout | None) -> dict[int, tuple[tuple[str, int], ...]] | None:
    """For each axis of the array that is split, the mesh axes and their sizes; None: the compiler decides."""
    if layout is None or layout.spec is None or layout.free:
        return None
    return {
        axis: tuple((name, layout.mesh.length(name)) for name in names)
        for axis, names in enumerate(layout.spec)
        if names
    }


def _agrees(words: str, told: dict[int, tuple[tuple[str, int], ...]] | None) -> bool:
    """Whether what is said is what the words of a case say; a case may leave out names or sizes."""
    if told is None:
        return words == "decided by the compiler"
    typed = _TYPED.fullmatch(words)
    if typed:
        splits = {axis: size.split("@")[1] for axis, size in enumerate(typed[1].split(",")) if "@" in size}
    else:
        splits = {int(axis): by for axis, by in _AXIS.findall(words)}
    if not splits and not words.startswith(("copied whole", "replicated")):
        return False
    return splits.keys() == told.keys() and all(_same_axes(by, told[axis]) for axis, by in splits.items())


def _same_axes(words: str, told: tuple[tuple[str, int], ...]) -> bool:
    found = _SIZE.findall(words)
    if not found:
        return words.split() == [name for name, _ in told]
    return len(found) == len(told) and all(
        int(size) == length and (not name or name == of)
        for (name, size), (of, length) in zip(found, told, strict=True)
    )


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
