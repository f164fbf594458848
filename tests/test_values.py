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

from jaxprviz import _run, values
from jaxprviz.errors import RunError
from jaxprviz.program import Kind

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
    assert [(branch.title, branch.runs) for branch in branches] == [
        ("cond false <lambda>", (1, 1, 0, 0)),
        ("cond true <lambda>", (0, 0, 1, 1)),
        ("while cond <lambda>", (3, 1, 1, 1)),
        ("while body <lambda>", (2, 0, 0, 0)),
    ]
    assert [len(steps) for steps in branches[0]["v"].steps] == [1, 1, 0, 0]
    with pytest.raises(RunError, match="the devices ran it 0 or 1 times"):
        _ = branches[0]["v"].rows


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
    assert {path: list(variable.steps[3][0]) for path, variable in seen.named("w").items()} == {
        "0/0": [0, 1, 2]
    }


def test_a_loop_around_a_device_scope() -> None:
    def loop(w: Any, x: Any) -> Any:
        return lax.scan(lambda c, _: (jax.pmap(lambda y: w * y)(c), None), x, None, length=3)[0]

    w, x = jnp.asarray(2.0), jnp.arange(12.0).reshape(4, 3)
    seen = values(loop, w, x)
    (scope,) = seen.scopes
    assert scope.runs == (3, 3, 3, 3)
    assert np.array_equal(scope[1].rows, np.stack([x, 2 * x, 4 * x], axis=1))
    assert np.array_equal(seen.results[0], 8 * x)


def test_of_keys_the_numbers_are_told() -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    seen = values(lambda keys: jax.pmap(lambda k: jax.random.fold_in(k, 3))(keys), keys)
    folded = jax.vmap(lambda k: jax.random.fold_in(k, 3))(keys)
    assert np.array_equal(seen.scopes[0][0].rows, jax.random.key_data(keys))
    assert np.array_equal(seen.scopes[0][1].rows, jax.random.key_data(folded))


def test_references_are_not_numbers() -> None:
    def add(x: Any) -> Any:
        ref = jax.new_ref(x)
        ref[...] = ref[...] + 1
        return ref[...]

    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    fn = jax.jit(jax.shard_map(add, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
    (scope,) = values(fn, jnp.arange(4.0)).scopes
    assert [variable.missing for variable in scope.variables if variable.type.kind is Kind.REF] == [
        "it is no array of numbers: Ref f32[1]"
    ]
    assert np.array_equal(scope.variables[-1].rows, np.arange(4.0)[:, None] + 1)
    with pytest.raises(RunError, match="it is no array of numbers"):
        _ = next(variable for variable in scope.variables if variable.missing).rows


def test_the_steps_of_an_unrolled_loop_come_in_order() -> None:
    def loop(x: Any) -> Any:
        def step(carry: Any, n: Any) -> Any:
            return carry * 2 + n, jax.jit(lambda v: v + 1)(n)

        return lax.scan(step, x, jnp.arange(12.0), unroll=4)[0]

    step, inner = values(lambda x: jax.pmap(loop)(x), jnp.arange(4.0)).scopes[1:3]
    carry = [np.arange(4.0)]
    for n in range(11):
        carry.append(carry[-1] * 2 + n)
    assert np.array_equal(step["carry"].rows, np.stack(carry, axis=1))
    assert np.array_equal(inner["v"].rows, [np.arange(12.0)] * 4)


def test_so_many_runs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 of them; fewer of large values, but always one."""
    x = jnp.zeros((2, 3))

    def loop(x: Any) -> Any:
        return lax.scan(lambda carry, _: (carry + 1, None), x, None, length=100)[0]

    def kept() -> tuple[int, tuple[int, ...], list[int]]:
        scope = values(lambda x: jax.pmap(loop)(x), x).scopes[1]
        return scope.kept, scope.runs, [len(steps) for steps in scope[0].steps]

    assert kept() == (64, (100, 100), [64, 64])
    monkeypatch.setattr(_run, "MOST_BYTES", 24 * 5)
    assert kept() == (5, (100, 100), [5, 5])
    monkeypatch.setattr(_run, "MOST_BYTES", 1)
    assert kept() == (1, (100, 100), [1, 1])
    lines = repr(values(lambda x: jax.pmap(loop)(x), x).scopes[1]).splitlines()
    assert lines[2] == "      device 0  [0 0 0]; … 100 runs, only the first kept"


def test_what_is_not_seen_is_told() -> None:
    def solve(x: Any) -> Any:
        return lax.custom_linear_solve(lambda v: 2 * v, x, lambda _, y: y / 2)

    text = repr(values(lambda x: jax.pmap(solve)(x), jnp.arange(4.0)))
    assert text.count("not seen: what custom_linear_solve holds can't be watched") == 2

    def cold(x: Any) -> Any:
        return lax.cond(x.sum() < 0, lambda: jax.pmap(lambda y: y * 2)(x), lambda: x)

    seen = values(cold, jnp.arange(4.0))
    assert [(scope.runs, scope[0].missing) for scope in seen.scopes] == [((0,) * 4, "no device ran it")]

    def branch(x: Any) -> Any:
        return lax.cond(x > 1, lambda: x + 1, lambda: x)

    lines = repr(values(lambda x: jax.pmap(branch)(x), jnp.arange(4.0))).splitlines()
    assert lines[-4:] == [
        "      device 0  not run on this device",
        "      device 1  not run on this device",
        "      device 2  3",
        "      device 3  4",
    ]


def test_what_is_not_there() -> None:
    seen = values(fn, W, X)
    with pytest.raises(RunError, match="no device scope stands there"):
        _ = seen["9"]
    with pytest.raises(RunError, match="no variable is called so there"):
        _ = seen["0"]["zz"]
    with pytest.raises(RunError, match="no variable of the device scopes is called so"):
        _ = seen.named("zz")
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
    filled = values(jax.pmap(lambda x: x), jax.ShapeDtypeStruct((4,), jnp.int32))
    assert repr(filled).splitlines()[2:] == [
        "      device 0  0",
        "      device 1  1",
        "      device 2  2",
        "      device 3  3",
        "",
        "Example shapes were filled with numbers.",
    ]
    assert filled._repr_html_().endswith("<p>Example shapes were filled with numbers.</p>")
    assert repr(filled.scopes[0]) == "\n".join(repr(filled).splitlines()[:6])
    assert repr(values(lambda x: x, X)) == "The program has no device scope."
