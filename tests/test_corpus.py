"""What other people's programs showed: each rule on a minimal program, and the rules on many of JAX's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import corpus
import invariants
import jax
import jax.numpy as jnp
import pytest

from jaxprviz import _jax, explain, trace
from jaxprviz._captures import first_scopes, is_captured
from jaxprviz._pmap import fold_pmaps
from jaxprviz._read import read
from jaxprviz.program import Call, Equation, Literal, Program, Role

X = jnp.arange(5.0)


def wrong(found: corpus.Collector) -> dict[str, int]:
    """What does not hold, with how often; how long it took is for the tool to tell, not for a test."""
    return {kind: count for kind, count in found.kinds.items() if not kind.endswith(": slow")}


def equations(program: Program) -> Iterator[Equation]:
    for body in program.bodies:
        yield from body.equations


def the(program: Program, primitive: str) -> Equation:
    (found,) = (equation for equation in equations(program) if equation.primitive == primitive)
    return found


def held(program: Program, primitive: str) -> Call:
    (call,) = the(program, primitive).calls
    return call


# --- primitives whose bodies join elements ------------------------------------------------------------------


def test_what_a_scatter_joins_are_elements() -> None:
    """An element of the array and one of the updates, the third operand; the indices enter no body."""
    program = trace(lambda x: x.at[1].apply(lambda one: one * 2 + 1), X)
    (call,) = [call for equation in equations(program) for call in equation.calls]
    assert (call.inputs, call.outputs, call.captured, call.roles) == (
        (0, 2),
        (0,),
        (False, False),
        (Role.SLICED, Role.SLICED),
    )
    for one in (program, trace(lambda x, y: x.at[1].add(y), X, jnp.float32(2))):
        assert "No inner function captures a variable." in explain(one)
        assert "Not known" not in explain(one)


@pytest.mark.parametrize(
    ("primitive", "fn"),
    [
        ("reduce", lambda x, y: jax.lax.reduce(x, y, lambda a, b: a + 2 * b, (0,))),
        (
            "reduce_window",
            lambda x, y: jax.lax.reduce_window(x, y, lambda a, b: a + 2 * b, (2,), (1,), "SAME"),
        ),
    ],
)
def test_what_a_reduction_joins(primitive: str, fn: Callable[..., Any]) -> None:
    """The value so far, which begins as the second operand, and an element of the first one."""
    y = jnp.float32(2) if primitive == "reduce" else 0.0
    program = trace(lambda x: fn(x, y), X)
    call = held(program, primitive)
    assert (call.inputs, call.outputs, call.captured, call.roles) == (
        (1, 0),
        (0,),
        (False, False),
        (Role.CARRY, Role.SLICED),
    )
    assert "Not known" not in explain(program)


def test_a_reduction_of_two_arrays() -> None:
    def larger(one: Any, other: Any) -> Any:
        return jnp.maximum(one[0], other[0]), jnp.minimum(one[1], other[1])

    program = trace(lambda x, y: jax.lax.reduce((x, y), (0.0, 0.0), larger, (0,)), X, X)
    call = held(program, "reduce")
    assert (call.inputs, call.outputs) == ((2, 3, 0, 1), (0, 1))


# --- texts --------------------------------------------------------------------------------------------------


def test_numbers_of_numpy_are_numbers() -> None:
    program = trace(jax.vmap(lambda x: jnp.cross(x, x)), jnp.ones((2, 3)))
    assert [text for equation in equations(program) for _, text in equation.params if "np." in text] == []
    gathered = trace(jax.vmap(lambda x, k: x[k]), jnp.ones((2, 3)), jnp.zeros(2, int))
    assert dict(the(gathered, "gather").params)["slice_sizes"] == "(1, 1)"


def test_the_derivative_along_whole_numbers() -> None:
    """Its type, float0, has no bytes; the text of its only value is not `(b'',)`."""
    program = trace(lambda x: jax.jvp(lambda x: x[:, None] < x, (x,), (x,)), X)
    literals = [atom for one in equations(program) for atom in one.operands if isinstance(atom, Literal)]
    assert {atom.text for atom in literals if atom.type.short.startswith("float0")} == {"0"}


# --- names --------------------------------------------------------------------------------------------------


class Linear:
    def __init__(self, size: int) -> None:
        self.weight = jnp.full((size, size), 2.0)

    def __call__(self, x: Any) -> Any:
        return self.weight @ x


class Network:
    """A model of layers that can be called themselves."""

    def __init__(self) -> None:
        self.layers = [Linear(5) for _ in range(4)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def baked(program: Program) -> list[str | None]:
    return [constant.name for body in program.bodies for constant in body.constants]


def test_the_arrays_of_layers_have_the_name_of_their_layer() -> None:
    model = Network()
    places = [f"layers[{position}].weight" for position in range(4)]
    assert baked(trace(model, X)) == [f"self.{place}" for place in places]
    assert baked(trace(lambda x: model(x), X)) == [f"model.{place}" for place in places]
    assert baked(trace(lambda x: model.__call__(x), X)) == [f"model.{place}" for place in places]


# --- captures of functions that JAX itself jits -------------------------------------------------------------


def unknown(program: Program) -> list[str]:
    return [
        scope.title()
        for scope in first_scopes(program)
        for position in range(len(scope.body.inputs))
        if is_captured(scope, position) is None
    ]


def test_functions_of_jax_are_known_by_their_code() -> None:
    """After grad, and as one branch of several, JAX keeps no names; `where` and `sin` capture nothing."""
    program = trace(jax.grad(lambda x: jnp.where(x > 1, x * x, 0.0).sum()), X)
    assert "_where" in {scope.title() for scope in first_scopes(program)}
    assert unknown(program) == []
    assert unknown(trace(lambda k, w, x: jax.lax.switch(k, [lambda x: x * w, jnp.sin], x), 1, 2.0, X)) == []
    assert "No inner function captures" in explain(jax.grad(lambda x: jnp.where(x > 1, x * x, 0.0).sum()), X)


def test_one_of_several_functions_of_one_name() -> None:
    """The code is found by where the function is written: here are two of the name `<lambda>` in each other."""

    def f(w: Any, x: Any) -> Any:
        scaled = lambda y: w * y  # noqa: E731
        return jax.lax.cond(
            x.sum() > 0,
            lambda y: scaled(y),
            lambda y: y,
            x,
        )

    (call,) = [
        scope
        for scope in first_scopes(trace(f, jnp.float32(2), X))
        if scope.equation is not None and scope.equation.primitive == "cond" and scope.body.equations
    ]
    assert call.body.closure == ("scaled",)


# --- pmap ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(jax.__version_info__ < (0, 8), reason="there it has no wrapper")
def test_the_wrapper_of_a_pmap_as_the_whole_program() -> None:
    """What `lower` compiles is JAX's own function around the pmapped one; it is a pmap all the same."""

    def g(w: Any, x: Any) -> Any:
        return w * x

    jaxpr = jax.make_jaxpr(jax.pmap(g, in_axes=(None, 0)))(X, jnp.ones((4, 5)))
    wrapper = [
        inner for one in jaxpr.eqns for value in one.params.values() for inner in _jax.sub_jaxprs(value)
    ]
    whole, alone = (fold_pmaps(read(one)) for one in (jaxpr, *wrapper))
    assert [one.primitive for one in alone.main.equations] == [
        one.primitive for one in (whole.main if len(whole.bodies) == 2 else whole.bodies[0]).equations
    ]
    assert invariants.problems(wrapper[0]) == []


# --- names of trees -----------------------------------------------------------------------------------------


def test_keys_without_a_text_of_their_own() -> None:
    """A key that Python writes with its address is written without: a picture is the same in each process."""
    program = trace(lambda tree: tree, {object(): X})
    assert program.main.input_names == ("tree[<object object>]",)
    assert program.main.output_names == ("result[<object object>]",)


# --- many programs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(2))
def test_examples_of_primitives(part: int) -> None:
    """Some of JAX's own examples: alone, and a few of them differentiated, mapped, repeated, over devices."""
    pytest.importorskip("absl")  # the examples need it
    found = corpus.Collector(rendered=1)
    corpus.run(itertools.islice(corpus.harnesses(), part * 20, None, 41), found, more=False)
    corpus.run(itertools.islice(corpus.harnesses(), part * 223, None, 1500), found)
    assert len(found.seen) > 100
    assert wrong(found) == {}, found.report()


def test_functions_of_arrays() -> None:
    """Some of those of jax.numpy, jax.scipy, jax.lax, jax.random and jax.nn."""
    found = corpus.Collector(rendered=1)
    corpus.run(corpus.functions(every=12), found, more=False)
    assert len(found.seen) > 30
    assert wrong(found) == {}, found.report()
