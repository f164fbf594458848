"""Which variables the inner functions of a program capture.

JAX marks a captured input with an empty name where it keeps names.  Where it keeps none (a pmap of JAX 0.7, the
branches of a cond, everything after grad) the function's own code tells: a variable that has the name of one of
the code's closure cells, and of none of its arguments, is captured.  What neither tells is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jaxprviz._facts import Capture
from jaxprviz._scope import Scope
from jaxprviz.program import Program

_ROOT = re.compile(r"[^.\[]*")


def captures(scope: Scope) -> tuple[Capture, ...]:
    """The captured variables of one scope, in the order of its inputs."""
    return tuple(
        _capture(scope, position) for position in range(len(scope.body.inputs)) if is_captured(scope, position)
    )


def is_captured(scope: Scope, position: int) -> bool | None:
    """Whether an input of a scope is a captured variable; None when that can't be known."""
    call, parent, body = scope.call, scope.parent, scope.body
    if call is None or parent is None:
        return False
    marked = call.captured[position]
    if marked is not None or body.closure is None:
        return marked
    if body.arguments is not None and len(body.arguments) == len(body.inputs):
        return False  # each input is an argument
    outer = scope.outside(body.inputs[position])
    if not isinstance(outer, int):
        return False if outer is not None else None
    name = parent.name(outer)
    baked = any(constant.variable == outer for constant in parent.body.constants)
    reachable = {*body.closure, *(body.globals if baked else ())} - {*(body.arguments or ())}
    if not reachable:
        return False
    equation = scope.equation
    assert equation is not None
    if name is None or equation.operands.count(outer) > 1:
        return None
    root = _ROOT.match(name)
    # Another name proves nothing: the value may have been renamed on its way into the closure.
    return True if root is not None and root.group() in reachable else None


def all_captures(program: Program) -> tuple[Capture, ...]:
    """The captured variables of every scope, outermost scopes first; each place that holds a body counts once.

    A function that is called from several places of one body is one scope for each of them; a body that stands in
    several places of the program shows its inner scopes once, at the first of them.
    """
    return tuple(capture for scope in first_scopes(program) for capture in captures(scope))


def first_scopes(program: Program) -> Iterator[Scope]:
    """Every site of a program once, at the first path that leads to it, in the order of the code."""
    seen: set[int] = set()
    stack = [Scope.root(program)]
    while stack:
        scope = stack.pop()
        yield scope
        if scope.number not in seen:
            seen.add(scope.number)
            stack.extend(reversed(tuple(scope.children())))


def _capture(scope: Scope, position: int) -> Capture:
    variable = scope.body.inputs[position]
    origin = scope.origin(variable)
    constant = any(baked.variable == origin.variable for baked in origin.scope.body.constants)
    name = origin.scope.name(origin.variable)
    return Capture(scope, position, name, origin, constant)
