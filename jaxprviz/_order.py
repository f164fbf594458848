"""What happens one after the other although no value says so: it stands one below the other."""

from __future__ import annotations

from collections.abc import Iterable

from jaxprviz._canvas import Canvas
from jaxprviz._graph import Values, Wire
from jaxprviz._scope import Scope
from jaxprviz.program import Equation, Kind

_EFFECT = "effect"


def ordered(scope: Scope, equation: Equation, values: Values) -> list[object]:
    """What an equation shares with those that it may not change places with: references, and the world outside."""
    marks: list[object] = []
    for atom in equation.operands:
        if isinstance(atom, int) and scope.body.types[atom].kind is Kind.REF:
            value = values.get(atom)
            marks += [value.key] if isinstance(value, Wire) else []
    if not equation.results or any("Ordered" in effect for effect in equation.effects):
        marks.append(_EFFECT)
    return marks


class Order:
    """The order of the boxes of one body."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._last: dict[object, str] = {}

    def add(self, marks: Iterable[object], first: str, last: str) -> None:
        """Put a box, or a frame whose outermost boxes are `first` and `last`, below those that come before it."""
        for mark in marks:
            if mark in self._last:
                self._canvas.hide(self._last[mark], first)
            self._last[mark] = last
