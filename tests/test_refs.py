"""Which part of a mutable reference is read or written."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from jaxprviz import trace


def test_the_index_of_each_access_is_text() -> None:
    """As Python writes it, with `{1}` for operand 1."""

    def f(x: Any, i: Any) -> Any:
        ref = jax.new_ref(x)
        ref[i, 0] = 3.0
        ref[...] += 1.0
        rows = ref[1], ref[i], ref[0:2], ref[jnp.array([0, 1])], ref[pl.ds(i, 2)]
        return ref[...], rows

    program = trace(f, jnp.ones((4, 3)), 1)
    found = [
        (equation.primitive, dict(equation.params)["index"])
        for body in program.bodies
        for equation in body.equations
        if equation.primitive in ("get", "swap", "addupdate")
    ]
    assert found == [
        ("swap", "{2}, 0"),
        ("get", "..."),
        ("swap", "..."),
        ("get", "1, :"),
        ("get", "{1}, :"),
        ("get", "0:2, :"),
        ("get", "{1}, :"),
        ("get", "ds({1}, 2), :"),
        ("get", "..."),
    ]
