"""Which scopes stand open: within the budget, the telling ones first, in linear time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from jaxprviz._captures import captures
from jaxprviz._dot import dot
from jaxprviz._fold import census, fold
from jaxprviz._placement import placement
from jaxprviz.program import Body, Boundary, Call, DeviceScope, Equation, Mesh, Program, Role, Type

F32 = Type("float32", (3,), 4)


def chain(*equations: Equation, name: str = "f") -> Body:
    """A body whose equations each read the result of the one before."""
    types = (F32,) * (len(equations) + 1)
    return Body(name, types, (), (0,), ("x",), equations, (len(equations),), (None,))


def sine(at: int, **more: object) -> Equation:
    return Equation("sin", (at,), (at + 1,), **more)  # type: ignore[arg-type]


def call(at: int, body: int, captured: bool = False, device: DeviceScope | None = None) -> Equation:
    held = Call(body, "", (0,), (0,), (captured,), (Role.OPERAND,))
    boundary = Boundary.DEVICE if device else Boundary.CALL
    return Equation(
        "pmap" if device else "jit", (at,), (at + 1,), calls=(held,), boundary=boundary, device=device
    )


def program(*bodies: Body) -> Program:
    return Program(bodies, len(bodies) - 1, "0.10.2", 4)


DEVICES = DeviceScope(Mesh((("", 4),)), ("",), (((),),), (((),),), mapped=True)


def boxes(drawn: Program, **choices: object) -> int:
    """The boxes of a picture, doors and titles included."""
    text = dot(drawn, fold(drawn, **choices), captures, placement)  # type: ignore[arg-type]
    return len(re.findall(r"^ +\w+ \[id=", text, re.MULTILINE))


def leaf(length: int = 2) -> Body:
    return chain(*map(sine, range(length)), name="leaf")


def test_all_open_when_small() -> None:
    drawn = program(leaf(), chain(call(0, 0), call(1, 0)))
    found = fold(drawn)
    assert found.open == {(), ((0, 0),), ((1, 0),)}
    assert dict(found.items) == dict.fromkeys(found.open, ((0, 1), (1, 2)))


def test_device_scope_before_others() -> None:
    """A device scope behind two calls stands open, though plain scopes stand before it."""
    big = leaf(20)
    device = chain(*map(sine, range(8)), name="g")
    way = chain(call(0, 1, device=DEVICES), name="way")
    drawn = program(big, device, way, chain(call(0, 0), call(1, 0), call(2, 2)))
    assert fold(drawn, budget=30).open == {(), ((2, 0),), ((2, 0), (0, 0))}


def test_capturing_scope_before_others() -> None:
    drawn = program(leaf(12), chain(call(0, 0), call(1, 0), call(2, 0, captured=True)))
    assert fold(drawn, budget=22).open == {(), ((2, 0),)}


def test_readers_choice() -> None:
    drawn = program(leaf(), chain(call(0, 0), name="g"), chain(call(0, 1), call(1, 1)))
    assert fold(drawn, closed=["0", "1/0"]).open == {(), ((1, 0),)}
    assert fold(drawn, budget=1, open=["1/0"]).open == {(), ((1, 0),), ((1, 0), (0, 0))}
    assert fold(drawn, open=["7/7"]) == fold(drawn)
    assert fold(drawn, open=["0"], closed=["0"]).open == fold(drawn, closed=["0"]).open


def test_long_body() -> None:
    """A long body keeps its ends, and draws what is between them as one box."""
    drawn = program(leaf(10_000))
    assert dict(fold(drawn).items)[()] == (
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 9_997),
        (9_997, 9_998),
        (9_998, 9_999),
        (9_999, 10_000),
    )


def test_long_body_keeps_what_matters() -> None:
    """Runs end at open scopes, at calls and at collectives; each equation is in one box."""
    equations = [sine(at) for at in range(1_000)]
    equations[400] = call(400, 0)
    equations[700] = sine(700, axes=("i",))
    items = dict(fold(program(leaf(), chain(*equations))).items)[()]
    assert items == ((0, 400), (400, 401), (401, 700), (700, 701), (701, 1_000))


def test_budget_holds() -> None:
    """Whatever the shape of the program, the picture has about as many boxes as the budget says."""
    calls = program(leaf(), chain(*(call(at, 0) for at in range(10_000))))
    for drawn in (program(leaf(10_000)), calls, doubling(30)):
        for budget in (20, 60, 200):
            assert boxes(drawn, budget=budget) <= 2 * budget + 20


def doubling(levels: int) -> Program:
    """Each function calls the one below twice: two to the power of `levels` scopes."""
    return program(leaf(), *(chain(call(0, at), call(1, at), name=f"level{at}") for at in range(levels)))


def test_shared_bodies_are_opened_lazily() -> None:
    found = fold(doubling(30))
    assert 10 < len(found.open) < 60
    assert max(map(len, found.open)) < 6


def calls_of(work: Callable[[], object]) -> int:
    """How many Python functions a piece of work calls: the same on every machine, however busy."""
    count = 0

    def profile(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_linear() -> None:
    """Ten times the equations are at most some ten times the work."""
    counts = []
    for length in (2_000, 20_000):
        drawn = program(leaf(), chain(*(call(at, 0) for at in range(length))))
        counts.append(calls_of(lambda drawn=drawn: dot(drawn, fold(drawn), captures, placement)))
    assert counts[1] < 12 * counts[0]


def test_census() -> None:
    assert census([sine(0), call(1, 0), sine(2)]) == (("sin", 2), ("jit", 1))
