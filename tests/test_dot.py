"""Pictures as DOT text, of programs that are made by hand: no JAX is asked, so no version of it matters."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from jaxprviz import _label
from jaxprviz._captures import captures
from jaxprviz._dot import dot
from jaxprviz._fold import fold
from jaxprviz._json import to_json
from jaxprviz._key import legend_dot
from jaxprviz._placement import placement
from jaxprviz._render import render
from jaxprviz._text import one_line
from jaxprviz.program import (
    Atom,
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
    Spec,
    Type,
)


def f32(*shape: int) -> Type:
    return Type("float32", shape, 4)


TWO = Literal("2.0", Type("float32", (), 4, weak=True))


@dataclass
class Maker:
    """A body while it is put together: variables are numbered as they come."""

    name: str
    types: list[Type] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    equations: list[Equation] = field(default_factory=list)

    def variable(self, type: Type) -> int:
        self.types.append(type)
        return len(self.types) - 1

    def constant(self, type: Type, name: str, text: str) -> int:
        self.constants.append(Constant(self.variable(type), name, text))
        return len(self.types) - 1

    def input(self, type: Type, name: str | None = None) -> int:
        self.inputs.append(self.variable(type))
        self.names.append(name)
        return self.inputs[-1]

    def do(self, primitive: str, operands: Sequence[Atom], *types: Type, **more: object) -> tuple[int, ...]:
        results = tuple(self.variable(type) for type in types)
        self.equations.append(Equation(primitive, tuple(operands), results, **more))  # type: ignore[arg-type]
        return results

    def call(
        self,
        primitive: str,
        body: int,
        operands: Sequence[Atom],
        types: Sequence[Type],
        captured: int = 0,
        boundary: Boundary = Boundary.CALL,
        roles: Sequence[Role] = (),
        **more: object,
    ) -> tuple[int, ...]:
        """An equation with one body, wired one to one, whose first `captured` inputs are captured."""
        count = len(operands)
        held = Call(
            body,
            "",
            tuple(range(count)),
            tuple(range(len(types))),
            tuple(at < captured for at in range(count)),
            tuple(roles) or (Role.OPERAND,) * count,
        )
        return self.do(primitive, operands, *types, calls=(held,), boundary=boundary, **more)

    def done(self, *outputs: Atom) -> Body:
        return Body(
            self.name,
            tuple(self.types),
            tuple(self.constants),
            tuple(self.inputs),
            tuple(self.names),
            tuple(self.equations),
            outputs,
            (None,) if len(outputs) == 1 else tuple(f"result[{at}]" for at in range(len(outputs))),
        )


def program(*bodies: Body) -> Program:
    return Program(bodies, len(bodies) - 1, "0.10.2", 8)


def pmapped(devices: int, in_specs: Sequence[Spec], out_specs: Sequence[Spec]) -> DeviceScope:
    return DeviceScope(Mesh((("", devices),)), ("",), tuple(in_specs), tuple(out_specs), mapped=True)


SPLIT: Spec = (("",),)


def question(devices: int = 4) -> Program:
    g = Maker("g")
    w, x = g.input(f32(2, 3)), g.input(f32(2, 3), "x")
    source = Source("g", 4, "question.py")
    inner = g.done(*g.do("mul", (w, x), f32(2, 3), source=source))
    f = Maker("f")
    device = pmapped(devices, ((), SPLIT), (SPLIT,))
    operands = (f.input(f32(2, 3), "w"), f.input(f32(devices, 2, 3), "x"))
    made = f.call("pmap", 0, operands, (f32(devices, 2, 3),), 1, Boundary.DEVICE, name="g", device=device)
    outer = f.done(*made)
    main = Maker("f")
    operands = (main.input(f32(2, 3), "w"), main.input(f32(devices, 2, 3), "x"))
    return program(inner, outer, main.done(*main.call("jit", 1, operands, (f32(devices, 2, 3),), name="f")))


def nested() -> Program:
    """Two variables of f are captured through three functions."""
    inner = Maker("inner")
    a, b, x = inner.input(f32(3)), inner.input(f32(3)), inner.input(f32(3), "x")
    (y,) = inner.do("mul", (x, a), f32(3))
    bodies = [inner.done(*inner.do("sub", (y, b), f32(3)))]
    for name in ("middle", "outer"):
        made = Maker(name)
        operands = (made.input(f32(3)), made.input(f32(3)), made.input(f32(3), "x"))
        bodies.append(
            made.done(*made.call("jit", len(bodies) - 1, operands, (f32(3),), 2, name=bodies[-1].name))
        )
    f = Maker("f")
    operands = tuple(f.input(f32(3), name) for name in ("a", "b", "x"))
    return program(*bodies, f.done(*f.call("jit", 2, operands, (f32(3),), 2, name="outer")))


def scan() -> Program:
    step = Maker("step")
    w, h, x = step.input(f32(4, 4)), step.input(f32(4), "h"), step.input(f32(4), "x")
    (z,) = step.do("dot_general", (h, w), f32(4))
    (y,) = step.do("add", (z, x), f32(4))
    (total,) = step.do("reduce_sum", (y,), f32())
    rnn = Maker("rnn")
    operands = (rnn.input(f32(4, 4), "w"), rnn.input(f32(4), "h0"), rnn.input(f32(6, 4), "xs"))
    made = rnn.call(
        "scan",
        0,
        operands,
        (f32(4), f32(6)),
        1,
        Boundary.LOOP,
        (Role.CONST, Role.CARRY, Role.SLICED),
        params=(("length", "6"),),
    )
    return program(step.done(y, total), rnn.done(*made))


def cond() -> Program:
    """Each branch captures another variable, and each has both among its inputs."""
    branches = []
    for used, primitive in ((1, "add"), (0, "mul")):
        branch = Maker("<lambda>")
        inputs = [branch.input(f32(3)), branch.input(f32(3)), branch.input(f32(3), "x")]
        branches.append(branch.done(*branch.do(primitive, (inputs[2], inputs[used]), f32(3))))
    f = Maker("f")
    p = f.input(Type("int32", (), 4), "p")
    operands = (p, *(f.input(f32(3), name) for name in ("w", "b", "x")))
    calls = tuple(
        Call(at, label, (1, 2, 3), (0,), captured, (Role.OPERAND,) * 3)
        for at, (label, captured) in enumerate(
            (("false", (False, True, False)), ("true", (True, False, False)))
        )
    )
    return program(*branches, f.done(*f.do("cond", operands, f32(3), calls=calls, boundary=Boundary.BRANCH)))


def mesh() -> Program:
    block = Maker("block")
    w, x = block.input(f32(3, 5)), block.input(f32(2, 3), "x")
    (y,) = block.do("dot_general", (x, w), f32(2, 5))
    inner = block.done(*block.do("psum", (y,), f32(2, 5), axes=("model",)))
    f = Maker("f")
    specs = (((), ()), (("data",), ("model",)))
    device = DeviceScope(Mesh((("data", 4), ("model", 2))), ("data", "model"), specs, ((("data",), ()),))
    operands = (f.input(f32(3, 5), "w"), f.input(f32(8, 6), "x"))
    made = f.call("shard_map", 0, operands, (f32(8, 5),), 1, Boundary.DEVICE, name="block", device=device)
    return program(inner, f.done(*made))


def constant() -> Program:
    g = Maker("g")
    table = g.constant(f32(100, 3), "TABLE", "[[1. 1. 1.] ...]")
    x = g.input(f32(100, 3), "x")
    (y,) = g.do("mul", (x, TWO), f32(100, 3))
    inner = g.done(*g.do("add", (y, table), f32(100, 3)))
    f = Maker("f")
    device = pmapped(4, (SPLIT,), (SPLIT,))
    made = f.call(
        "pmap",
        0,
        (f.input(f32(4, 100, 3), "x"),),
        (f32(4, 100, 3),),
        0,
        Boundary.DEVICE,
        name="g",
        device=device,
    )
    return program(inner, f.done(*made))


def other_axes() -> Program:
    """A pmap as the outermost function: axis 1 in, one copy out."""
    f = Maker("f")
    w, x = f.input(f32(3), "w"), f.input(f32(3), "x")
    (y,) = f.do("mul", (w, x), f32(3))
    (total,) = f.do("psum", (y,), f32(3), axes=("i",))
    main = Maker("f")
    split: Spec = ((), ("i",))
    device = DeviceScope(Mesh((("i", 4),)), ("i",), ((), split), (split, ()), mapped=True)
    operands = (main.input(f32(3), "w"), main.input(f32(3, 4), "x"))
    made = main.call("pmap", 0, operands, (f32(3, 4), f32(3)), 0, Boundary.DEVICE, name="f", device=device)
    return program(f.done(y, total), main.done(*made))


ODD = '<script>alert("1")</script> & \\N "θ×→" {a|b}\nsecond line \x07 😀'


def odd_names() -> Program:
    g = Maker(ODD)
    x = g.input(f32(3), "<b>&amp;\\N")
    inner = g.done(*g.do("custom<1>", (x,), f32(3), params=(("code", '"\\"\n&lt;'),)))
    f = Maker("f")
    return program(inner, f.done(*f.call("jit", 0, (f.input(f32(3), "x"),), (f32(3),), name=ODD)))


def unknown() -> Program:
    """A primitive that nobody knows: its bodies are found, their wiring is not."""
    k = Maker("kernel")
    x = k.input(f32(8), "x_ref")
    inner = k.done(*k.do("neg", (x,), f32(8)))
    f = Maker("f")
    held = Call(0, "", (None,), (None,), (None,), (Role.UNKNOWN,))
    made = f.do("mystery", (f.input(f32(8), "x"),), f32(8), calls=(held,), boundary=Boundary.UNKNOWN)
    return program(inner, f.done(*made))


def leftovers() -> Program:
    """Unused inputs, an operand read twice, effects, two results, and outputs that are inputs or numbers."""
    g = Maker("g")
    a, dead = g.input(f32(3), "a"), g.input(f32(3), "dead")
    (twice,) = g.do("add", (a, a), f32(3))
    inner = g.done(a, twice, TWO)
    assert dead not in (a, twice)
    f = Maker("f")
    x, y = f.input(f32(4), "x"), f.input(f32(4), "y")
    f.input(f32(4), "never")
    f.do("debug_print", (x,), effects=("Debug",))
    f.do("debug_print", (y,), effects=("Debug",))
    first, second = f.do("split", (y,), f32(2), f32(2))
    made = f.call("jit", 0, (x, y), (f32(4), f32(4), f32()), name="g")
    (difference,) = f.do("sub", (second, first), f32(2))
    return program(inner, f.done(x, *made, difference))


def fan_out(layers: int = 12) -> Program:
    f = Maker("f")
    w, x = f.input(f32(3, 3), "w"), f.input(f32(3), "x")
    for _ in range(layers):
        (x,) = f.do("dot_general", (x, w), f32(3))
        (x,) = f.do("tanh", (x,), f32(3))
    return program(f.done(x))


def siblings() -> Program:
    bodies, f = [], Maker("f")
    w, v, x = (f.input(f32(4, 3), name) for name in ("w", "v", "x"))
    results: list[int] = []
    for at, (name, captured) in enumerate((("g", w), ("h", v))):
        inner = Maker(name)
        operands = (inner.input(f32(4, 3)), inner.input(f32(3), "x"))
        bodies.append(inner.done(*inner.do("add", operands, f32(4, 3))))
        device = pmapped(4, ((), SPLIT), (SPLIT,))
        results += f.call(
            "pmap", at, (captured, x), (f32(4, 4, 3),), 1, Boundary.DEVICE, name=name, device=device
        )
    return program(*bodies, f.done(*results))


PROGRAMS: dict[str, Callable[[], Program]] = {
    "question": question,
    "nested": nested,
    "scan": scan,
    "cond": cond,
    "mesh": mesh,
    "constant": constant,
    "other_axes": other_axes,
    "odd_names": odd_names,
    "unknown": unknown,
    "leftovers": leftovers,
    "fan_out": fan_out,
    "siblings": siblings,
    "flat": lambda: fan_out(1500),
}


def picture(drawn: Program, **choices: object) -> str:
    return dot(drawn, fold(drawn, **choices), captures, placement)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.dot", picture(PROGRAMS[name]()))


def test_legend(golden: Callable[[str, str], None]) -> None:
    golden("legend.dot", legend_dot())


def edges(text: str, *, hidden: bool = False) -> list[tuple[str, str, str]]:
    """Tail, head and attributes of the edges of a DOT text."""
    found = re.findall(r"^  (\w+)(?::\w+)* -> (\w+)(?::\w+)* \[(.*)\]$", text, re.MULTILINE)
    return [edge for edge in found if hidden or "style=invis" not in edge[2]]


def orange(text: str) -> set[tuple[str, str]]:
    return {(tail, head) for tail, head, attributes in edges(text) if "#D55E00" in attributes}


def test_captured_way() -> None:
    """A captured variable is orange and dashed from where it is bound through each boundary to its use."""
    text = picture(nested())
    expected = set()
    for argument, use in (("0", "e_0_0_0_0"), ("1", "e_0_0_0_1")):
        way = [f"a_{argument}", *(f"d_{scope}_{argument}" for scope in ("0", "0_0", "0_0_0")), use]
        expected |= set(itertools.pairwise(way))
    assert orange(text) == expected
    assert all("dashed" in attributes for _, _, attributes in edges(text) if "#D55E00" in attributes)


def test_captured_by_folded() -> None:
    """A folded scope says what it captures, and the captured line ends at it."""
    text = picture(question(), closed=["0/0"])
    assert orange(text) == {("a_0", "e_0_0")}
    assert "captured: w" in text


def test_branches() -> None:
    """A branch shows the capture of its own alone."""
    text = picture(cond())
    assert orange(text) == {
        ("a_1", "d_0_in_1"),
        ("d_0_in_1", "d_0c1_0"),
        ("d_0c1_0", "e_0c1_0"),
        ("a_2", "d_0_in_2"),
        ("d_0_in_2", "d_0_1"),
        ("d_0_1", "e_0_0"),
    }


def test_outputs_that_are_inputs() -> None:
    """An output that is an input comes straight from it; a number stands in the result."""
    found = {(tail, head) for tail, head, _ in edges(picture(leftovers()))}
    results = {(tail, head) for tail, head in found if head.startswith("r_")}
    assert results == {("a_0", "r_0"), ("d_3_0", "r_1"), ("e_3_0", "r_2"), ("e_4", "r_4")}
    (number,) = re.findall(r"^ *r_3 .*$", picture(leftovers()), re.MULTILINE)
    assert "<B>2.0</B>" in number


def test_twice() -> None:
    """An operand that is the same variable twice is one line that says so."""
    assert [
        attributes
        for tail, head, attributes in edges(picture(leftovers()))
        if (tail, head) == ("d_3_0", "e_3_0")
    ] == ['label=<&#160;×2> tooltip="a: f32[3]"']


def test_wide_values_are_copied() -> None:
    """A value with many uses is drawn again beside each use but the first."""
    text = picture(fan_out())
    tails = [tail for tail, head, _ in edges(text) if tail == "a_0" or tail.startswith("k_a_0")]
    assert len(tails) == len(set(tails)) == 12


@pytest.mark.parametrize("name", PROGRAMS)
def test_edges_stand_last_and_lead_to_boxes(name: str) -> None:
    """All edges stand after all frames, at the outermost level, and their ends are boxes of the picture."""
    text = picture(PROGRAMS[name]())
    boxes = set(re.findall(r"^ +(\w+) \[id=", text, re.MULTILINE))
    found = edges(text, hidden=True)
    assert {end for tail, head, _ in found for end in (tail, head)} <= boxes
    assert len(found) == text.count(" -> ")
    assert "subgraph" not in text[text.index(" -> ") :]


SCRIPT = """
import sys
from jaxprviz._captures import captures
from jaxprviz._dot import dot
from jaxprviz._fold import fold
from jaxprviz._json import from_json
from jaxprviz._placement import placement
for text in sys.stdin.read().split("\\0"):
    program = from_json(text)
    sys.stdout.buffer.write(dot(program, fold(program), captures, placement).encode())
assert "jax" not in sys.modules
"""


def test_same_bytes() -> None:
    """The text does not depend on the process, and drawing does not import JAX."""
    programs = [make() for make in PROGRAMS.values()]
    given = "\0".join(to_json(drawn) for drawn in programs).encode()
    for seed in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=given,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        assert made.stdout.decode() == "".join(map(picture, programs))


SVG = "{http://www.w3.org/2000/svg}"


def shapes(root: ElementTree.Element, kind: str) -> Iterable[ElementTree.Element]:
    return (group for group in root.iter(f"{SVG}g") if group.get("class") == kind)


def points(path: str) -> list[tuple[float, float]]:
    """Points along a path of Bézier curves."""
    numbers = [float(text) for text in re.findall(r"-?[\d.]+", path)]
    ends = list(zip(numbers[::2], numbers[1::2], strict=True))
    found = []
    for at in range(0, len(ends) - 3, 3):
        for step in range(21):
            share = step / 20
            weights = ((1 - share) ** 3, 3 * share * (1 - share) ** 2, 3 * share**2 * (1 - share), share**3)
            curve = list(zip(weights, ends[at : at + 4], strict=True))
            found.append((sum(w * x for w, (x, _) in curve), sum(w * y for w, (_, y) in curve)))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_line_crosses_a_title(name: str) -> None:
    """Drawn by Graphviz: every box and line is there, and no line runs through the title of a frame."""
    text = picture(PROGRAMS[name]())
    root = ElementTree.fromstring(render(text))
    visible = {group.get("id") for group in shapes(root, "node")}
    titles = [group for group in shapes(root, "node") if (group.get("id") or "").startswith("ts")]
    assert set(re.findall(r"^ +([acdehkrx]_\w+) \[id=", text, re.MULTILINE)) <= visible
    lines = [path.get("d", "") for group in shapes(root, "edge") for path in group.iter(f"{SVG}path")]
    assert len(lines) == len(edges(text))
    for title in titles:
        words = list(title.iter(f"{SVG}text"))
        if not words:
            continue
        areas = [
            (float(word.get("x", "0")), float(word.get("y", "0")), _label.width(f"<{word.text}>", 11))
            for word in words
        ]
        crossing = [
            path
            for path in lines
            for x, y in points(path)
            if any(left < x < left + width and base - 9 < y < base for left, base, width in areas)
        ]
        assert crossing == []


def test_odd_names_are_text() -> None:
    """Names that hold markup are shown as they are, and inject nothing."""
    root = ElementTree.fromstring(render(picture(odd_names())))
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "g", "title", "polygon", "path", "text", "a"}
    shown = "".join(element.text or "" for element in root.iter(f"{SVG}text")).replace("\xa0", " ")
    assert _label.shorten(one_line(ODD)) in shown
    assert "<b>&amp;\\N" in shown
    tips = [
        element.get("{http://www.w3.org/1999/xlink}title", "").replace("\xa0", " ")
        for element in root.iter()
        if element.tag == f"{SVG}a"
    ]
    assert f"jit {one_line(ODD)}" in tips
    assert 'custom<1>; code="\\"¶&lt;' in tips


@pytest.mark.parametrize(
    ("devices", "cells"),
    [(8, [*map(str, range(8))]), (16, [*map(str, range(16))]), (64, [*map(str, range(14)), "…", "63"])],
)
def test_strip(devices: int, cells: list[str]) -> None:
    """A strip has a cell a device, up to sixteen."""
    text = picture(question(devices))
    (door,) = [line for line in text.splitlines() if line.lstrip().startswith("d_0_0_1 [")]
    assert re.findall(r">(\d+|…)</FONT></TD>", door) == cells
    assert "axis 0 split: f32[2,3] on each" in door
