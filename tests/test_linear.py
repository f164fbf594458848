"""Work is linear in the number of distinct equations, and deep nesting is no trouble: counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxprviz import from_json, to_json
from jaxprviz._captures import all_captures, captures
from jaxprviz._describe import describe
from jaxprviz._dot import dot
from jaxprviz._flow import flow
from jaxprviz._fold import fold
from jaxprviz._placement import placement
from jaxprviz._pmap import fold_pmaps
from jaxprviz._read import read
from jaxprviz.program import Body, Boundary, Call, Equation, Program, Role, Type

X = jnp.ones(3)


def steps_of(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work runs: the same on every machine, however busy."""
    count = 0

    def line(_frame: object, event: str, _arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    sys.settrace(line)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


def in_a_row(count: int) -> Callable[..., Any]:
    def f(x: Any, w: Any) -> Any:
        for _ in range(count):
            x = jax.lax.add(x, w)
        return x

    return f


def calls(count: int) -> Callable[..., Any]:
    @jax.jit
    def inner(x: Any, w: Any) -> Any:
        return jnp.tanh(x) * w

    def f(x: Any, w: Any) -> Any:
        for _ in range(count):
            x = inner(x, w)
        return x

    return f


def scans(count: int) -> Callable[..., Any]:
    def f(x: Any, w: Any) -> Any:
        for _ in range(count):
            y = x * w
            x, _ = jax.lax.scan(lambda c, _, y=y: (jnp.sin(c) * y, None), x, None, length=3)
        return x

    return f


WORK: dict[str, Callable[[Any, Program], object]] = {
    "read": lambda jaxpr, program: fold_pmaps(read(jaxpr)),
    "captures": lambda jaxpr, program: all_captures(program),
    "flow": lambda jaxpr, program: flow(program),
    "describe": lambda jaxpr, program: describe(program),
    "draw": lambda jaxpr, program: dot(program, fold(program), captures, placement),
    "json": lambda jaxpr, program: from_json(to_json(program)),
}


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize(("make", "size"), [(in_a_row, 100), (calls, 50), (scans, 10)])
def test_linear(work: str, make: Callable[[int], Callable[..., Any]], size: int) -> None:
    """Four times the equations are at most some four times the work."""
    counts = []
    for times in (1, 4):
        jaxpr = jax.make_jaxpr(make(size * times))(X, X)
        program = fold_pmaps(read(jaxpr))
        WORK[work](jaxpr, program)  # what is kept for the next time
        counts.append(steps_of(lambda jaxpr=jaxpr, program=program: WORK[work](jaxpr, program)))
    assert counts[1] < 4.6 * counts[0]


def test_a_function_that_is_called_often_is_read_once() -> None:
    program = read(jax.make_jaxpr(calls(1_000))(X, X))
    assert [len(body.equations) for body in program.bodies] == [2, 1_000]


def nested(depth: int) -> Program:
    """Functions in each other: each but the innermost captures w, and calls the next one."""
    kind = Type("float32", (3,), 4)
    leaf = Body(
        "f0", (kind,) * 3, (), (0, 1), (None, "x"), (Equation("mul", (1, 0), (2,)),), (2,), ("result",)
    )
    bodies = [leaf]
    for level in range(1, depth):
        held = Call(level - 1, "", (0, 1), (0,), (True, False), (Role.OPERAND, Role.OPERAND))
        names = (None, "x") if level < depth - 1 else ("w", "x")
        call = Equation("jit", (0, 1), (2,), name=f"f{level - 1}", calls=(held,), boundary=Boundary.CALL)
        bodies.append(Body(f"f{level}", (kind,) * 3, (), (0, 1), names, (call,), (2,), ("result",)))
    return Program(tuple(bodies), depth - 1, "0.10.2", 1)


def test_200_functions_in_each_other() -> None:
    program = nested(200)
    found = all_captures(program)
    assert [capture.name for capture in found] == ["w"] * 199
    assert [len(capture.origin.through) for capture in found] == list(range(1, 200))
    assert describe(program).endswith("\n  … and 159 more.")
    assert "f199" in dot(program, fold(program), captures, placement)
    assert from_json(to_json(program)) == program
