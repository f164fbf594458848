"""Small programs that random ones shrank to, with the right answers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from jaxprviz import explain
from jaxprviz._captures import all_captures, captures, first_scopes, is_captured
from jaxprviz._check import Outcome, check
from jaxprviz._pmap import fold_pmaps
from jaxprviz._trace import trace

X, W = jnp.arange(3.0), jnp.ones(3)


def mesh() -> jax.sharding.Mesh:
    """Two devices on an axis `a`, of which the compiler decides."""
    return jax.sharding.Mesh(jax.devices()[:2], ("a",), axis_types=(jax.sharding.AxisType.Auto,))


def captured_names(fn: Callable[..., Any], *args: Any, of: str) -> list[str | None]:
    """The names of what the function `of` captures, wherever it stands first."""
    for scope in first_scopes(fold_pmaps(trace(fn, *args))):
        if scope.body.name == of:
            return [capture.name for capture in captures(scope)]
    raise AssertionError(f"{of} is not there")


def told(fn: Callable[..., Any], *args: Any) -> dict[str, list[bool | None]]:
    """For each inner function, of each input whether it is captured."""
    scopes = first_scopes(fold_pmaps(trace(fn, *args)))
    return {
        str(scope.body.name): [is_captured(scope, position) for position in range(len(scope.body.inputs))]
        for scope in scopes
        if scope.equation is not None
    }


# --- the names of results -----------------------------------------------------------------------------------


def test_a_carry_that_is_handed_through_takes_no_name_away() -> None:
    """The scan has one result then: `_` is none of its names."""

    def main(x: Any, w: Any) -> Any:
        (a, b), _ = lax.scan(lambda c, _: ((c[0] * w, c[1]), None), (x, x), None, length=3)

        def use() -> Any:
            return a + b

        return jax.jit(use)()

    assert captured_names(main, X, W, of="use") == ["a", "x"]


def test_a_carry_of_two_in_one_name() -> None:
    """What is sliced is None: both results are parts of the carry."""

    def main(x: Any, w: Any) -> Any:
        carry, out = lax.scan(lambda c, _: ((c[0] * w, c[1] * 2), None), (x, x), None, length=3)

        def use() -> Any:
            return carry[0] + carry[1]

        del out
        return jax.jit(use)()

    assert captured_names(main, X, W, of="use") == ["carry[0]", "carry[1]"]


def test_results_in_trees() -> None:
    def main(x: Any, w: Any) -> Any:
        def several(x: Any) -> Any:
            return x * 2, (w * 2, {"k": x + 1})

        p, q = jax.jit(several)(x)
        (r, s), t = jax.jit(lambda x: ((x * 3, x * 4), x * 5))(x)

        def use() -> Any:
            return p + q[0] + q[1]["k"] + r + s + t

        return jax.jit(use)()

    assert captured_names(main, X, W, of="use") == ["p", "q[0]", "q[1]['k']", "r", "s", "t"]


def test_results_of_loops() -> None:
    """A `while` hands through what its body does not change; a static `fori_loop` has a counter besides."""

    def main(x: Any, w: Any) -> Any:
        u, v = lax.while_loop(lambda c: c[0].sum() < 3, lambda c: (c[0] + 1, c[1]), (x, w))
        r, s = lax.fori_loop(0, 3, lambda i, c: (c[0] + 1, c[1] * 2), (x, w))
        y = lax.map(lambda x: x * 2, x)

        def use() -> Any:
            return u + v + r + s + y

        return jax.jit(use)()

    unknown = jax.__version_info__ < (0, 8)  # there a fori_loop keeps no paths
    pair = [None, None] if unknown else ["r", "s"]
    assert captured_names(main, X, W, of="use") == ["u", "w", *pair, "y"]


# --- branches -----------------------------------------------------------------------------------------------


def branches(b: Any, c: Any) -> Any:
    def none(x: Any) -> Any:
        return b * b + x

    def some(y: Any) -> Any:
        return b + y * c

    def bound(w: Any, z: Any) -> Any:
        return z - w

    return lax.switch((jnp.mean(b) * 3.0).astype(int), [none, some, functools.partial(bound, b)], c)


BRANCHES = {"none": [True, False, False], "some": [True, True, False], "bound": [True, False, False]}
"""Of the inputs b, c and the argument c whether each branch captures it; a branch captures only what it reads."""


def test_a_branch_that_a_partial_binds() -> None:
    """It is the partial's variable that is captured, whatever the code's arguments are."""
    assert told(branches, X, W) == BRANCHES


def test_branches_that_a_jit_has_traced_before() -> None:
    """What a jit kept from before has lost the names: it is traced anew."""
    jitted = jax.jit(branches)
    jitted(X, W)
    assert {name: row for name, row in told(jitted, X, W).items() if name != "branches"} == BRANCHES


def test_branches_under_vmap() -> None:
    assert told(jax.vmap(branches, in_axes=(None, 0)), X, jnp.ones((4, 3))) == BRANCHES


def test_one_cond_in_two_places_is_one_body() -> None:
    """What keeps the names does not make another body of a branch that is traced twice."""

    def main(x: Any) -> Any:
        def yes() -> Any:
            return x * 2

        def no() -> Any:
            return x * 3

        return lax.cond(x.sum() > 0, yes, no) + lax.cond(x.sum() > 0, yes, no)

    names = [body.name for body in trace(main, X).bodies]
    assert sorted(name for name in names if name in ("yes", "no")) == ["no", "yes"]


# --- copies that differ --------------------------------------------------------------------------------------


def test_copies_that_nobody_checked() -> None:
    """What an unchecked scope returns as one is another thing on each device: that is no claim of ours."""
    mesh = jax.sharding.Mesh(jax.devices()[:2], ("a",), axis_types=(jax.sharding.AxisType.Auto,))

    def mapped(fn: Any, into: Any, out: Any) -> Any:
        return jax.shard_map(fn, mesh=mesh, in_specs=into, out_specs=out, check_vma=False)

    def main(x: Any) -> Any:
        y = mapped(lambda w: w + w, jax.P("a"), jax.P())(x)
        return mapped(lambda v: v * 2 + y, jax.P(), jax.P("a"))(y)

    report = check(main, jnp.arange(8.0))
    found = [(claim.variable, claim.says, claim.outcome) for claim in report.claims if "copied" in claim.says]
    asked = "copied whole to 2 devices; copies may differ"
    assert found == [(name, asked, Outcome.OTHERWISE) for name in ("y (result)", "y", "y")]
    captured = [claim.outcome for claim in report.claims if claim.says.startswith("captured")]
    assert captured == [Outcome.OTHERWISE]
    lines = [line for line in explain(main, jnp.arange(8.0)).splitlines() if "called v" in line]
    assert [line.endswith("the copies may differ.") for line in lines] == [True]


# --- pmap ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jitted", [False, True])
def test_a_pmap_that_a_partial_binds(jitted: bool) -> None:
    """What is copied whole is captured, bound by the partial, or an argument: each is told."""

    def main(x: Any, w: Any, v: Any) -> Any:
        def device(bound: Any, mapped: Any, whole: Any) -> Any:
            return mapped * whole * w + bound

        return jax.pmap(functools.partial(device, v), in_axes=(0, None))(x, v)

    args = jnp.arange(8.0), jnp.ones(3), jnp.ones(3)
    found = told(jax.jit(main) if jitted else main, *args)["device"]
    assert found == [True, True, False, False]
    assert captured_names(main, *args, of="device") == ["w", "v"]


def test_a_pmap_whose_arguments_have_lost_their_names() -> None:
    """What stands inside captures the argument, not what the pmap is called with."""

    def main(x: Any, w: Any) -> Any:
        def device(row: Any, scale: Any = w) -> Any:
            def step(carry: Any, _: Any) -> Any:
                return carry * row, None

            return lax.scan(step, scale, None, length=2)[0]

        return jax.pmap(device)(x)

    names = captured_names(main, jnp.arange(8.0), jnp.ones(3), of="step")
    assert names == (["row"] if jax.__version_info__ < (0, 8) else [None])


def test_another_leaf_of_a_captured_tree() -> None:
    """After differentiation JAX keeps no names: that the code reads a leaf of `p` does not tell which."""

    def main(p: Any) -> Any:
        def loss(b: Any) -> Any:
            def local(x: Any, y: Any) -> Any:
                return x * p["a"] * y

            mesh = jax.sharding.Mesh(jax.devices()[:2], ("i",), axis_types=(jax.sharding.AxisType.Auto,))
            mapped = jax.shard_map(local, mesh=mesh, in_specs=jax.P(), out_specs=jax.P(), check_vma=False)
            return mapped(b, p["a"]).sum()

        return jax.grad(loss)(p["b"])

    scopes = first_scopes(trace(main, {"a": X, "b": W}))
    wrong = [
        capture.name for scope in scopes if scope.body.name == "local" for capture in captures(scope)
        if capture.name != "p['a']"
    ]  # fmt: skip
    assert wrong == []


def test_no_name_where_a_function_on_the_way_may_bind_it_anew() -> None:
    mapped = functools.partial(jax.shard_map, mesh=mesh(), check_vma=False)

    def main(w: Any, x: Any) -> Any:
        def curve(x: Any) -> Any:
            y = w * jnp.mean(w)

            def local(v: Any) -> Any:
                @jax.jit
                def double() -> Any:
                    return v + v

                return y + double()

            return x + mapped(local, in_specs=jax.P(), out_specs=jax.P())(w)

        return jax.jvp(curve, (x,), (x,))

    found = [one for one in all_captures(trace(main, X, X)) if one.scope.body.name == "double"]
    assert [(one.name, one.bound) for one in found] == [(None, False)]


def test_the_axis_of_a_collective_is_no_key_of_a_tree() -> None:
    mapped = functools.partial(jax.shard_map, mesh=mesh(), check_vma=False)

    def main(tree: Any, x: Any) -> Any:
        def loss(x: Any) -> Any:
            def local(w: Any) -> Any:
                return jax.lax.psum(x, "a") * jnp.mean(tree["b"])

            return jnp.mean(mapped(local, in_specs=jax.P("a"), out_specs=jax.P())(tree["a"]))

        return jax.grad(loss)(x)

    program = trace(main, {"a": jnp.arange(4.0), "b": jnp.arange(3.0)}, jnp.arange(2.0))
    names = {one.name for one in all_captures(program)}
    assert "tree['a']" not in names


def test_a_rule_of_its_own_captures_also_where_it_was_traced_twice() -> None:
    def main(x: Any, s: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            @jax.custom_vjp
            def rule(y: Any) -> Any:
                return y * s

            rule.defvjp(lambda y: (rule(y), y), lambda _, back: (back,))
            return rule(carry)

        return jax.lax.fori_loop(0, jnp.int32(x.sum()), step, x)

    program = trace(jax.vmap(main), jnp.ones((3, 4)), jnp.ones((3, 4)))
    rules = [scope for scope in first_scopes(program) if scope.body.name == "rule"]
    assert [one.name for scope in rules for one in captures(scope)] == ["s"]
    assert [is_captured(scope, position) for scope in rules for position in (0, 1)] == [True, False]


@pytest.mark.parametrize("by", [jax.grad, jax.vmap, lambda fn: lambda w, x: jax.linearize(fn, w, x)[0]])
def test_a_function_that_only_calls_another_may_capture_what_it_passes_on(by: Callable[..., Any]) -> None:
    def loss(w: Any, x: Any) -> Any:
        @jax.jit
        def outer(x: Any) -> Any:
            return jax.jit(lambda v, x: jnp.sin(v) * x)(w, x)

        return outer(x).sum()

    program = trace(by(loss), jnp.ones((2, 3)), jnp.ones((2, 3)))
    scope = next(scope for scope in first_scopes(program) if scope.body.name == "outer")
    assert [one.name for one in captures(scope)] == ["w"]
