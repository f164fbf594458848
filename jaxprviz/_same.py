"""Whether two programs are the same, up to names and up to what was captured or passed.

Two programs are the same when their equations match one by one, in order, under one renaming of the
variables. Where an equation holds bodies its operands may stand in another order, as long as each reaches the
same input of the body with the same role and the same spec: so a variable that is captured, which JAX puts in
front, equals one that is passed.  Names, sources and named scopes do not count; parameters, types, specs and
constants do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxprviz._scope import Scope, path_text
from jaxprviz._text import one_line
from jaxprviz._words import is_outermost_jit, title_of
from jaxprviz.program import Atom, Body, Call, Equation, Literal, Program

_MOST = 5
"""Differences that are listed."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of `same_program`; true when the programs are the same.

    Attributes:
        same: whether they are.
        differences: the first differences, each with the path of the body that it is in; empty when they are.
    """

    same: bool
    differences: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.same

    def __repr__(self) -> str:
        if self.same:
            return "the same program, up to names and up to what is captured or passed"
        return "\n".join(["not the same program:", *(f"  {line}" for line in self.differences)])


def compare(first: Program, second: Program) -> Comparison:
    """Compares two programs; both with their pmaps folded, or neither."""
    found = _Comparer()
    a, b = Scope.root(first), Scope.root(second)
    if found.sizes(a, "arguments", len(a.body.inputs), len(b.body.inputs)):
        found.bodies(a, b, dict(zip(a.body.inputs, b.body.inputs, strict=True)))
    return Comparison(not found.differences, tuple(found.differences[:_MOST]))


Match = dict[int, int]
"""From the variables of a body of the first program to those of the second."""


class _Comparer:
    def __init__(self) -> None:
        self.differences: list[str] = []
        self._done: set[tuple[int, int, tuple[tuple[int, int], ...]]] = set()

    def differ(self, scope: Scope, what: str) -> None:
        where = " in ".join(title_of(step) for step in reversed(_outwards(scope)) if not _repeats(step))
        path = f" (path {path_text(scope.path)})" if scope.path else ""
        self.differences.append(f"in {where}{path}: {what}")

    def sizes(self, scope: Scope, what: str, first: int, second: int) -> bool:
        if first != second:
            self.differ(scope, f"{first} {what} in the first, {second} in the second")
        return first == second

    def bodies(self, a: Scope, b: Scope, match: Match) -> None:
        """Compares two bodies whose inputs are matched."""
        key = (a.number, b.number, tuple(sorted(match.items())))
        if key in self._done or len(self.differences) >= _MOST:
            return
        self._done.add(key)
        for x, y in match.items():
            if _type_text(a.body, x) != _type_text(b.body, y):
                self.differ(
                    a,
                    f"an input is {_type_text(a.body, x)} in the first, "
                    f"{_type_text(b.body, y)} in the second",
                )
        if not self.sizes(a, "constants", len(a.body.constants), len(b.body.constants)):
            return
        for x, y in zip(a.body.constants, b.body.constants, strict=True):
            one, two = (
                f"{_type_text(a.body, x.variable)} {x.text}",
                f"{_type_text(b.body, y.variable)} {y.text}",
            )
            if one != two:
                self.differ(a, f"a constant is {one} in the first, {two} in the second")
            match[x.variable] = y.variable
        if not self.sizes(a, "equations", len(a.body.equations), len(b.body.equations)):
            self._first_other_primitive(a, b)
            return
        for position, (x, y) in enumerate(zip(a.body.equations, b.body.equations, strict=True)):
            before = len(self.differences)
            self._equation(a, b, position, x, y, match)
            if len(self.differences) > before:
                return  # what follows would only repeat this difference
        if self.sizes(a, "results", len(a.body.outputs), len(b.body.outputs)):
            for position, (x, y) in enumerate(zip(a.body.outputs, b.body.outputs, strict=True)):
                if not _same_atom(x, y, match):
                    self.differ(a, f"result {position} is another variable")

    def _first_other_primitive(self, a: Scope, b: Scope) -> None:
        for position, (x, y) in enumerate(zip(a.body.equations, b.body.equations, strict=False)):
            if x.primitive != y.primitive:
                self.differ(
                    a, f"equation {position} is {x.primitive} in the first, {y.primitive} in the second"
                )
                return

    def _equation(self, a: Scope, b: Scope, position: int, x: Equation, y: Equation, match: Match) -> None:
        place = f"equation {position} ({x.primitive})"
        for what, one, two in _properties(a.body, b.body, x, y):
            if one != two:
                self.differ(a, f"{place}: {what} {one} in the first, {two} in the second")
                return
        order = _operand_order(x, y, match)
        if isinstance(order, int):
            what = _atom_text(a, x.operands[order])
            self.differ(a, f"{place}: operand {order}, {what}, {_why(b, x, y, order, match)}")
            return
        for number, (one, two) in enumerate(zip(x.calls, y.calls, strict=True)):
            places = _matched_inputs(one, two, order)
            if places is None or one.outputs != two.outputs:
                self.differ(a, f"{place}: its operands reach the body in another way")
                return
            inside, other = a.child(position, number), b.child(position, number)
            inner = {inside.body.inputs[one]: other.body.inputs[two] for one, two in enumerate(places)}
            self.bodies(inside, other, inner)
        match.update(zip(x.results, y.results, strict=True))


def _properties(a: Body, b: Body, x: Equation, y: Equation) -> list[tuple[str, str, str]]:
    """What has to be equal of two equations, as (what, in the first, in the second)."""
    return [
        ("the primitive is", x.primitive, y.primitive),
        ("the parameters are", _params_text(x), _params_text(y)),
        ("the number of operands is", str(len(x.operands)), str(len(y.operands))),
        (
            "the results are",
            ", ".join(_type_text(a, result) for result in x.results),
            ", ".join(_type_text(b, result) for result in y.results),
        ),
        ("the bodies are", str([call.label for call in x.calls]), str([call.label for call in y.calls])),
        ("the devices are", _device_text(x), _device_text(y)),
        ("the axes are", str(x.axes), str(y.axes)),
        ("the effects are", str(x.effects), str(y.effects)),
    ]


def _params_text(equation: Equation) -> str:
    return ", ".join(f"{name}={text}" for name, text in equation.params) or "none"


def _device_text(equation: Equation) -> str:
    device = equation.device
    if device is None:
        return "none"
    return (
        f"{device.mesh.axes}, manual {device.manual}, results split {device.out_specs}, "
        f"checked {device.checked}"
    )


def _type_text(body: Body, atom: Atom) -> str:
    kind = body.types[atom] if isinstance(atom, int) else atom.type
    varying = "{" + ",".join(kind.varying) + "}" if kind.varying else ""
    return f"{'~' if kind.weak else ''}{kind.short}{varying}"


def _same_atom(x: Atom, y: Atom, match: Mapping[int, int]) -> bool:
    if isinstance(x, Literal) or isinstance(y, Literal):
        return x == y
    return match.get(x) == y


def _operand_order(x: Equation, y: Equation, match: Match) -> list[int] | int:
    """For each operand of the first the matching one of the second; otherwise the first that has none."""
    order: list[int] = []
    for position, atom in enumerate(x.operands):
        candidates = range(len(y.operands)) if x.calls else (position,)
        same = [
            other
            for other in candidates
            if other not in order
            and _same_atom(atom, y.operands[other], match)
            and _way_in(x, position) == _way_in(y, other)
        ]
        if not same:
            return position
        order.append(position if position in same else same[0])
    return order


def _way_in(equation: Equation, operand: int) -> tuple[object, ...]:
    """How an operand enters the equation: its spec, and its role in each body."""
    spec = equation.device.in_specs[operand] if equation.device is not None else None
    roles = tuple(
        call.roles[call.inputs.index(operand)] if operand in call.inputs else None for call in equation.calls
    )
    return (spec, *roles)


def _why(b: Scope, x: Equation, y: Equation, operand: int, match: Match) -> str:
    """Why an operand has no counterpart."""
    if not x.calls:
        return f"is {_atom_text(b, y.operands[operand])} in the second"
    for other, atom in enumerate(y.operands):
        if _same_atom(x.operands[operand], atom, match):
            return f"enters {_way_text(x, operand)} in the first, {_way_text(y, other)} in the second"
    return "is not among the operands of the second"


def _way_text(equation: Equation, operand: int) -> str:
    spec, *roles = _way_in(equation, operand)
    split = "" if spec is None else f" split as {spec}"
    return f"as {', '.join(str(role) for role in roles)}{split}"


def _atom_text(scope: Scope, atom: Atom) -> str:
    if isinstance(atom, Literal):
        return f"the number {atom.text}"
    return one_line(scope.name(atom) or "another variable")


def _matched_inputs(one: Call, two: Call, order: list[int]) -> list[int] | None:
    """For each input of one body the matching one of the other, when operand k is the other's order[k]."""
    left = list(range(len(two.inputs)))
    places: list[int] = []
    for operand in one.inputs:
        wanted = None if operand is None else order[operand]
        same = [place for place in left if two.inputs[place] == wanted]
        if not same:
            return None
        left.remove(same[0])
        places.append(same[0])
    return None if left else places


def _outwards(scope: Scope) -> list[Scope]:
    found: list[Scope] = []
    step: Scope | None = scope
    while step is not None:
        found.insert(0, step)
        step = step.parent
    return found


def _repeats(scope: Scope) -> bool:
    """Whether a scope only repeats the name of the one around it."""
    return is_outermost_jit(scope) and scope.parent is not None and scope.title() == scope.parent.title()
