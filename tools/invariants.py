"""What has to hold of any jaxpr that is read, whatever the program: no oracle is needed.

`problems(jaxpr)` gives a jaxpr to every stage of jaxprviz and compares what comes out with the jaxpr itself
and with JAX's own walk over it.
"""

from __future__ import annotations

import math
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax._src import core

from jaxprviz import _jax
from jaxprviz._captures import all_captures, captures, first_scopes, is_captured, is_residual
from jaxprviz._describe import describe
from jaxprviz._dot import dot
from jaxprviz._flow import Flow
from jaxprviz._fold import fold
from jaxprviz._json import from_json, to_json
from jaxprviz._placement import own_mesh, placement
from jaxprviz._pmap import fold_pmaps
from jaxprviz._read import read
from jaxprviz._scope import Scope
from jaxprviz.program import Atom, Body, Boundary, Equation, Kind, Program, Role, Type

SLOW = 2.0
"""Seconds that no stage may take."""

SLOW_EQUATION = 2e-3
"""Seconds an equation that no stage may take, once it takes `NOTICED`."""

NOTICED = 0.3


@dataclass(frozen=True)
class Problem:
    """Something that does not hold.

    Attributes:
        kind: which rule, and where in the code or at which primitive: problems of one kind have one cause.
        text: what was found.
    """

    kind: str
    text: str


def problems(jaxpr: Any, name: str | None = None, names: Mapping[int, str] | None = None) -> list[Problem]:
    """What does not hold of one closed jaxpr."""
    found: list[Problem] = []

    def stage(title: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        try:
            result = work()
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{title}: {type(error).__name__} in {where.name}, line {where.lineno}"
            found.append(Problem(kind, traceback.format_exc()))
            return None
        took = time.process_time() - start
        if took > SLOW or (took > NOTICED and took > SLOW_EQUATION * count_equations(jaxpr)):
            found.append(Problem(f"{title}: slow", f"{took:.2f} s for {count_equations(jaxpr)} equations"))
        return result

    def rules(title: str, check: Callable[[], Iterator[Problem]]) -> None:
        found.extend(stage(title, lambda: list(check())) or ())

    whole = stage("read", lambda: read(jaxpr, name, names))
    if whole is None:
        return found
    rules("walk", lambda: same_walk(whole, jaxpr))
    program = stage("fold_pmaps", lambda: fold_pmaps(whole))
    for view in {id(one): one for one in (whole, program) if one is not None}.values():
        rules("wiring", lambda view=view: wiring(view))
        rules("captures", lambda view=view: capture_types(view))
        rules("placement", lambda view=view: placements(view))
        rules("flow", lambda view=view: flows(view))
        rules("describe", lambda view=view: sentences(view))
        for budget in (60, 7):
            rules("dot", lambda view=view, budget=budget: dot_text(picture(view, budget)))
        again = stage("json", lambda view=view: from_json(to_json(view)))
        if again is not None and again != view:
            found.append(Problem("json: not the same program", ""))
    return found


def picture(program: Program, budget: int = 60) -> str:
    return dot(program, fold(program, budget=budget), captures, placement)


# --- the reader against JAX's own walk ----------------------------------------------------------------------


def count_equations(jaxpr: Any) -> int:
    """The equations of all distinct jaxprs."""
    return sum(len(one.eqns) for one in distinct(jaxpr))


def distinct(jaxpr: Any) -> Iterator[Any]:
    seen: set[int] = set()
    stack = [_jax.open_jaxpr(jaxpr)]
    while stack:
        one = stack.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            stack.extend(inner for equation in one.eqns for inner in core.jaxprs_in_params(equation.params))


def same_walk(program: Program, jaxpr: Any) -> Iterator[Problem]:
    """The bodies against JAX's own walk: each equation once, with the jaxpr's operands, results and types."""
    seen: set[tuple[int, int]] = set()
    stack = [(program.root, _jax.open_jaxpr(jaxpr))]
    while stack:
        number, one = stack.pop()
        if (number, id(one)) in seen:
            continue
        seen.add((number, id(one)))
        body = program.bodies[number]
        if len(body.equations) != len(one.eqns):
            yield Problem("walk: number of equations", f"{len(body.equations)}, not {len(one.eqns)}: {one}")
            continue
        yield from _same_types("inputs", body, body.inputs, one.invars)
        yield from _same_types("outputs", body, body.outputs, one.outvars)
        for mine, theirs in zip(body.equations, one.eqns, strict=True):
            title = theirs.primitive.name
            if mine.primitive != ("pmap" if title == "xla_pmap" else title):
                yield Problem(f"walk: primitive {title}", mine.primitive)
            yield from _same_types(f"operands of {title}", body, mine.operands, theirs.invars)
            yield from _same_types(f"results of {title}", body, mine.results, theirs.outvars)
            held = [_outline(program.bodies[call.body]) for call in mine.calls]
            inner = list(core.jaxprs_in_params(theirs.params))
            left = list(range(len(held)))
            for sub in inner:
                here = next((at for at in left if held[at] == _outline_of(sub)), None)
                if here is None and title.startswith(_JOINING) and len(sub.eqns) <= 1:
                    continue  # told in a word: a scatter by `add`
                if here is None:
                    yield Problem(f"walk: bodies of {title}", f"missing: {_outline_of(sub)}")
                    continue
                left.remove(here)
                stack.append((mine.calls[here].body, sub))


_JOINING = ("scatter", "reduce", "select_and_scatter")


def _outline(body: Body) -> tuple[Any, ...]:
    names = tuple("xla_pmap" if one.primitive == "pmap" else one.primitive for one in body.equations)
    return (len(body.inputs), len(body.outputs), names)


def _outline_of(jaxpr: Any) -> tuple[Any, ...]:
    one = _jax.open_jaxpr(jaxpr)
    return (len(one.invars), len(one.outvars), tuple(equation.primitive.name for equation in one.eqns))


def _same_types(title: str, body: Body, mine: tuple[Atom, ...], theirs: Any) -> Iterator[Problem]:
    if len(mine) != len(theirs):
        yield Problem(f"walk: number of {title}", f"{len(mine)}, not {len(theirs)}")
        return
    for atom, var in zip(mine, theirs, strict=True):
        kind = type_of(body, atom)
        shape = getattr(var.aval, "shape", None)
        if shape is None:
            continue
        if tuple(map(str, kind.shape)) != tuple(map(str, shape)) or kind.dtype != _dtype(var.aval):
            yield Problem(f"walk: types of {title}", f"{kind}, not {var.aval}")


def _dtype(aval: Any) -> str:
    return "float0" if aval.dtype == jax.dtypes.float0 else str(aval.dtype)


def type_of(body: Body, atom: Atom) -> Type:
    return body.types[atom] if isinstance(atom, int) else atom.type


# --- wiring -------------------------------------------------------------------------------------------------


def wiring(program: Program) -> Iterator[Problem]:
    """Each input of a body has the type of the operand that feeds it; each result that of its output."""
    for body in program.bodies:
        bound: set[int] = {*body.inputs, *(constant.variable for constant in body.constants)}
        for equation in body.equations:
            for atom in equation.operands:
                if isinstance(atom, int) and atom not in bound:
                    yield Problem(f"wiring: {equation.primitive} reads what is not bound yet", str(equation))
            bound.update(equation.results)
            for number, call in enumerate(equation.calls):
                held = program.bodies[call.body]
                where = f"{equation.primitive} {call.label}".strip()
                lengths = (len(call.inputs), len(call.captured), len(call.roles), len(call.outputs))
                wanted = (len(held.inputs),) * 3 + (len(equation.results),)
                if lengths != wanted:
                    yield Problem(f"wiring: lengths of {where}", f"{lengths}, not {wanted}")
                    continue
                if equation.boundary is Boundary.KERNEL or equation.boundary is Boundary.DEVICE:
                    continue  # blocks: `placements` looks at those of devices
                yield from _fed(body, equation, number, held)
                yield from _given(body, equation, number, held)
        for atom in body.outputs:
            if isinstance(atom, int) and atom not in bound:
                yield Problem("wiring: an output is not bound", str(body.outputs))


def _fed(body: Body, equation: Equation, number: int, held: Body) -> Iterator[Problem]:
    call = equation.calls[number]
    for position, operand in enumerate(call.inputs):
        if operand is None:
            continue
        outer, inner = (
            type_of(body, equation.operands[operand]),
            type_of(held, held.inputs[position]),
        )
        wanted = outer.shape
        if call.roles[position] is Role.SLICED:
            wanted = outer.shape[1:] if equation.primitive == "scan" else ()
        if (wanted, outer.dtype, outer.kind) != (inner.shape, inner.dtype, inner.kind):
            yield Problem(
                f"wiring: input of {equation.primitive} {call.label}",
                f"input {position}: {inner.short}, fed by {outer.short}",
            )


def _given(body: Body, equation: Equation, number: int, held: Body) -> Iterator[Problem]:
    call = equation.calls[number]
    for result, output in zip(equation.results, call.outputs, strict=True):
        if output is None:
            continue
        outer, inner = body.types[result], type_of(held, held.outputs[output])
        # A scan stacks what its steps return; of other loops (scatter, reduce) each element comes from a step.
        scans, elements = equation.primitive == "scan", equation.primitive not in ("scan", "while")
        stacked = equation.boundary is Boundary.LOOP and (
            (scans and outer.shape[1:] == inner.shape) or (elements and not inner.shape)
        )
        if outer.dtype != inner.dtype or (outer.shape != inner.shape and not stacked):
            yield Problem(
                f"wiring: result of {equation.primitive} {call.label}",
                f"output {output}: {outer.short}, made by {inner.short}",
            )


# --- claims -------------------------------------------------------------------------------------------------


def capture_types(program: Program) -> Iterator[Problem]:
    """A captured variable is, through all calls, of the type that it has where it is bound."""
    for scope in first_scopes(program):
        for position in range(len(scope.body.inputs)):
            if is_captured(scope, position) and is_residual(scope, position):
                yield Problem("captures: residual and captured", scope.title())
    for capture in all_captures(program):
        scope, origin = capture.scope, capture.origin
        inner, outer = scope.body.types[capture.variable], origin.scope.body.types[origin.variable]
        plain = all(
            step.equation is None or step.equation.boundary not in (Boundary.DEVICE, Boundary.KERNEL)
            for step in origin.through
        )
        if plain and (inner.shape, inner.dtype) != (outer.shape, outer.dtype):
            yield Problem(f"captures: type in {_primitive(scope)}", f"{inner.short}, bound as {outer.short}")
        if capture.name is not None and (not capture.name.strip() or " at 0x" in capture.name):
            yield Problem("captures: name", repr(capture.name))


def _primitive(scope: Scope) -> str:
    return "the program" if scope.equation is None else scope.equation.primitive


def placements(program: Program) -> Iterator[Problem]:
    """The block of one device, times the parts, is the whole; and it is what the body sees."""
    for scope in first_scopes(program):
        placed, equation = placement(scope), scope.equation
        if placed is None or equation is None or equation.device is None:
            continue
        mesh = own_mesh(scope, equation.device)
        if not {name for name, _ in mesh.axes} <= {name for name, _ in equation.device.mesh.axes}:
            yield Problem("placement: axes", f"{mesh}, {equation.device.mesh}")
        for crossing in (*placed.entering, *placed.leaving):
            layout = crossing.layout
            if layout.parts is None or layout.local is None:
                continue
            whole = tuple(
                part * size if isinstance(size, int) else None
                for part, size in zip(layout.parts, layout.local, strict=True)
            )
            if None not in whole and whole != layout.type.shape:
                yield Problem("placement: parts", f"{layout}: {layout.local} x {layout.parts}")
            if layout.copies is not None and layout.copies * math.prod(layout.parts) != layout.mesh.size:
                yield Problem("placement: copies", f"{layout}: {layout.copies}")
            if crossing.inside is None or crossing.inner.kind is not Kind.ARRAY:
                continue
            manual = layout.manual.local
            split = next((axis for axis, part in enumerate(layout.parts) if part > 1), None)
            fewer = {manual} | {
                manual[:axis] + manual[axis + 1 :] for axis in range(len(manual or ())) if manual
            }
            seen = fewer if equation.device.mapped else {manual}
            if crossing.inner.shape not in seen:
                yield Problem(
                    f"placement: block of {equation.primitive}",
                    f"{crossing.inner.short}, told as {manual} (split axis {split})",
                )


def flows(program: Program) -> Iterator[Problem]:
    """The dataflow over devices speaks of every variable, and of axes that there are."""
    flow = Flow(program)
    for scope in first_scopes(program):
        told = flow.of(scope)
        if len(told) != len(scope.body.types):
            yield Problem("flow: number of variables", f"{len(told)}, not {len(scope.body.types)}")
        for spread in told:
            if (
                not (spread.varying | spread.unknown) <= frozenset(spread.axes)
                or spread.varying & spread.unknown
            ):
                yield Problem("flow: axes", str(spread))


_WRONG = {
    "None": re.compile(r"(?<![\w'\".])None(?![\w'\"])(?! for certain| of | enters)"),
    "address": re.compile(r"0x[0-9a-f]{6,}"),
    "object": re.compile(r"<(?:function|built-in|bound method|jax\.|module)"),
    "empty": re.compile(r"captures ,|: :|, ,| {2,}(?=\S)(?<!\n  )|\(\)(?= captures)|''"),
}


_WRONG_PARAMS = (_WRONG["address"], _WRONG["object"], re.compile(r"\bnp\.\w+\(|\bdtype\("))


def sentences(program: Program) -> Iterator[Problem]:
    """No word of Python's insides, nothing empty."""
    for body in program.bodies:
        for equation in body.equations:
            for name, text in equation.params:
                if any(pattern.search(text) for pattern in _WRONG_PARAMS):
                    yield Problem(f"params: {name} of {equation.primitive}", text)
    text = describe(program)
    for line in text.splitlines():
        for kind, pattern in _WRONG.items():
            if pattern.search(line.removeprefix("  ")):
                yield Problem(f"describe: {kind}", line)


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_NODE = re.compile(r"^\s*(\w+) \[", re.MULTILINE)
_EDGE = re.compile(r"^\s*(\w+)(?::\w+)* -> (\w+)(?::\w+)* ?(?:\[|$)", re.MULTILINE)
_RANK = re.compile(r"\{rank=same ([\w ]+)\}")
_KEYWORDS = {"graph", "node", "edge"}


def dot_text(text: str) -> Iterator[Problem]:
    """Brackets and quotes are balanced, and every edge joins boxes that there are, each drawn once."""
    bare = _without_html(_QUOTED.sub('""', text))
    if bare is None:
        yield Problem("dot: a label does not end", text)
        return
    for pair in ("{}", "[]"):
        if bare.count(pair[0]) != bare.count(pair[1]):
            yield Problem(f"dot: {pair} not balanced", text)
    nodes = Counter(name for name in _NODE.findall(bare) if name not in _KEYWORDS)
    if more := [name for name, count in nodes.items() if count > 1]:
        yield Problem("dot: boxes drawn twice", f"{more}\n{text}")
    edges = _EDGE.findall(bare)
    if len(edges) != bare.count("->"):
        yield Problem("dot: edges", f"{len(edges)}, not {bare.count('->')}\n{text}")
    ranked = [(name,) for names in _RANK.findall(bare) for name in names.split()]
    lost = {name for names in (*edges, *ranked) for name in names} - nodes.keys()
    if lost:
        yield Problem("dot: edges to nowhere", f"{sorted(lost)}\n{text}")


def _without_html(text: str) -> str | None:
    """DOT text without what stands in HTML labels; None when one does not end."""
    kept, depth, position = [], 0, 0
    while position < len(text):
        letter = text[position]
        if depth == 0 and text.startswith("->", position):
            kept.append("->")
            position += 2
            continue
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth -= 1
        elif depth == 0:
            kept.append(letter)
        position += 1
    return "".join(kept) if depth == 0 else None
