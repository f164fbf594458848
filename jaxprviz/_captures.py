"""Which variables the inner functions of a program capture.

JAX marks a captured input with an empty name where it keeps names.  Where it keeps none (a pmap of JAX 0.7,
the branches of a cond, everything after grad) there are two other witnesses.  The function's own code: a
variable that has the name of one of the code's closure cells, and of none of its arguments, is captured.  And
the wiring: what differentiation hands to the functions that it makes (cotangents, values saved on the way
forward, what it moved out of the function) are operands of its own, that no function of the program captures.
What neither tells is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jaxprviz._facts import Capture
from jaxprviz._scope import Origin, Scope
from jaxprviz.program import Body, Boundary, Program

_STEPS = re.compile(r"[^.\[]+")

_CALLS = {Boundary.CALL, Boundary.DEVICE}
"""Boundaries of equations that pass all their operands to one body."""


def captures(scope: Scope) -> tuple[Capture, ...]:
    """The captured variables of one scope, in the order of its inputs."""
    return tuple(
        _capture(scope, position)
        for position in range(len(scope.body.inputs))
        if is_captured(scope, position)
    )


def is_captured(scope: Scope, position: int) -> bool | None:
    """Whether an input of a scope is a captured variable; None when that can't be known."""
    call = scope.call
    if call is None:
        return False
    marked = call.captured[position]
    if marked is not None:
        return marked
    if is_residual(scope, position):
        return False
    if _is_argument_of_all(scope, position):
        return False
    forwarded = _forwarded(scope)
    if forwarded is not None:
        return is_captured(forwarded, position)
    firsts = [first for branch in _branches(scope) if (first := _first_argument(branch)) is not None]
    return False if any(position >= first for first in firsts) else _captured_by_name(scope, position)


def is_residual(scope: Scope, position: int) -> bool:
    """Whether an input of a scope is one that differentiation made: saved on the way forward, or sent back.

    The function that transposition makes has no other inputs.  Of one made by `jvp` alone they are those that
    an equation around it makes which was written in the function itself: it was moved out.
    """
    call, parent = scope.call, scope.parent
    if call is None or parent is None or call.captured[position] is not None:
        return False
    by = _transforms(scope)
    if "transpose" in by:
        return True
    outer = scope.outside(scope.body.inputs[position])
    return "jvp" in by and isinstance(outer, int) and _moved_out(parent, scope.body, outer)


def _transforms(scope: Scope) -> set[str]:
    """By what JAX made a scope, and those around it."""
    found: set[str] = set()
    here: Scope | None = scope
    while here is not None and here.equation is not None:
        found.update(here.equation.transforms)
        here = here.parent
    return found


def _moved_out(parent: Scope, body: Body, variable: int) -> bool:
    """Whether a variable is made by an equation that stands around a function and was written in it."""
    own, around = body.source, parent.body.source
    if own is None or own == around:
        return False
    for equation in parent.body.equations:
        if variable in equation.results:
            source = equation.source
            # A function is known by its name and file: its lines are those from its first one on.
            return (
                source is not None
                and (source.function, source.file) == (own.function, own.file)
                and source.line >= own.line
            )
    return False


def _branches(scope: Scope) -> tuple[Scope, ...]:
    """The branches that get the same operands as a scope, itself among them; itself alone when it is none."""
    parent, equation = scope.parent, scope.equation
    if parent is None or equation is None or equation.boundary is not Boundary.BRANCH:
        return (scope,)
    step = scope.path[-1][0]
    return tuple(parent.child(step, branch) for branch in range(len(equation.calls)))


def _is_argument_of_all(scope: Scope, position: int) -> bool:
    """Whether an input is an argument of one of several branches, and so of all: what they capture stands in front."""
    return any(
        name is not None
        for branch in _branches(scope)
        if branch.number != scope.number
        for name in branch.body.input_names[: position + 1]
    )


def _forwarded(scope: Scope) -> Scope | None:
    """The scope that a body does nothing but call, with its own inputs; None for other bodies.

    The traced function is then the called one itself, as in `jax.pmap(jax.jit(f))`, or one of JAX's own that stands
    around it.  One that is written around a call may capture what it passes on.
    """
    body = scope.body
    if len(body.equations) != 1 or len(body.equations[0].calls) != 1:
        return None
    (equation,) = body.equations
    if equation.operands != body.inputs or equation.boundary not in _CALLS:
        return None
    called = scope.child(0)
    return called if body.source in (None, called.body.source) else None


def _first_argument(scope: Scope) -> int | None:
    """The position from which on the inputs are the function's own arguments; None when that is not known.

    Captured variables stand in front.  So when those that are known to be captured and the arguments of the
    function are together as many as there are inputs, each other input is an argument.  The branches of one
    equation have all the same inputs, and take the same arguments.
    """
    parent, equation = scope.parent, scope.equation
    if parent is None or equation is None:
        return None
    step, call = scope.path[-1]
    branches = range(len(equation.calls)) if equation.boundary is Boundary.BRANCH else (call,)
    for body in dict.fromkeys(parent.child(step, branch).body for branch in (call, *branches)):
        first = None if body.arguments is None else len(scope.body.inputs) - len(body.arguments)
        if first is None or first < 0:
            continue
        if first == 0 or any(
            equation.calls[branch].captured[first - 1]
            or _captured_by_name(parent.child(step, branch), first - 1)
            for branch in branches
        ):
            return first
    return None


def _captured_by_name(scope: Scope, position: int) -> bool | None:
    """Whether an input is captured, by the names in the function's own code."""
    parent, equation, body = scope.parent, scope.equation, scope.body
    if parent is None or equation is None or body.closure is None:
        return None
    outer = scope.outside(body.inputs[position])
    if not isinstance(outer, int):
        return False if outer is not None else None
    baked = any(constant.variable == outer for constant in parent.body.constants)
    reachable = {*body.closure, *(body.globals if baked else ())} - {*(body.arguments or ())}
    if not reachable:
        return False
    name = parent.name(outer)
    if name is None or equation.operands.count(outer) > 1:
        return None
    root, attribute, *_ = (*_STEPS.findall(name), "", "")
    # What is `layer.w` to the function around a method is `self.w` in it.
    of_self = baked and "self" in reachable and attribute in body.globals
    if not baked and name != root and name not in body.parts:
        return None  # of a tree it may be another leaf that the code reads
    # Another name proves nothing: the value may have been renamed on its way into the closure.
    return True if root in reachable or of_self else None


def all_captures(program: Program) -> tuple[Capture, ...]:
    """The captured variables of every scope, outermost scopes first; each place that holds a body counts
    once.

    A function that is called from several places of one body is one scope for each of them; a body that
    stands in several places of the program shows its inner scopes once, at the first of them.
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
    sure = _is_bound_there(origin, variable)
    return Capture(
        scope, position, name if sure or _reads_name(scope, name) else None, origin, constant, sure
    )


def _is_bound_there(origin: Origin, variable: int) -> bool:
    """Whether each function on the way from the binding site to the one that captures is known to capture it, too.

    One that takes the value as an argument binds it anew, perhaps under another name.
    """
    *around, inner = origin.through or (None,)
    for scope in reversed(around):
        outer = inner.outside(variable) if inner is not None else None
        if not isinstance(outer, int) or outer not in scope.body.inputs:
            return False
        if not is_captured(scope, scope.body.inputs.index(outer)):
            return False
        inner, variable = scope, outer
    return True


def _reads_name(scope: Scope, name: str | None) -> bool:
    """Whether a function's own code reads a variable of this name from around it."""
    roots = _STEPS.findall(name or "")[:1]
    return bool(roots) and roots[0] in {*(scope.body.closure or ())} - {*(scope.body.arguments or ())}
