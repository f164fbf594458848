"""What must hold of each generated program."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax.extend.core as jex

from jaxprviz._captures import captures, first_scopes, is_captured
from jaxprviz._flow import Flow, flow
from jaxprviz._placement import placement
from jaxprviz._scope import Scope
from jaxprviz.program import Atom, Body, Program
from random_programs.language import Generated
from random_programs.oracle import Expected, expected


@dataclass
class Tally:
    """What was seen over many programs."""

    pieces: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    inputs: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)
    claims: Counter[str] = field(default_factory=Counter)
    programs: int = 0

    def __str__(self) -> str:
        counters = ("pieces", "functions", "inputs", "names", "claims", "refused")
        told = [f"{self.programs} programs"]
        for name in counters:
            counted = getattr(self, name).most_common()
            told.append(f"  {name}: " + ", ".join(f"{what} {count}" for what, count in counted))
        return "\n".join(told)


# --- every equation once, every edge as in the jaxpr --------------------------------------------------------


def jaxpr_shape(jaxpr: Any) -> Any:
    """A jaxpr as nested tuples: of each equation the primitive, what it reads and makes, and the bodies that it holds.

    Variables are named by where they are bound.  The constants of a jaxpr are told by type alone.
    """
    opened = jaxpr if hasattr(jaxpr, "invars") else jaxpr.jaxpr
    where: dict[Any, Any] = {}
    for var in opened.constvars:
        where[var] = ("constant", _aval(var.aval))
    for position, var in enumerate(opened.invars):
        where[var] = ("input", position)

    def atom(var: Any) -> Any:
        if isinstance(var, jex.Literal):
            return ("literal", _aval(var.aval))
        return where[var]

    equations = []
    for number, equation in enumerate(opened.eqns):
        reads = tuple(map(atom, equation.invars))
        for position, var in enumerate(equation.outvars):
            where[var] = ("result", number, position)
        held = sorted((jaxpr_shape(inner) for inner in _inner(equation.params)), key=repr)
        name = "pmap" if equation.primitive.name == "xla_pmap" else equation.primitive.name
        made = tuple(_aval(var.aval) for var in equation.outvars)
        equations.append((name, reads, made, tuple(held)))
    inputs = tuple(_aval(var.aval) for var in opened.invars)
    return inputs, tuple(equations), tuple(map(atom, opened.outvars))


def _aval(aval: Any) -> Any:
    return tuple(getattr(aval, "shape", ())), str(getattr(aval, "dtype", "")).replace(
        "[('float0', 'V')]", "float0"
    )


def _inner(value: Any) -> Iterator[Any]:
    """The jaxprs in the parameters of an equation."""
    if hasattr(value, "eqns"):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _inner(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _inner(item)


def body_shape(program: Program, number: int, seen: dict[int, Any] | None = None) -> Any:
    """The same of a body of a `Program`."""
    seen = {} if seen is None else seen
    if number in seen:
        return seen[number]
    body = program.bodies[number]
    where: dict[int, Any] = {}
    for constant in body.constants:
        where[constant.variable] = ("constant", _type(body, constant.variable))
    for position, variable in enumerate(body.inputs):
        where[variable] = ("input", position)

    def atom(one: Atom) -> Any:
        return where[one] if isinstance(one, int) else ("literal", (one.type.shape, one.type.dtype))

    equations = []
    for position, equation in enumerate(body.equations):
        reads = tuple(map(atom, equation.operands))
        for place, result in enumerate(equation.results):
            where[result] = ("result", position, place)
        held = sorted((body_shape(program, call.body, seen) for call in equation.calls), key=repr)
        made = tuple(_type(body, result) for result in equation.results)
        equations.append((equation.primitive, reads, made, tuple(held)))
    inputs = tuple(_type(body, variable) for variable in body.inputs)
    seen[number] = inputs, tuple(equations), tuple(map(atom, body.outputs))
    return seen[number]


def _type(body: Body, variable: int) -> Any:
    kind = body.types[variable]
    return kind.shape, kind.dtype


def check_structure(program: Program, jaxpr: Any) -> None:
    assert body_shape(program, program.root) == jaxpr_shape(jaxpr)


def check_folding(before: Program, after: Program) -> None:
    """Folding pmaps takes away the pairs and their adapters, and nothing else."""
    counted = [_counted(program) for program in (before, after)]
    pmaps = counted[1]["pmap"] - counted[0]["pmap"]
    gone, new = counted[0] - counted[1], counted[1] - counted[0]
    assert set(new) <= {"pmap"}, new
    assert gone["shard_map"] == gone["jit"] == pmaps, gone
    assert set(gone) <= {"jit", "shard_map", "squeeze", "broadcast_in_dim"}, gone


def _counted(program: Program) -> Counter[str]:
    """The equations of a program by primitive, each place of a body counted."""
    seen: dict[int, Counter[str]] = {}

    def of(number: int) -> Counter[str]:
        if number not in seen:
            found: Counter[str] = Counter()
            for equation in program.bodies[number].equations:
                found[equation.primitive] += 1
                for call in equation.calls:
                    found += of(call.body)
            seen[number] = found
        return seen[number]

    return of(program.root)


# --- captures -----------------------------------------------------------------------------------------------


def check_captures(generated: Generated, program: Program, tally: Tally) -> None:
    known = expected(generated)
    met = set()
    derived = any(one.function.derived for one in known.values())
    for scope in first_scopes(program):
        if scope.equation is None:
            continue
        told = [is_captured(scope, position) for position in range(len(scope.body.inputs))]
        group = "differentiated" if scope.equation.transforms or derived else "plain"
        for captured in told:
            tally.inputs[f"{group} {'unknown' if captured is None else 'known'}"] += 1
        name = next((name for name in (scope.body.name, scope.equation.name) if name in known), None)
        if name is None:
            continue
        met.add(name)
        _check_scope(scope, known[name], told, tally)
    for name, one in known.items():
        tally.functions[f"{one.function.border} {'met' if name in met else 'not met'}"] += 1


def _check_scope(scope: Scope, known: Expected, told: list[bool | None], tally: Tally) -> None:
    found = captures(scope)
    traced = [capture for capture in found if not capture.constant]
    context = (
        f"{known.function.name}: told {[(one.name, one.constant) for one in found]}, {told}; known: {known}"
    )
    for capture in found:
        tally.names["unnamed" if capture.name is None else "named"] += 1
        if capture.name is None:
            continue
        names = known.baked if capture.constant else known.perhaps
        if capture.constant and not known.baked:
            raise AssertionError(f"a constant that nobody reads: {context}")
        assert _plain(capture.name) in {_plain(name) for name in names}, f"{capture.name}: {context}"
    if known.function.derived:
        assert len(traced) <= known.most, context
        return
    unknown = sum(captured is None for captured in told)
    least = len(known.surely)
    assert len(traced) <= known.most, context
    assert len(traced) + unknown >= least, context
    # Each of those that are surely captured is there: under its name, or without one.
    names = [_plain(capture.name) for capture in traced if capture.name is not None]
    missing = [one for one in known.surely if not {_plain(name) for name in one} & set(names)]
    unnamed = sum(capture.name is None for capture in traced)
    assert len(missing) <= unnamed + unknown, f"{missing} missing, {context}"
    for capture in traced:
        shapes = known.shapes.get(capture.name or "")
        if shapes is not None and not _vmapped(scope):
            assert scope.body.types[capture.variable].shape in shapes, context


def _vmapped(scope: Scope) -> bool:
    here: Scope | None = scope
    while here is not None and here.equation is not None:
        if here.equation.transforms:
            return True
        here = here.parent
    return False


def _plain(name: str) -> str:
    return name.removeprefix("self.")


# --- placement ----------------------------------------------------------------------------------------------


def check_specs(generated: Generated, program: Program) -> None:
    """What enters a device scope lies as the generator's specs say; what is captured is copied whole."""
    known = expected(generated)
    for scope in first_scopes(program):
        placed, call = placement(scope), scope.call
        one = known.get(scope.body.name or "")
        if (
            placed is None
            or call is None
            or one is None
            or one.function.specs is None
            or one.function.derived
        ):
            continue
        if _vmapped(scope):
            continue
        specs = [crossing.layout.spec for crossing in placed.entering]
        own = [tuple(tuple(_axis(name) for name in names) for names in spec) for spec in one.function.specs]
        count = len(own)
        given = [
            tuple(tuple(_axis(name) for name in names) for names in spec or ())
            for spec in specs[len(specs) - count :]
        ]
        assert given == own, (one.function.name, given, own)
        for spec in specs[: len(specs) - count]:
            assert not any(spec or ()), (one.function.name, spec)
        said = {capture.position for capture in captures(scope)}
        assert said <= set(range(len(specs) - count)), (one.function.name, said)


def _axis(name: str) -> str:
    return name


def check_flow(program: Program) -> None:
    """Where JAX's own types tell what varies, no more varies for us; `check` tells that no less does."""
    facts = flow(program)
    devices = [equation.device for body in program.bodies for equation in body.equations if equation.device]
    if not all(device.checked for device in devices):
        return  # copies that one of them makes may differ, which the types of the next one do not know
    scopes = tuple(first_scopes(program))
    if any(_ends_unlike(scope, facts) for scope in scopes):
        return
    for scope in scopes:
        told = facts.of(scope)
        assert len(told) == len(scope.body.types)
        if not any(spread.axes for spread in told):
            continue
        for variable, (spread, kind) in enumerate(zip(told, scope.body.types, strict=True)):
            beyond = spread.varying - set(kind.varying)
            assert not beyond, (scope.title(), variable, kind, spread)


def _ends_unlike(scope: Scope, facts: Flow) -> bool:
    """Whether a loop in a scope may end after other steps on one device than on another.

    Its results may differ then, those that it only counts too.  Of these JAX's types do not know.
    """
    loops = (child for child in scope.children() if child.call is not None and child.call.label == "cond")
    return any(
        facts.of(child)[variable].varying
        for child in loops
        for variable in child.body.outputs
        if isinstance(variable, int)
    )


# --- pictures -----------------------------------------------------------------------------------------------

_NODE = re.compile(r'^\s*"?([\w./]+)"?\s*\[', re.MULTILINE)
_EDGE = re.compile(r'^\s*"?([\w./]+)"?(?::\w+)*\s*->\s*"?([\w./]+)"?(?::\w+)*', re.MULTILINE)


def check_dot(text: str) -> None:
    """Each edge joins two boxes that are there."""
    nodes = set(_NODE.findall(text))
    for tail, head in _EDGE.findall(text):
        assert tail in nodes, tail
        assert head in nodes, head
