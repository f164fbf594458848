"""What is drawn: a program with all that is known of it, and which of its scopes stand open."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace

from jaxprviz._facts import Capture, Placement, Spread
from jaxprviz._flow import Flow, flow
from jaxprviz._fold import Fold, Item
from jaxprviz._scope import Scope
from jaxprviz._spelling import spelled
from jaxprviz._words import SILENT, spread_text
from jaxprviz.program import Boundary, Equation, Program


class Subject:
    """The program of a picture, and what is known of it.

    Attributes:
        program: the program.
        captures: the captured inputs of one scope.
        placement: how the variables of a device scope lie over its devices; None for any other scope.
        root: the outermost scope.
        is_open: whether a scope is drawn with its inside.
        merges: whether the outermost scope and the jit that it is nothing but are drawn as one.
    """

    def __init__(
        self,
        program: Program,
        fold: Fold,
        captures: Callable[[Scope], tuple[Capture, ...]],
        placement: Callable[[Scope], Placement | None],
    ) -> None:
        self.program, self.captures, self.placement = program, captures, placement
        self.root = Scope.root(program)
        self.is_open = fold.is_open
        self.merges = False
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

    def hands_on(self, scope: Scope, variable: int) -> bool:
        """Whether an input of a named scope is one that a scope inside captures: it is not bound here."""
        equation = scope.equation
        if equation is None or equation.boundary is not Boundary.NAME:
            return False
        for position, inner in enumerate(scope.body.equations):
            if variable not in inner.operands:
                continue
            for number, call in enumerate(inner.calls):
                child = scope.child(position, number)
                captured = {capture.position for capture in self.captures(child)}
                places = [at for at, operand in enumerate(call.inputs) if _reads(inner, operand, variable)]
                if any(at in captured or self.hands_on(child, child.body.inputs[at]) for at in places):
                    return True
        return False

    # What the devices do ------------------------------------------------------------------------------------

    @functools.cached_property
    def _flow(self) -> Flow:
        return flow(self.program)

    def spreads(self, scope: Scope) -> tuple[Spread, ...]:
        """How the value of each variable of a scope differs over the devices."""
        return self._flow.of(scope)

    def change(self, scope: Scope, equation: Equation) -> str:
        """What becomes different over the devices by an equation: `"the same on all of data"`; empty for nothing."""
        if not equation.results or not self._on_devices:
            return ""
        spreads = self.spreads(scope)
        given = [spreads[atom] for atom in equation.operands if isinstance(atom, int)]
        made = [spreads[variable] for variable in equation.results]
        before = [_joined(spread.varying for spread in given), _joined(spread.unknown for spread in given)]
        after = [_joined(spread.varying for spread in made), _joined(spread.unknown for spread in made)]
        changed = (before[0] ^ after[0]) | ((before[1] - before[0]) ^ (after[1] - after[0]))
        return spread_text(Spread(_kept(made[0].axes, changed), after[0] & changed, after[1] & changed))

    def beside(self, scope: Scope, variable: int, told: Iterable[str]) -> str:
        """How a variable differs over the devices along other axes than those of which it is told already."""
        if not self._on_devices:
            return ""
        spread, known = self.spreads(scope)[variable], frozenset(told)
        left = replace(spread, varying=spread.varying - known, unknown=spread.unknown - known)
        return spread_text(replace(left, axes=_kept(spread.axes, left.varying | left.unknown)))

    def unequal(self, scope: Scope, variable: int) -> frozenset[str]:
        """The axes along which a result of a device scope is taken to be copied, while the copies may differ."""
        return self.spreads(scope)[variable].unequal

    @functools.cached_property
    def _on_devices(self) -> bool:
        return any(equation.device is not None for body in self.program.bodies for equation in body.equations)

    def exchanged(self, number: int) -> tuple[str, ...]:
        """The collectives of a body, however deep, as text: `("psum over data",)`."""
        return self._exchanged[number]

    @functools.cached_property
    def _exchanged(self) -> list[tuple[str, ...]]:
        """One a body.  Callees stand before callers."""
        found: list[tuple[str, ...]] = []
        for body in self.program.bodies:
            texts: dict[str, None] = {}
            for equation in body.equations:
                if is_collective(equation):
                    texts[exchange_text(equation)] = None
                for call in equation.calls:
                    texts.update(dict.fromkeys(found[call.body]))
            found.append(tuple(texts))
        return found


def _reads(equation: Equation, operand: int | None, variable: int) -> bool:
    return operand is not None and equation.operands[operand] == variable


def is_collective(equation: Equation) -> bool:
    """Whether the devices exchange data."""
    return bool(equation.axes) and not equation.calls and equation.primitive not in SILENT


def over_text(equation: Equation) -> str | None:
    """The mesh axes that an equation works along: `"over data"`; None where it works along none."""
    if not equation.axes:
        return None
    return f"over {', '.join(filter(None, equation.axes)) or 'the devices'}"


def exchange_text(equation: Equation) -> str:
    """A collective: `"psum over data"`."""
    return f"{spelled(equation.primitive)} {over_text(equation)}"


def _joined(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _kept(axes: tuple[str, ...], names: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in axes if name in names)
