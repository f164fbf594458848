"""When two programs are the same, and how the first difference is told."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxprviz import same_program, trace
from jaxprviz.errors import TraceError

W, X = jnp.ones((2, 3)), jnp.ones((4, 2, 3))


@jax.jit
def captured(w: Any, x: Any) -> Any:
    @jax.pmap
    def g(x: Any) -> Any:
        return w * x

    return g(x)


@jax.jit
def passed(w: Any, x: Any) -> Any:
    @functools.partial(jax.pmap, in_axes=(None, 0))
    def h(weights: Any, data: Any) -> Any:
        return weights * data

    return h(w, x)


@jax.jit
def swapped(w: Any, x: Any) -> Any:
    @functools.partial(jax.pmap, in_axes=(0, None))
    def g(x: Any, w: Any) -> Any:
        return w * x

    return g(x, w)


@jax.jit
def turned(w: Any, x: Any) -> Any:
    return jax.pmap(lambda x: x * w)(x)


@jax.jit
def scaled(w: Any, x: Any) -> Any:
    return jax.pmap(lambda x: w * x * 2.0)(x)


@jax.jit
def other_axis(w: Any, x: Any) -> Any:
    return jax.pmap(lambda x: w * x, out_axes=1)(x)


@jax.jit
def added(w: Any, x: Any) -> Any:
    return jax.pmap(lambda x: w + x)(x)


SAME = [captured, passed, swapped]


@pytest.mark.parametrize("first", SAME)
@pytest.mark.parametrize("second", SAME)
def test_captured_or_passed_in_any_order_is_the_same(first: Any, second: Any) -> None:
    found = same_program(first, second, W, X)
    assert found.same and bool(found) and found.differences == ()
    assert repr(found) == "the same program, up to names and up to what is captured or passed"


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (turned, "in g in captured (path 0/0): equation 0 (mul): operand 0, w, is x in the second"),
        (scaled, "in g in captured (path 0/0): 1 equations in the first, 2 in the second"),
        (
            added,
            "in g in captured (path 0/0): equation 0 (mul): the primitive is mul in the first, add in the second",
        ),
    ],
)
def test_differences(other: Any, difference: str) -> None:
    found = same_program(captured, other, W, X)
    assert not found
    assert found.differences[0] == difference
    assert not same_program(other, captured, W, X)


def test_another_axis_differs() -> None:
    assert not same_program(captured, other_axis, W, X)


def test_constants_and_literals_count() -> None:
    ones, twos = jnp.ones(3), jnp.full(3, 2.0)
    x = jnp.ones(3)
    assert same_program(lambda x: x * ones, lambda y: y * ones, x)
    assert not same_program(lambda x: x * ones, lambda x: x * twos, x)
    assert same_program(lambda x: x * 2.0, lambda x: x * 2.0, x)
    assert not same_program(lambda x: x * 2.0, lambda x: x * 3.0, x)


def test_operands_that_stand_for_another_role_differ() -> None:
    def scan(w: Any, h: Any, xs: Any) -> Any:
        return jax.lax.scan(lambda h, x: (h * w + x, h), h, xs)

    def renamed(a: Any, b: Any, c: Any) -> Any:
        return jax.lax.scan(lambda carry, item: (carry * a + item, carry), b, c)

    def crossed(w: Any, h: Any, xs: Any) -> Any:
        return jax.lax.scan(lambda c, x: (c * h + x, c), w, xs)

    args = (jnp.float32(1), jnp.float32(2), jnp.ones(5))
    assert same_program(scan, renamed, *args)
    assert not same_program(scan, crossed, *args)


def test_programs_can_be_given_instead() -> None:
    assert same_program(trace(captured, W, X), passed, W, X)
    assert same_program(trace(captured, W, X), trace(swapped, W, X))


def test_two_programs_take_no_arguments() -> None:
    program = trace(captured, W, X)
    assert same_program(program, program)
    with pytest.raises(TraceError) as refused:
        same_program(program, program, W)
    assert str(refused.value) == (
        "jaxprviz was given two programs and arguments: programs are traced already: they take no arguments\n"
        "Pass the two programs alone, or a function, the other one, and their arguments."
    )
