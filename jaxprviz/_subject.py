"""What is drawn: a program with all that is known of it, and which of its scopes stand open."""

from __future__ import annotations

from collections.abc import Callable

from jaxprviz._facts import Capture, Placement
from jaxprviz._fold import Fold, Item
from jaxprviz._scope import Scope
from jaxprviz.program import Program


class Subject:
    """The program of a picture, and what is known of it.

    Attributes:
        captures: the captured inputs of one scope.
        placement: how the variables of a device scope lie over its devices; None for any other scope.
        root: the outermost scope.
    """

    def __init__(
        self,
        program: Program,
        fold: Fold,
        captures: Callable[[Scope], tuple[Capture, ...]],
        placement: Callable[[Scope], Placement | None],
    ) -> None:
        self.captures, self.placement = captures, placement
        self.root = Scope.root(program)
        self.is_open = fold.is_open
        self._items = dict(fold.items)
        self._used: dict[int, frozenset[int]] = {}

    def items(self, scope: Scope) -> tuple[Item, ...]:
        """The boxes of an open scope: runs of equations, most of them of one."""
        return self._items[scope.path]

    def used_by(self, scope: Scope) -> frozenset[int]:
        """The variables of a body that an equation reads or that it returns."""
        number = scope.number
        if number not in self._used:
            body = scope.body
            atoms = [*body.outputs, *(atom for equation in body.equations for atom in equation.operands)]
            self._used[number] = frozenset(atom for atom in atoms if isinstance(atom, int))
        return self._used[number]
