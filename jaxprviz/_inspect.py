"""Asks JAX how the arrays in the middle of a program lie, without running it.

The jaxpr that was traced is compiled once more, with a question to the compiler behind each variable that is asked
for (`jax.debug.inspect_array_sharding`); nothing that the program computes is changed by that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.extend.core as jex

from jaxprviz._primitives import bodies_of, rule_of
from jaxprviz._run import opened, read_by_all, reclosed, with_bodies
from jaxprviz._scope import Path

Key = tuple[Path, int]
"""A variable: JAX's own path to the body that binds it, and the `id` of JAX's variable."""


def inspected(closed: Any, leaves: Sequence[Any], asked: Collection[Key]) -> dict[Key, list[Any]]:
    """How some variables of a program lie when it is compiled as a whole.

    Args:
        closed: a closed jaxpr, as `jax.make_jaxpr` returns it.
        leaves: the arrays that it takes.  They are not read, only how they lie.
        asked: the variables.  Those in bodies that can't be rewritten are left out.

    Returns:
        For each variable that JAX tells of, the shardings (`jax.sharding.Sharding`) that it has, one for each time
        that the compiler meets it.
    """
    found: dict[Key, list[Any]] = {}
    rewritten = _asking(closed, (), set(asked), found)
    jax.jit(jex.jaxpr_as_fun(rewritten)).lower(*leaves).compile()
    return found


def _asking(closed: Any, path: Path, asked: set[Key], found: dict[Key, list[Any]]) -> Any:
    """A body that asks how its variables lie."""
    jaxpr = opened(closed)
    equations: list[Any] = []
    effects = set(jaxpr.effects)

    def ask(variable: int, var: Any, context: Any) -> None:
        if (path, variable) in asked:
            question = _question(var, found.setdefault((path, variable), []))
            equations.append(question.replace(ctx=context))
            effects.update(question.effects)

    for var in (*jaxpr.constvars, *jaxpr.invars):
        if jaxpr.eqns:
            ask(id(var), var, jaxpr.eqns[0].ctx)
    for position, equation in enumerate(jaxpr.eqns):
        new = read_by_all(_equation(equation, path, position, asked, found))
        equations.append(new)
        effects |= {effect for effect in new.effects if effect not in equation.effects}
        for var, own in zip(equation.outvars, new.outvars, strict=True):
            ask(id(var), own, equation.ctx)
    return reclosed(closed, jaxpr.replace(eqns=equations, effects=frozenset(effects)))


def _equation(equation: Any, path: Path, position: int, asked: set[Key], found: dict[Key, list[Any]]) -> Any:
    """An equation whose bodies ask, where one of them is asked for."""
    held = list(bodies_of(equation, rule_of(equation)))
    paths = [(*path, (position, number)) for number in range(len(held))]
    if not any(where[: len(own)] == own for where, _ in asked for own in paths):
        return equation
    new = [_asking(body.jaxpr, own, asked, found) for body, own in zip(held, paths, strict=True)]
    return with_bodies(equation, held, new)


def _question(var: Any, seen: list[Any]) -> Any:
    """The equation that asks how a variable lies."""
    traced = jax.make_jaxpr(lambda value: jax.debug.inspect_array_sharding(value, callback=seen.append))(
        jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype)
    )
    return opened(traced).eqns[-1].replace(invars=[var])
