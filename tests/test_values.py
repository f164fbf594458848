"""The values of device scopes, one row a device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from jaxprviz import values
from jaxprviz.errors import RunError

X = jnp.arange(8.0)


def fn(w: Any, x: Any) -> Any:
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))

    def block(x: Any) -> Any:
        x = x + lax.axis_index("i")

        def step(carry: Any, _: Any) -> Any:
            return carry * w[1], carry.sum()

        y, sums = lax.scan(step, x, None, length=3)
        z = lax.cond(lax.axis_index("i") > 1, lambda v: v + 1, lambda v: v * 2, y)
        k = lax.while_loop(lambda c: c.sum() < 40, lambda c: c + 10, z)
        return lax.psum(k, "i") + sums.sum()

    return jax.shard_map(block, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)


W = jnp.asarray([1.0, 2.0])


def test_each_scope_by_its_path() -> None:
    seen = values(fn, W, X)
    assert [(scope.path.split("/")[0], scope.title) for scope in seen.scopes] == [
        ("0", "shard_map block"),
        ("0", "scan step"),
        ("0", "cond false <lambda>"),
        ("0", "cond true <lambda>"),
        ("0", "while cond <lambda>"),
        ("0", "while body <lambda>"),
    ]
    block, step, *branches = seen.scopes
    assert block.axes == (("i", 4),)
    assert block.devices == ((0,), (1,), (2,), (3,))
    assert np.array_equal(block["w"].rows, [[1, 2]] * 4)
    assert np.array_equal(block["y"].rows, (np.arange(8.0).reshape(4, 2) + np.arange(4.0)[:, None]) * 8)
    # Three runs a device.
    start = np.arange(8.0).reshape(4, 2) + np.arange(4.0)[:, None]
    assert np.array_equal(step["carry"].rows, np.stack([start, start * 2, start * 4], axis=1))
    assert step.runs == (3, 3, 3, 3)
    # Each device takes its own branch, and its own number of steps.
    assert [(branch.title, branch.devices) for branch in branches[:2]] == [
        ("cond false <lambda>", ((0,), (1,))),
        ("cond true <lambda>", ((2,), (3,))),
    ]
    assert branches[3].runs == (2, 0, 0, 0) or branches[3].devices == ((0,),)


def test_results_are_those_of_the_function() -> None:
    assert np.array_equal(values(fn, W, X).results[0], fn(W, X))


def test_a_pmap_is_seen_as_it_is_drawn() -> None:
    w, x = jnp.arange(3.0), jnp.arange(12.0).reshape(4, 3)
    seen = values(jax.jit(lambda w, x: jax.pmap(lambda x: w * x)(x)), w, x)
    (scope,) = seen.scopes
    assert (scope.path, [variable.name for variable in scope.variables[:2]]) == ("0/0", ["w", "x"])
    assert np.array_equal(scope["x"].rows, x)
    assert np.array_equal(scope[2].rows, w * x)
    assert np.array_equal(seen["0/0"]["w"].rows, [w] * 4)


def test_a_loop_around_a_device_scope() -> None:
    def loop(w: Any, x: Any) -> Any:
        return lax.scan(lambda c, _: (jax.pmap(lambda y: w * y)(c), None), x, None, length=3)[0]

    w, x = jnp.asarray(2.0), jnp.arange(12.0).reshape(4, 3)
    seen = values(loop, w, x)
    (scope,) = seen.scopes
    assert scope.runs == (3, 3, 3, 3)
    assert np.array_equal(scope[1].rows, np.stack([x, 2 * x, 4 * x], axis=1))
    assert np.array_equal(seen.results[0], 8 * x)


def test_keys_are_not_numbers() -> None:
    seen = values(
        lambda keys: jax.pmap(lambda k: jax.random.normal(k))(keys), jax.random.split(jax.random.key(0), 4)
    )
    assert seen.scopes[0][0].missing == "it is no array of numbers: key<fry>[]"
    with pytest.raises(RunError, match="it is no array of numbers"):
        _ = seen.scopes[0][0].rows


def test_what_is_not_there() -> None:
    seen = values(fn, W, X)
    with pytest.raises(RunError, match="no device scope stands there"):
        _ = seen["9"]
    with pytest.raises(RunError, match="no variable is called so there"):
        _ = seen["0"]["zz"]
    with pytest.raises(RunError, match="variables are called so there"):
        _ = seen["0"]["x"]


def test_as_text_and_as_a_table() -> None:
    seen = values(jax.pmap(lambda x: x * 2, axis_name="<i>"), jnp.arange(4.0))
    lines = repr(seen).splitlines()
    assert lines[0] == "pmap <lambda> at 0 over <i>=4"
    assert lines[1:6] == [
        "x: f32[]",
        "         <i>=0  0",
        "         <i>=1  1",
        "         <i>=2  2",
        "         <i>=3  3",
    ]
    assert "<i>" not in seen._repr_html_()
    assert repr(values(lambda x: x, X)) == "The program has no device scope."
