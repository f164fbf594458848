"""The view in which array constants stand in one way, whichever way JAX holds them.

JAX hoists the arrays that functions bake in: they are constants of the nearest `jit` around, or of the outermost
body, and each loop, branch, device scope and derived function on the way gets them as captured operands.  With
`jax_use_simplified_jaxpr_constants` it leaves them where they are read, as literals inside the equations.
`hoisted` brings the second form to the first.  The orders in which operands are put were found by
tracing both ways, on JAX 0.7.2, 0.8.3, 0.9.2, 0.10.2 and 0.12.0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jaxprviz._renumber import renumbered
from jaxprviz.program import Atom, Body, Call, Constant, Equation, Program, Role, Type

Key = Hashable
"""What tells one array from another: two literals of the same key are the same array."""


def hoisted(program: Program, literals: Sequence[Mapping[int, Key]]) -> Program:
    """The same program with its array literals hoisted.

    Args:
        program: a program that was read with each array literal as a constant of the body that reads it.
        literals: for each body those constants that were literals: the key of each, by variable.
    """
    if not any(literals):
        return program
    return _Hoisting(program, literals).program()


@dataclass(frozen=True, slots=True)
class _Segment:
    """Operands that stand together and hold what bodies capture.

    Attributes:
        start: the position of the first of them.
        calls: the bodies that they feed, in the order in which JAX traces them.
    """

    start: int
    calls: tuple[int, ...]


Item = tuple[bool, Key]
"""One captured operand of a segment: (False, its place there as it is) or (True, the key of an array)."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A body whose array literals are not yet bound.

    Attributes:
        body: it, with a variable for each of them that is neither a constant nor an input.
        arrays: that variable, by key, in the order of first use.
        uses: the variables that it reads, in that order.
    """

    body: Body
    arrays: dict[Key, int]
    uses: dict[int, int]


class _Hoisting:
    """The state of one pass: callees before callers, as the bodies of a program stand."""

    def __init__(self, program: Program, literals: Sequence[Mapping[int, Key]]) -> None:
        self._old = program
        self._literals = literals
        self._bodies: list[Body] = []
        self._open: list[_Open] = []
        self._types: dict[Key, Type] = {}
        self._constants: dict[Key, Constant] = {}
        self._closed: dict[int, int] = {}
        self._passed: dict[tuple[int, tuple[Item, ...]], int] = {}

    def program(self) -> Program:
        closed = _closed_bodies(self._old)
        for number, body in enumerate(self._old.bodies):
            self._open.append(self._opened(body, self._literals[number]))
            if number in closed:
                self._closed[number] = len(self._bodies)
                self._bodies.append(self._with_constants(self._open[number]))
        return _in_order(replace(self._old, bodies=tuple(self._bodies), root=self._closed[self._old.root]))

    def _opened(self, body: Body, literals: Mapping[int, Key]) -> _Open:
        """A body whose equations pass to the bodies that they hold what those read."""
        arrays: dict[Key, int] = {}
        types = list(body.types)
        for constant in body.constants:
            if constant.variable in literals:
                key = literals[constant.variable]
                arrays[key] = constant.variable
                self._types.setdefault(key, _outside(types[constant.variable]))
                self._constants.setdefault(key, constant)

        def variable(key: Key) -> int:
            if key not in arrays:
                arrays[key] = len(types)
                types.append(self._types[key])
            return arrays[key]

        clamped = frozenset(
            result
            for equation in body.equations
            if equation.primitive == "clamp"
            for result in equation.results
        )
        equations = tuple(self._equation(equation, clamped, variable) for equation in body.equations)
        constants = tuple(constant for constant in body.constants if constant.variable not in literals)
        body = replace(body, types=tuple(types), constants=constants, equations=equations)
        uses = _first_uses(body)
        order = sorted(arrays, key=lambda key: uses.get(arrays[key], len(uses)))
        return _Open(body, {key: arrays[key] for key in order if arrays[key] in uses}, uses)

    def _equation(
        self, equation: Equation, clamped: frozenset[int], variable: Callable[[Key], int]
    ) -> Equation:
        """An equation with what its bodies read passed to them, and their numbers among the new ones."""
        segments = _segments(equation, clamped)
        found = [(segment, self._order(equation, segment)) for segment in segments]
        if not any(hoists for _, order in found for hoists, _ in order):
            calls = tuple(replace(call, body=self._number(call, bool(segments))) for call in equation.calls)
            return equation if calls == equation.calls else replace(equation, calls=calls)
        for segment, order in reversed(found):  # from the back, so that positions in front stay what they are
            equation = self._with_operands(equation, segment, order, variable)
        return equation

    def _number(self, call: Call, open: bool) -> int:
        return self._as_passed(call.body, (), 0) if open else self._closed[call.body]

    def _order(self, equation: Equation, segment: _Segment) -> tuple[Item, ...]:
        """What stands in a segment once arrays are passed: each as far in front as it is first read."""
        length = max(_captured_inputs(equation, equation.calls[call], self._old) for call in segment.calls)
        read: dict[Item, int] = {}
        for call in segment.calls:
            open = self._open[equation.calls[call].body]
            uses = open.uses
            inputs = {variable: (False, place) for place, variable in enumerate(open.body.inputs[:length])}
            items = {**inputs, **{variable: (True, key) for key, variable in open.arrays.items()}}
            for used in uses:
                if used in items:
                    read.setdefault(items[used], len(read))
        order: list[Item] = [(False, place) for place in range(length)]
        moved = _moved_to_the_front(equation.calls[segment.calls[0]], self._old, length)
        for item, rank in read.items():
            if item[0]:
                later = (
                    place
                    for place, other in enumerate(order)
                    if place >= moved and read.get(other, -1) > rank
                )
                order.insert(next(later, len(order)), item)
        return tuple(order)

    def _with_operands(
        self, equation: Equation, segment: _Segment, order: tuple[Item, ...], variable: Callable[[Key], int]
    ) -> Equation:
        length = sum(not hoists for hoists, _ in order)
        start, stop = segment.start, segment.start + length
        added = len(order) - length

        def moved(operand: int | None) -> int | None:
            if operand is None or operand < start:
                return operand
            return operand + added if operand >= stop else start + order.index((False, operand - start))

        def segment_of(given: Sequence[object], new: Callable[[Key], object]) -> tuple[object, ...]:
            put = (new(item) if hoists else given[start + int(item)] for hoists, item in order)  # pyright: ignore[reportArgumentType]
            return (*given[:start], *put, *given[stop:])

        calls = list(equation.calls)
        for position, call in enumerate(equation.calls):
            inputs = tuple(map(moved, call.inputs))
            if position in segment.calls:
                calls[position] = self._call(equation, call, inputs, segment, order, length)
            else:
                calls[position] = replace(call, inputs=inputs)
        device = equation.device
        if device is not None:
            specs = segment_of(device.in_specs, lambda key: ((),) * len(self._types[key].shape))
            device = replace(device, in_specs=specs)
        shardings = equation.in_shardings
        return replace(
            equation,
            operands=segment_of(equation.operands, variable),
            calls=tuple(calls),
            device=device,
            in_shardings=segment_of(shardings, lambda key: None) if shardings else (),
        )

    def _call(
        self,
        equation: Equation,
        call: Call,
        inputs: tuple[int | None, ...],
        segment: _Segment,
        order: tuple[Item, ...],
        length: int,
    ) -> Call:
        open = self._open[call.body]
        known = _captured_when_passed(equation, call, open.body)
        role = Role.CONST if equation.primitive in _CONST_ROLES else Role.OPERAND
        captured: list[bool | None] = []
        for hoists, item in (*order, *((False, place) for place in range(length, len(call.captured)))):
            if not hoists:
                captured.append(call.captured[int(item)])  # pyright: ignore[reportArgumentType]
            else:
                captured.append(known if item in open.arrays else False)
        places = tuple(segment.start + place for place in range(len(order)))
        return Call(
            self._as_passed(call.body, order, length),
            call.label,
            (*places, *inputs[length:]),
            call.outputs,
            tuple(captured),
            (
                *(role if hoists else call.roles[int(item)] for hoists, item in order),  # pyright: ignore[reportArgumentType]
                *call.roles[length:],
            ),
        )

    def _as_passed(self, number: int, order: tuple[Item, ...], length: int) -> int:
        """The number of the body that has these captured inputs."""
        key = (number, order)
        if key not in self._passed:
            open = self._open[number]
            body, types = open.body, list(open.body.types)
            inputs: list[int] = []
            for hoists, item in order:
                if not hoists:
                    inputs.append(body.inputs[int(item)])  # pyright: ignore[reportArgumentType]
                elif item in open.arrays:
                    inputs.append(open.arrays[item])
                else:
                    types.append(self._types[item])
                    inputs.append(len(types) - 1)
            names = tuple(
                None if hoists else body.input_names[int(item)]  # pyright: ignore[reportArgumentType]
                for hoists, item in order
            )
            names = (*names, *body.input_names[length:])
            self._passed[key] = len(self._bodies)
            self._bodies.append(
                renumbered(
                    replace(
                        body,
                        types=tuple(types),
                        inputs=(*inputs, *body.inputs[length:]),
                        input_names=names,
                    )
                )
            )
        return self._passed[key]

    def _with_constants(self, open: _Open) -> Body:
        """A body that holds its arrays itself."""
        if not open.arrays:
            return renumbered(open.body)
        uses = open.uses
        own = [replace(self._constants[key], variable=variable) for key, variable in open.arrays.items()]
        constants = sorted((*open.body.constants, *own), key=lambda one: uses.get(one.variable, -1))
        return renumbered(replace(open.body, constants=tuple(constants)))


def _closed_bodies(program: Program) -> set[int]:
    """The bodies that hold arrays themselves: the outermost, and those of equations that pass none."""
    found = {program.root}
    for body in program.bodies:
        for equation in body.equations:
            if not _segments(equation, frozenset()):
                found.update(call.body for call in equation.calls)
    return found


def _in_order(program: Program) -> Program:
    """A program with its bodies in the order of reading: each behind those that its equations hold."""
    order: dict[int, int] = {}
    stack = [(program.root, iter(_callees(program.bodies[program.root])))]
    while stack:
        number, callees = stack[-1]
        inner = next((callee for callee in callees if callee not in order), None)
        if inner is None:
            order[number] = len(order)
            stack.pop()
        else:
            stack.append((inner, iter(_callees(program.bodies[inner]))))

    def moved(equation: Equation) -> Equation:
        if not equation.calls:
            return equation
        return replace(equation, calls=tuple(replace(call, body=order[call.body]) for call in equation.calls))

    bodies = (program.bodies[number] for number in order)
    return replace(
        program,
        bodies=tuple(replace(body, equations=tuple(map(moved, body.equations))) for body in bodies),
        root=order[program.root],
    )


def _callees(body: Body) -> Iterator[int]:
    return (call.body for equation in body.equations for call in equation.calls)


def _outside(type_: Type) -> Type:
    """The type of an array outside of the device scopes that read it."""
    return replace(type_, varying=(), spec=None, mesh=None, unreduced=())


def _first_uses(body: Body) -> dict[int, int]:
    """The variables that a body reads, in the order in which it first does."""
    found: dict[int, int] = {}
    for atom in _atoms(body):
        if isinstance(atom, int):
            found.setdefault(atom, len(found))
    return found


def _atoms(body: Body) -> Iterator[Atom]:
    for equation in body.equations:
        yield from equation.operands
    yield from body.outputs


# --- how primitives are given what their bodies capture -----------------------------------------------------


def _segments(equation: Equation, clamped: frozenset[int]) -> tuple[_Segment, ...]:
    """The segments of an equation's operands that take arrays; none where its bodies hold them themselves.

    Args:
        equation: the equation.
        clamped: the variables around it that were made by `clamp`.
    """
    rule = _SEGMENTS.get(equation.primitive)
    return () if rule is None or not equation.calls else rule(equation, clamped)


def _where_captured(equation: Equation, clamped: frozenset[int]) -> tuple[_Segment, ...]:
    """A `jit` whose function captures traced variables is passed the arrays as well; others hold them."""
    return (_Segment(0, (0,)),) if any(equation.calls[0].captured) else ()


def _first(equation: Equation, clamped: frozenset[int]) -> tuple[_Segment, ...]:
    return (_Segment(0, (0,)),)


def _one_after_another(equation: Equation, clamped: frozenset[int]) -> tuple[_Segment, ...]:
    found, start = [], 0
    for position, call in enumerate(equation.calls):
        found.append(_Segment(start, (position,)))
        start += call.roles.count(Role.CONST)
    return tuple(found)


def _branches(equation: Equation, clamped: frozenset[int]) -> tuple[_Segment, ...]:
    """A `cond` traces what it does when true first; a `switch`, whose index is clamped, its first branch."""
    order = range(len(equation.calls))
    return (
        _Segment(
            1, tuple(reversed(order) if len(order) == 2 and equation.operands[0] not in clamped else order)
        ),
    )


_SEGMENTS: dict[str, Callable[[Equation, frozenset[int]], tuple[_Segment, ...]]] = {
    "jit": _where_captured,
    "pjit": _where_captured,
    "scan": _first,
    "shard_map": _first,
    "pmap": _first,
    "remat2": _first,
    "checkpoint": _first,
    "custom_jvp_call": _first,
    "custom_vjp_call": _first,
    "while": _one_after_another,
    "custom_linear_solve": _one_after_another,
    "cond": _branches,
}

_CONST_ROLES = frozenset({"scan", "while", "custom_linear_solve"})

_FIRST_WHEN_DERIVED = frozenset({"shard_map"})
"""The primitives that have arrays in front of all else once they are differentiated."""

_COUNTED = frozenset({"custom_jvp_call", "custom_vjp_call", "custom_linear_solve"})
"""The primitives that count what their bodies capture, so that it is known without names."""


def _captured_inputs(equation: Equation, call: Call, program: Program) -> int:
    """How many of a body's inputs, the first ones, hold what it captures, as far as that is known."""
    if equation.primitive in _CONST_ROLES:
        return call.roles.count(Role.CONST)
    marked = [place for place, captured in enumerate(call.captured) if captured]
    if marked:
        return marked[-1] + 1
    if None not in call.captured or (equation.transforms and equation.primitive in _FIRST_WHEN_DERIVED):
        return 0
    return _beyond_arguments(program.bodies[call.body])


def _beyond_arguments(body: Body) -> int:
    """How many inputs a body has beyond the arguments of its function; 0 where those are not known."""
    return 0 if body.arguments is None else max(0, len(body.inputs) - len(body.arguments))


def _moved_to_the_front(call: Call, program: Program, length: int) -> int:
    """How many of a loop's constants were carried, and moved there since they never change."""
    names = program.bodies[call.body].input_names[:length]
    return next((place for place, name in enumerate(names) if name is None), length)


def _captured_when_passed(equation: Equation, call: Call, body: Body) -> bool | None:
    """What JAX says of an array that it passes: marked as captured where it keeps names."""
    if equation.primitive in _COUNTED:
        return True
    named = any(name is not None for name in body.input_names) and None not in call.captured
    return True if named or any(call.captured) or not (call.captured or equation.transforms) else None
