"""What a reader asks of a picture, checked: a budget of boxes, and paths of scopes."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

from jaxprviz._scope import Scope, path_text
from jaxprviz.errors import JaxprvizError
from jaxprviz.program import Program

_LISTED = 8
"""So many of a program's paths are named to who asked for one that it does not have."""


def checked_budget(budget: Any) -> int:
    """A number of boxes.  Raises JaxprvizError for anything else."""
    if isinstance(budget, int) and not isinstance(budget, bool) and budget >= 0:
        return budget
    raise JaxprvizError(
        f"draw(..., budget={budget!r})",
        "the budget is about how many boxes the picture may have: a whole number, not below 0",
        "Leave it out, or pass a number: budget=100.",
    )


def checked_paths(program: Program, choice: str, given: Any) -> Collection[str]:
    """Paths of scopes that a program has; one path alone is as good as a list of it.

    Args:
        program: what is drawn.
        choice: the name of the argument: `"open"` or `"closed"`.
        given: what was given for it.

    Returns:
        The paths as `path_text` writes them.

    Raises:
        JaxprvizError: it is no path, or the program has no such scope.
    """
    asked = f"draw(..., {choice}={given!r})"
    paths = (given,) if isinstance(given, str) else given
    if not isinstance(paths, Collection) or not all(isinstance(path, str) for path in paths):
        raise JaxprvizError(
            asked,
            "it takes paths of scopes",
            f'Pass a path as the picture shows it, or several: {choice}="0/2", {choice}=["0/2", "1"].',
        )
    found: list[str] = []
    for path in paths:
        scope, there = _along(program, path)
        if not there:
            raise JaxprvizError(asked, f"the program has no scope {path!r}", _remedy(scope))
        found.append(path_text(scope.path))
    return found


def _along(program: Program, path: str) -> tuple[Scope, bool]:
    """The innermost scope on the way along a path that the program has, and whether that is the whole path."""
    scope = Scope.root(program)
    for step in path.split("/") if path else ():
        inner = {path_text(child.path[-1:]): child for child in scope.children()}
        wanted = step.removesuffix(".0")
        if wanted not in inner:
            return scope, False
        scope = inner[wanted]
    return scope, True


def _remedy(scope: Scope) -> str:
    found = list(itertools.islice(scope.children(), _LISTED + 1))
    where = f"inside {path_text(scope.path)} ({scope.title()})" if scope.path else "on the outermost level"
    if not found:
        return f"There are no scopes {where}."
    listed = ", ".join(f"{path_text(child.path)!r} ({child.title()})" for child in found[:_LISTED])
    return f"Those {where} are: {listed}{', ...' if found[_LISTED:] else ''}."
