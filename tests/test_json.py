"""Programs as JSON: without loss, the same text every time, and never another error than SaveError."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxprviz._json import decode, encode, from_json, to_json
from jaxprviz.errors import SaveError
from jaxprviz.program import (
    Body,
    Boundary,
    Call,
    Constant,
    DeviceScope,
    Equation,
    Literal,
    Mesh,
    Program,
    Role,
    Source,
    Type,
)

MATRIX = Type("float32", (2, 3), 4)
INNER = Body(
    name="g",
    types=(MATRIX, MATRIX, MATRIX),
    constants=(),
    inputs=(0, 1),
    input_names=(None, "x"),
    equations=(
        Equation("mul", (0, 1), (2,), source=Source("g", 3, "f.py", 3, ("y",))),
        Equation("add", (2, Literal("1.0", Type("float32", weak=True))), (2,), params=(("k", "[1, 2]"),)),
    ),
    outputs=(2,),
    output_names=("result",),
    closure=("w",),
)
OUTER = Body(
    name='f "<script>" \u03b8 \U0001f600\n',
    types=(MATRIX, Type("float32", (4, "n", 3), None, varying=("i",), spec=(("i",), (), ())), MATRIX),
    constants=(Constant(0, "w", "[[1. 2. 3.]]"),),
    inputs=(0, 1),
    input_names=("w", "x"),
    equations=(
        Equation(
            "pmap",
            (0, 1),
            (2,),
            name="g",
            calls=(Call(0, "", (0, None), (0,), (True, None), (Role.CONST, Role.UNKNOWN)),),
            boundary=Boundary.DEVICE,
            device=DeviceScope(Mesh((("", 4),)), ("",), ((), None), (((),),), mapped=True),
        ),
    ),
    outputs=(2, Literal("0", MATRIX)),
    output_names=("result[0]", None),
)
PROGRAM = Program((INNER, OUTER), 1, "0.10.2", 4)


def test_round_trip_keeps_everything() -> None:
    assert from_json(to_json(PROGRAM)) == PROGRAM


def test_text_of_a_small_program() -> None:
    body = Body(None, (Type("int32"),), (), (0,), ("n",), (), (0,), (None,))
    assert to_json(Program((body,), 0, "0.10.2", 1)) == (
        "{\n"
        ' "schema": 1,\n'
        ' "program": {\n'
        '  "bodies": [\n'
        "   {\n"
        '    "name": null,\n'
        '    "types": [{"dtype": "int32"}],\n'
        '    "constants": [],\n'
        '    "inputs": [0],\n'
        '    "input_names": ["n"],\n'
        '    "equations": [],\n'
        '    "outputs": [0],\n'
        '    "output_names": [null]\n'
        "   }\n"
        "  ],\n"
        '  "root": 0,\n'
        '  "jax": "0.10.2",\n'
        '  "devices": 1\n'
        " }\n"
        "}\n"
    )


def test_lines_are_short_and_the_text_is_plain_ascii() -> None:
    text = to_json(PROGRAM)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 112


def test_a_field_with_a_default_may_be_missing_and_may_be_written() -> None:
    short = {"dtype": "float32"}
    long = {"dtype": "float32", "shape": [], "itemsize": None, "weak": False, "varying": [], "spec": None}
    assert decode(Type, short, "type") == decode(Type, {**long, "kind": "array"}, "type") == Type("float32")


@dataclasses.dataclass(frozen=True)
class Older:
    name: str


@dataclasses.dataclass(frozen=True)
class Newer:
    name: str
    sizes: tuple[int, ...] = (1, 2)
    pair: tuple[str, int] | None = None


def test_text_of_an_older_class_is_read_with_the_newer_ones_defaults() -> None:
    assert decode(Newer, encode(Older("a")), "value") == Newer("a")


def test_a_type_that_has_no_json_is_a_mistake_in_the_program() -> None:
    with pytest.raises(TypeError, match="no JSON for"):
        decode(dict[str, int], {}, "value")


def changed(*steps: Any, to: Any) -> str:
    """The JSON of PROGRAM with one place changed; `to` is a function of what stood there."""
    data = json.loads(to_json(PROGRAM))
    place = data
    for step in steps[:-1]:
        place = place[step]
    place[steps[-1]] = to(place.get(steps[-1]) if isinstance(place, dict) else place[steps[-1]])
    return json.dumps(data)


BODY = ("program", "bodies", 1)
EQUATION = (*BODY, "equations", 0)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "it is no JSON (Expecting value: line 1 column 1 (char 0))"),
        ("[1]", "it is not the JSON of a program"),
        ('{"schema": 1}', "it is not the JSON of a program"),
        (changed("schema", to=lambda _: 2), "its schema is 2, and this version of jaxprviz reads schema 1"),
        (
            changed("schema", to=lambda _: True),
            "its schema is true, and this version of jaxprviz reads schema 1",
        ),
        (changed("program", to=lambda _: []), "program is [], not a Program"),
        (changed("program", "root", to=lambda _: "0"), 'program.root is "0", not int'),
        (changed("program", "root", to=lambda _: True), "program.root is true, not int"),
        (changed("program", "root", to=lambda _: 2), "program.root refers to number 2 of 2"),
        (
            changed("program", "colour", to=lambda _: 1),
            'program has "colour", which this version of jaxprviz does not know',
        ),
        (
            changed(*BODY, "types", 0, to=lambda _: {"shape": [2]}),
            "program.bodies[1].types[0] lacks dtype",
        ),
        (
            changed(*BODY, "types", 0, "shape", 1, to=lambda _: 1.5),
            "program.bodies[1].types[0].shape[1] is 1.5, not one of int, str",
        ),
        (
            changed(*EQUATION, "boundary", to=lambda _: "wall"),
            'program.bodies[1].equations[0].boundary is "wall", not one of '
            "call, loop, branch, device, differentiation, kernel, name, unknown",
        ),
        (
            changed(*EQUATION, "device", "mesh", "axes", 0, to=lambda _: ["i"]),
            'program.bodies[1].equations[0].device.mesh.axes[0] is ["i"], not a list of 2',
        ),
        (
            changed(*EQUATION, "calls", 0, "body", to=lambda _: 1),
            "program.bodies[1].equations[0].calls[0].body refers to number 1 of 1",
        ),
        (
            changed(*EQUATION, "calls", 0, "inputs", to=lambda _: [0]),
            "program.bodies[1].equations[0].calls[0].inputs has 1 entries, not 2",
        ),
        (
            changed(*EQUATION, "operands", to=lambda _: [0, 3]),
            "program.bodies[1].equations[0].operands refers to number 3 of 3",
        ),
        (
            changed(*BODY, "input_names", to=lambda _: ["w"]),
            "program.bodies[1].input_names has 1 entries, not 2",
        ),
    ],
)
def test_malformed_text_is_refused_with_the_place(text: str, wrong: str) -> None:
    with pytest.raises(SaveError) as caught:
        from_json(text)
    assert (caught.value.asked, caught.value.wrong) == ("read a program from JSON", wrong)


def test_deep_nesting_is_refused() -> None:
    for depth in (300, 900, 990, 100_000):
        with pytest.raises(SaveError):
            from_json('{"schema": 1, "program": ' + "[" * depth + "]" * depth + "}")


def values(wanted: Any) -> st.SearchStrategy[Any]:
    """Any values of a type, by what its annotations say."""
    arguments = typing.get_args(wanted)
    if isinstance(wanted, types.UnionType):
        return st.one_of([values(member) for member in arguments])
    if typing.get_origin(wanted) is tuple:
        if arguments[1:] == (Ellipsis,):
            return st.lists(values(arguments[0]), max_size=3).map(tuple)
        return st.tuples(*map(values, arguments))
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        hints = typing.get_type_hints(wanted)
        return st.builds(
            wanted, **{field.name: values(hints[field.name]) for field in dataclasses.fields(wanted)}
        )
    if issubclass(wanted, enum.Enum):
        return st.sampled_from(list(wanted))
    plain = {int: st.integers(), str: st.text(max_size=8), bool: st.booleans(), types.NoneType: st.none()}
    return plain[wanted]


def mended(program: Program) -> Program:
    """A program in which what refers to something refers to something that is there."""
    bodies: list[Body] = []
    for body in program.bodies or (INNER,):
        known = len(body.types)

        def numbers(atoms: tuple[Any, ...], known: int = known) -> tuple[Any, ...]:
            kept = [atom for atom in atoms if known or not isinstance(atom, int)]
            return tuple(atom % known if isinstance(atom, int) else atom for atom in kept)

        equations = []
        for equation in body.equations:
            operands, results = numbers(equation.operands), numbers(equation.results)
            calls = []
            for call in equation.calls if bodies else ():
                held = bodies[call.body % len(bodies)]
                calls.append(
                    dataclasses.replace(
                        call,
                        body=call.body % len(bodies),
                        inputs=wrapped(call.inputs, len(held.inputs), len(operands)),
                        captured=fitted(call.captured, len(held.inputs), None),
                        roles=fitted(call.roles, len(held.inputs), Role.UNKNOWN),
                        outputs=wrapped(call.outputs, len(results), len(held.outputs)),
                    )
                )
            device = equation.device and dataclasses.replace(
                equation.device,
                in_specs=fitted(equation.device.in_specs, len(operands), None),
                out_specs=fitted(equation.device.out_specs, len(results), None),
            )
            equations.append(
                dataclasses.replace(
                    equation, operands=operands, results=results, calls=tuple(calls), device=device
                )
            )
        inputs, outputs = numbers(body.inputs), numbers(body.outputs)
        bodies.append(
            dataclasses.replace(
                body,
                constants=tuple(
                    dataclasses.replace(constant, variable=constant.variable % known)
                    for constant in body.constants
                    if known
                ),
                inputs=inputs,
                input_names=fitted(body.input_names, len(inputs), None),
                equations=tuple(equations),
                outputs=outputs,
                output_names=fitted(body.output_names, len(outputs), None),
            )
        )
    return dataclasses.replace(program, bodies=tuple(bodies), root=program.root % len(bodies))


def fitted(items: tuple[Any, ...], count: int, missing: Any) -> tuple[Any, ...]:
    return (*items, *[missing] * count)[:count]


def wrapped(numbers: tuple[int | None, ...], count: int, known: int) -> tuple[int | None, ...]:
    return tuple(None if n is None or not known else n % known for n in fitted(numbers, count, None))


@settings(deadline=None, max_examples=60)
@given(values(Program))
def test_the_conversion_loses_nothing_of_any_values(program: Program) -> None:
    assert decode(Program, json.loads(json.dumps(encode(program))), "program") == program


@settings(deadline=None, max_examples=60)
@given(values(Program).map(mended))
def test_round_trip_of_any_program(program: Program) -> None:
    text = to_json(program)
    again = from_json(text)
    assert again == program
    assert to_json(again) == text


def read_or_refused(text: str) -> None:
    """Reads text that may be mangled: it is a program all the same, or SaveError says that it is none."""
    try:
        program = from_json(text)
    except SaveError:
        return
    assert from_json(to_json(program)) == program


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_mangled_characters_never_raise_anything_else(data: st.DataObject) -> None:
    text = to_json(PROGRAM)
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 20)))
    read_or_refused(text[:start] + data.draw(st.text(max_size=5)) + text[stop:])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_mangled_values_never_raise_anything_else(data: st.DataObject) -> None:
    whole = json.loads(to_json(PROGRAM))
    place = whole
    while True:
        steps = list(place) if isinstance(place, dict) else list(range(len(place)))
        step = data.draw(st.sampled_from(steps))
        inner = place[step]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.integers(0, 5)) == 0:
            break
        place = inner
    place[step] = data.draw(JSON_VALUES)
    read_or_refused(json.dumps(whole))
