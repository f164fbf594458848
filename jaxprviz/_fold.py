"""Which scopes stand open, so that a picture stays within a budget of boxes.

Bodies can be shared: a program of thirty bodies can stand for a thousand million scopes.  So scopes are
opened one at a time, the most telling first, until the budget is used up; what is not opened is never looked
into.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from jaxprviz._scope import Path, Scope, path_text
from jaxprviz.program import Body, Boundary, Equation, Program

BUDGET = 60
_KEPT_ENDS = 3
_MIN_ROOM = 8
_ALL_DOORS = frozenset({Boundary.DEVICE, Boundary.LOOP, Boundary.UNKNOWN})

MAX_DOORS = 12
"""More inputs than this are drawn in groups."""

Item = tuple[int, int]
"""Consecutive equations that are drawn as one box: the first one and the one after the last."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Which scopes stand open, and which equations of an open scope share one box.

    Attributes:
        open: the paths of the open scopes; the outermost, `()`, is always one of them.
        items: for each open scope its boxes in order, each a run of equations; a run of
            one is drawn as itself.
    """

    open: frozenset[Path]
    items: tuple[tuple[Path, tuple[Item, ...]], ...]

    def is_open(self, scope: Scope) -> bool:
        """Whether a scope is drawn with its inside."""
        return scope.path in self.open

    def of(self, scope: Scope) -> tuple[Item, ...]:
        """The boxes of an open scope.  Raises KeyError for one that is folded."""
        return dict(self.items)[scope.path]


def fold(
    program: Program,
    budget: int = BUDGET,
    open: Collection[str] = (),
    closed: Collection[str] = (),
) -> Fold:
    """Choose what stands open.

    Device scopes, the scopes on the way to them and scopes that capture something come first, then the
    outermost.  A body with more equations than half the budget keeps the equations that matter (open scopes,
    then other scopes, then collectives) and its two ends, and draws the runs between them as one box each.

    Args:
        program: what to draw.
        budget: about how many boxes the picture may have.
        open: paths (as `path_text` writes them) of scopes that stand open whatever they cost, as do the
            scopes around them.  A path that the program does not have is left alone, so that a reader's
            choices outlive a change of the program.
        closed: paths of scopes that stay folded; this is the stronger one.
    """
    chooser = _Chooser(program, budget, open, closed)
    chooser.choose()
    return chooser.result()


class _Chooser:
    """The search of `fold`: the open scopes so far, and what is left of the budget."""

    def __init__(self, program: Program, budget: int, open: Collection[str], closed: Collection[str]) -> None:
        self._root = Scope.root(program)
        self._left = budget
        self._half = max(_MIN_ROOM, budget // 2)
        self._rooms: dict[Path, int] = {}
        self._closed = frozenset(closed)
        self._forced = frozenset(_with_outer(open))
        self._telling = _telling(program)
        self._open: dict[Path, Scope] = {}
        self._pushed = 0

    def choose(self) -> None:
        """Open scopes, best first."""
        self._left -= min(len(self._root.body.inputs), MAX_DOORS) + min(
            len(self._root.body.outputs), MAX_DOORS
        )
        waiting: list[tuple[tuple[int, int, int], Scope]] = []
        self._enter(self._root, waiting)
        while waiting:
            (rank, _, _), scope = heapq.heappop(waiting)
            room = _MIN_ROOM if rank == 1 else self._half
            needed = _doors(scope) + min(len(scope.body.equations), room)
            if rank == 0 or needed <= self._left:
                self._enter(scope, waiting)

    def _room(self, scope: Scope) -> int:
        """How many boxes the equations of a scope may have."""
        return max(_MIN_ROOM, min(self._half, self._left - _doors(scope)))

    def _enter(self, scope: Scope, waiting: list[tuple[tuple[int, int, int], Scope]]) -> None:
        self._open[scope.path] = scope
        room = self._rooms[scope.path] = self._room(scope)
        self._left -= _doors(scope) + min(len(scope.body.equations), room)
        if self._left <= 0 and not self._forced:
            return
        for child in scope.children():
            text = path_text(child.path)
            if text in self._closed:
                continue
            rank = 0 if text in self._forced else self._rank(child)
            if rank == 0 or self._left > 0:
                self._pushed += 1
                heapq.heappush(waiting, ((rank, len(child.path), self._pushed), child))

    def _rank(self, scope: Scope) -> int:
        """1 for a scope that the picture is about, 2 for any other."""
        call, equation = scope.call, scope.equation
        assert call is not None and equation is not None
        captures = any(call.captured) or bool(scope.body.constants)
        return 1 if captures or equation.device is not None or scope.number in self._telling else 2

    def result(self) -> Fold:
        items = tuple((path, self._items(scope)) for path, scope in sorted(self._open.items()))
        return Fold(frozenset(self._open), items)

    def _items(self, scope: Scope) -> tuple[Item, ...]:
        equations = scope.body.equations
        if len(equations) <= self._rooms[scope.path]:
            return tuple((at, at + 1) for at in range(len(equations)))
        return _runs(self._kept(scope), len(equations))

    def _kept(self, scope: Scope) -> set[int]:
        """The equations of a long body that are drawn as themselves."""
        inside = [path[-1][0] for path in self._open if path[:-1] == scope.path and path]
        kept = set(inside)
        equations = scope.body.equations
        room = self._rooms[scope.path] // 2
        for wanted in (_holds_bodies, _communicates):
            for at, equation in enumerate(equations):
                if len(kept) >= room:
                    break
                if wanted(equation):
                    kept.add(at)
        if not kept:
            kept |= {*range(_KEPT_ENDS), *range(len(equations) - _KEPT_ENDS, len(equations))}
        return kept


def is_plain_call(equation: Equation) -> bool:
    """Whether an equation calls one body as it is."""
    return (
        equation.boundary is Boundary.CALL
        and len(equation.calls) == 1
        and None not in equation.calls[0].inputs
    )


def only_wraps(body: Body) -> bool:
    """Whether a body is nothing but one call of a function of the same name, as `jit`'s is."""
    if len(body.equations) != 1 or body.constants:
        return False
    (equation,) = body.equations
    return bool(equation.calls) and (body.name is None or equation.name == body.name)


def _doors(scope: Scope) -> int:
    """The boxes of an open scope beside its equations: its title, its constants, its doors."""
    parent, equation = scope.parent, scope.equation
    whole = parent is not None and parent.parent is None and only_wraps(parent.body)
    if whole and equation is not None and is_plain_call(equation):
        return 1 + len(scope.body.constants)  # the picture draws it as the program itself
    inputs = min(len(scope.body.inputs), MAX_DOORS) if scope.parent is not None else 0
    leaving = equation is not None and equation.boundary in _ALL_DOORS
    return (
        1 + inputs + len(scope.body.constants) + (min(len(scope.body.outputs), MAX_DOORS) if leaving else 0)
    )


def _holds_bodies(equation: Equation) -> bool:
    return bool(equation.calls)


def _communicates(equation: Equation) -> bool:
    return bool(equation.axes)


def _runs(kept: set[int], count: int) -> tuple[Item, ...]:
    """All equations in order, those between two kept ones together."""
    items: list[Item] = []
    start = 0
    for at in (*sorted(kept), count):
        if at > start:
            items.append((start, at))
        if at < count:
            items.append((at, at + 1))
        start = at + 1
    return tuple(items)


def _with_outer(paths: Collection[str]) -> set[str]:
    """The paths and those of all scopes around them."""
    found: set[str] = set()
    for path in paths:
        steps = path.split("/")
        found.update("/".join(steps[:length]) for length in range(1, len(steps) + 1))
    return found


def _telling(program: Program) -> frozenset[int]:
    """The numbers of the bodies that hold a device scope, however deep.  Callees stand before callers."""
    found: set[int] = set()
    for number, body in enumerate(program.bodies):
        for equation in body.equations:
            if equation.device is not None or any(call.body in found for call in equation.calls):
                found.add(number)
                break
    return frozenset(found)


def census(equations: Collection[Equation]) -> tuple[tuple[str, int], ...]:
    """How often each primitive stands among some equations, the commonest first."""
    counts = Counter(equation.primitive for equation in equations)
    return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
