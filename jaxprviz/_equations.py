"""The boxes of equations: what a box says of one equation, of one that is folded, of several in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxprviz import _style
from jaxprviz._asked import asked_rows
from jaxprviz._boxes import (
    counted,
    folded_label,
    framed,
    grid_text,
    hexagon,
    operand_word,
    order_matters,
    ported_label,
    told_apart,
    types_text,
)
from jaxprviz._fold import census
from jaxprviz._graph import Values, read
from jaxprviz._label import bold, coloured, grey, lines, plain, run, sized
from jaxprviz._scope import Scope, path_text
from jaxprviz._spelling import spelled
from jaxprviz._style import Look
from jaxprviz._subject import Subject, exchange_text, is_collective, over_text
from jaxprviz._words import backward_text
from jaxprviz.program import Equation, Kind, Literal, Type

WRITERS = frozenset({"swap", "addupdate"})
"""Primitives that write into the reference that is their first operand."""

_FOREIGN = frozenset({"ffi_call", "call_exported", "tpu_custom_call", "triton_kernel_call"})
"""Primitives that run code that JAX knows nothing of, on the device."""

_HOST = frozenset(
    {"io_callback", "pure_callback", "debug_callback", "debug_print", "buffer_callback", "outside_call"}
)
"""Primitives that run a Python function on the host."""

_MANY = 4
"""So many primitives and collectives are named on the box of a run."""


@dataclass(frozen=True, slots=True)
class Box:
    """What stands in the picture for an equation whose inside is not shown.

    Attributes:
        look: what sort of box it is.
        attributes: its label, and its size where that is not Graphviz's own.
        captured: the operands that the inside captures.
        numbered: whether the lines to it say which operand each of them is.
    """

    look: Look
    attributes: dict[str, str]
    captured: frozenset[int] = frozenset()
    numbered: bool = False


def box(subject: Subject, scope: Scope, position: int, values: Values) -> Box:
    """The box of an equation whose inside is not shown."""
    equation = scope.body.equations[position]
    types = [scope.body.types[variable] for variable in equation.results]
    if equation.calls:
        return _folded(subject, scope, position, types)
    given = [read(values, atom) for atom in equation.operands]
    head = _HEADS.get(equation.primitive, _head)(scope, equation, values)
    told = subject.change(scope, equation)
    note = sized(plain(told, 60), _style.SMALL) if told else None
    numbered = (
        equation.primitive not in _HEADS
        and 1 < len(equation.operands) <= 4
        and order_matters(equation, given)
        and not told_apart(scope, equation, given)
    )
    asked = _asked(equation, types)
    if asked is not None:
        label = framed([run(head, types_text(types)), *asked], _style.GREY)
        return Box(Look.TABLE, {"label": label}, numbered=numbered)
    if len(types) > 1:
        label = ported_label(run(head), types, note)
    else:
        unread = equation.primitive in WRITERS and subject.used_by(scope).isdisjoint(equation.results)
        label = lines(run(head, types_text(types) if types and not unread else None), note)
    attributes = {"label": label}
    look = Look.EQUATION if equation.results else Look.EFFECT
    if equation.primitive in _HOST:
        look = Look.HOST
    elif equation.primitive in _FOREIGN:
        look = Look.FOREIGN
    elif is_collective(equation):
        look = Look.COLLECTIVE
        if len(types) < 2:
            attributes |= hexagon(label)
    return Box(look, attributes, numbered=numbered)


def _result_name(scope: Scope, equation: Equation) -> str | None:
    name = scope.name(equation.results[0]) if len(equation.results) == 1 else None
    return f"{bold(name)} =" if name else None


def _head(scope: Scope, equation: Equation, values: Values) -> str:
    """The name of the result, the primitive, and its operands where they have to be told."""
    over = over_text(equation)
    return run(
        _result_name(scope, equation),
        bold(spelled(equation.primitive)) + _operands(scope, equation, values),
        plain(over) if over else None,
    )


def _operands(scope: Scope, equation: Equation, values: Values) -> str:
    """The operands in brackets, where one is a number or where their order matters and can be told."""
    given = [read(values, atom) for atom in equation.operands]
    shown = order_matters(equation, given) and told_apart(scope, equation, given)
    if not shown and not any(isinstance(value, Literal) for value in given):
        return ""
    words = [
        plain(operand_word(scope, atom, value), 16)
        for atom, value in zip(equation.operands, given, strict=True)
    ]
    if len(words) > 4:
        words = [*words[:3], "…"]
    return f"({', '.join(words)})"


# References, and what leaves the device ---------------------------------------------------------------------


def _part(scope: Scope, equation: Equation, values: Values) -> str:
    """The part of a reference that an equation works on: `total[0, :]`."""
    name = operand_word(scope, equation.operands[0], read(values, equation.operands[0]))
    index = dict(equation.params).get("index")
    if index is None:
        return plain(f"part of {name}")
    for place, atom in enumerate(equation.operands):
        if f"{{{place}}}" in index:
            index = index.replace(f"{{{place}}}", operand_word(scope, atom, read(values, atom)))
    return plain(f"{name}[{index}]")


def _reads(scope: Scope, equation: Equation, values: Values) -> str:
    return run(_result_name(scope, equation), bold("reads"), _part(scope, equation, values))


def _writes(verb: str, number: str) -> Callable[[Scope, Equation, Values], str]:
    def head(scope: Scope, equation: Equation, values: Values) -> str:
        part = _part(scope, equation, values)
        written = read(values, equation.operands[1])
        if isinstance(written, Literal):
            return run(bold(verb.split()[0]), plain(written.text), plain(number), part)
        return run(bold(verb), part)

    return head


def _host(scope: Scope, equation: Equation, values: Values) -> str:
    """`io_callback save  on the host, in order`."""
    ordered = any("Ordered" in effect for effect in equation.effects)
    named = equation.name if equation.primitive != "debug_print" else None
    text = dict(equation.params).get("fmt") if equation.primitive == "debug_print" else None
    return run(
        _result_name(scope, equation),
        plain(spelled(equation.primitive)),
        bold(named) if named else None,
        plain(f"'{text}'", 30) if text else None,
        grey("on the host, in order" if ordered else "on the host"),
    )


def _foreign(scope: Scope, equation: Equation, values: Values) -> str:
    """`ffi_call my_norm(x, w)`."""
    return run(
        _result_name(scope, equation),
        plain(spelled(equation.primitive)),
        (bold(equation.name) if equation.name else "") + _operands(scope, equation, values),
    )


_HEADS: dict[str, Callable[[Scope, Equation, Values], str]] = {
    "get": _reads,
    "swap": _writes("writes", "to"),
    "addupdate": _writes("adds to", "to"),
    **dict.fromkeys(_HOST, _host),
    **dict.fromkeys(_FOREIGN, _foreign),
}
"""What the boxes of some primitives say, other than `name = primitive(operands)`."""


def writes(scope: Scope, equation: Equation, operand: int) -> bool:
    """Whether an equation writes into the reference that is one of its operands."""
    if equation.primitive not in WRITERS or operand != 0:
        return False
    atom = equation.operands[0]
    return isinstance(atom, int) and scope.body.types[atom].kind is Kind.REF


# How an array is asked to lie -------------------------------------------------------------------------------


def _asked(equation: Equation, types: Sequence[Type]) -> tuple[str, ...] | None:
    """The strip and the words of an equation that asks how its one result lies; None for any other."""
    if len(types) != 1 or len(equation.out_shardings) != 1 or equation.out_shardings[0] is None:
        return None
    return asked_rows(types[0], equation.out_shardings[0], "asked", _style.HUE_IN)


# Several equations in one box -------------------------------------------------------------------------------


def _folded(subject: Subject, scope: Scope, position: int, types: Sequence[Type]) -> Box:
    equation = scope.body.equations[position]
    captured: dict[int, str] = {}
    inside = 0
    title = equation.name
    exchanged: dict[str, None] = {}
    for number, call in enumerate(equation.calls):
        child = scope.child(position, number)
        inside += len(child.body.equations)
        title = title or child.body.name
        exchanged.update(dict.fromkeys(subject.exchanged(child.number)))
        for capture in subject.captures(child):
            operand = call.inputs[capture.position]
            if operand is not None:
                captured[operand] = capture.name or "a value"
    devices = f"{equation.device.mesh.size} devices" if equation.device else None
    grid, backward = grid_text(equation), backward_text(equation)
    head = run(
        plain(spelled(equation.primitive)),
        bold(title) if title else None,
        grey(devices) if devices else None,
        grey(grid) if grid else None,
        grey(backward) if backward else None,
    )
    names = list(dict.fromkeys(captured.values()))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    path = path_text(scope.child(position).path)
    rows = [
        head,
        sized(grey(f"{counted(inside, 'equation')} inside, path {path}", 60), _style.SMALL),
        *(sized(row, _style.SMALL) for row in exchange_rows(tuple(exchanged))),
        sized(coloured(f"captured: {', '.join(names[:3])}{more}", _style.ORANGE, strong=True), _style.SMALL)
        if names
        else None,
    ]
    attributes = {"label": folded_label([row for row in rows if row], types)}
    return Box(Look.FOLDED, attributes, frozenset(captured))


def exchange_rows(exchanged: Sequence[str]) -> list[str]:
    """The collectives among what is folded: they are never hidden."""
    rows = [plain(text) for text in exchanged[:_MANY]]
    return [*rows, plain(f"and {len(exchanged) - _MANY} more collectives")] if exchanged[_MANY:] else rows


def run_label(equations: Sequence[Equation]) -> str:
    """The label of consecutive equations in one box."""
    quiet = [equation for equation in equations if not is_collective(equation)]
    counts = census(quiet)
    words = [f"{spelled(name)} × {count}" if count > 1 else spelled(name) for name, count in counts[:_MANY]]
    more = counted(len(counts) - _MANY, "other primitive") if len(counts) > _MANY else None
    found = [exchange_text(equation) for equation in equations if is_collective(equation)]
    texts = [
        f"{text} × {found.count(text)}" if found.count(text) > 1 else text for text in dict.fromkeys(found)
    ]
    rows = [
        bold(counted(len(equations), "equation")),
        *exchange_rows(texts),
        *(grey(word) for word in words),
        grey(more) if more else None,
    ]
    return folded_label([row for row in rows if row], ())
