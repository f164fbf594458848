"""The boxes of equations: what a box says of one equation, of one that is folded, of several in a row."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprviz import _style
from jaxprviz._boxes import (
    counted,
    folded_label,
    operand_word,
    order_matters,
    ported_label,
    told_apart,
    types_text,
)
from jaxprviz._graph import Values, read
from jaxprviz._label import bold, coloured, grey, lines, plain, run, sized
from jaxprviz._scope import Scope
from jaxprviz._subject import Subject
from jaxprviz.program import Equation, Literal, Type


def equation_label(scope: Scope, equation: Equation, values: Values, types: Sequence[Type]) -> str:
    name = scope.name(equation.results[0]) if len(equation.results) == 1 else None
    over = ", ".join(filter(None, equation.axes)) or "the devices"
    head = run(
        f"{bold(name)} =" if name else None,
        bold(equation.primitive) + _operands(scope, equation, values),
        plain(f"over {over}") if equation.axes else None,
    )
    if len(types) > 1:
        return ported_label(head, types)
    return lines(run(head, types_text(types) if types else None))


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


def folded_equation_label(
    subject: Subject, scope: Scope, position: int, types: Sequence[Type]
) -> tuple[dict[str, str], frozenset[int]]:
    equation = scope.body.equations[position]
    captured: dict[int, str] = {}
    inside = 0
    title = equation.name
    for number, call in enumerate(equation.calls):
        child = scope.child(position, number)
        inside += len(child.body.equations)
        title = title or child.body.name
        for capture in subject.captures(child):
            operand = call.inputs[capture.position]
            if operand is not None:
                captured[operand] = capture.name or "a value"
    devices = f"{equation.device.mesh.size} devices" if equation.device else None
    head = run(plain(equation.primitive), bold(title) if title else None, grey(devices) if devices else None)
    names = list(dict.fromkeys(captured.values()))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    rows = [
        head,
        sized(grey(counted(inside, "equation") + " inside"), _style.SMALL),
        sized(coloured(f"captured: {', '.join(names[:3])}{more}", _style.ORANGE, strong=True), _style.SMALL)
        if names
        else None,
    ]
    return {"label": folded_label([row for row in rows if row], types)}, frozenset(captured)
