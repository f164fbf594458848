"""What is said of the inputs of functions that differentiation makes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxprviz._captures import captures, first_scopes, is_captured, is_residual
from jaxprviz._pmap import fold_pmaps
from jaxprviz._trace import trace


def told(fn: Any, *args: Any) -> list[tuple[str, str, list[str]]]:
    """Of each inner scope the primitive, the title, and for each input whether it is captured."""
    rows = []
    for scope in first_scopes(fold_pmaps(trace(fn, *args))):
        if scope.equation is None:
            continue
        words = [
            "residual"
            if is_residual(scope, position)
            else {True: "captured", False: "own", None: "unknown"}[is_captured(scope, position)]
            for position in range(len(scope.body.inputs))
        ]
        rows.append((scope.equation.primitive, scope.title(), words))
    return rows


def test_gradient_of_a_jit_that_captures() -> None:
    def loss(w: Any, x: Any) -> Any:
        @jax.jit
        def inner(x: Any) -> Any:
            return (w * jnp.sin(x)).sum()

        return inner(x)

    forward, backward = told(jax.grad(loss), jnp.ones(3), jnp.ones(3))
    assert forward == ("jit", "inner", ["captured", "own"])
    assert backward[:2] == ("jit", "inner")
    assert set(backward[2]) == {"residual"}


def test_gradient_of_a_remat_in_a_scan() -> None:
    """What is moved out of the loop, and all that the backward loop reads, was made by differentiation."""

    def net(ws: Any, b: Any, x: Any) -> Any:
        @jax.checkpoint
        def layer(x: Any, w: Any) -> Any:
            return jnp.tanh(x @ w + b), None

        return jax.lax.scan(layer, x, ws)[0].sum()

    rows = told(jax.grad(net), jnp.ones((5, 4, 4)), jnp.ones(4), jnp.ones((2, 4)))
    assert [(primitive, words) for primitive, _, words in rows] == [
        ("scan", ["residual", "own", "own"]),
        ("scan", ["residual", "own", "own", "own"]),
        ("remat2" if "remat2" in {row[0] for row in rows} else "checkpoint", ["residual"] * 4),
    ]


def test_a_function_inside_a_backward_rule_captures_as_any_other() -> None:
    """Where JAX keeps names they count, whatever made the equation."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    def backward(x: Any, g: Any) -> Any:
        @jax.jit
        def scaled(g: Any) -> Any:
            return g * x

        return (scaled(g),)

    f.defvjp(lambda x: (f(x), x), backward)
    scopes = first_scopes(trace(jax.grad(lambda x: f(x).sum()), jnp.ones(3)))
    held = [scope for scope in scopes if scope.title() == "scaled"]
    assert [len(captures(scope)) for scope in held] == [1]
