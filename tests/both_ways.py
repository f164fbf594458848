"""Programs that bake arrays in, and what is made of them: run with JAX's constants held in either way.

    JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS=1 JAX_NUM_CPU_DEVICES=8 python tests/both_ways.py OUT

Writes a JSON object: for each program its DOT text, its sentences and its JSON.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

CASES = Path(__file__).parent / "cases"

TABLE = jnp.arange(12.0).reshape(3, 4)
ROW = np.arange(4.0, dtype=np.float32)
WIDE = np.arange(4.0)
SCALE = jnp.float32(3.0)
NUMBER = np.float32(2.0)
POINT = np.array(5.0, dtype=np.float32)
PLACES = jnp.arange(3)
KEY = jax.random.key(0)
X = jnp.ones(4)

OWN: dict[str, Callable[..., Any]] = {}


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    OWN[fn.__name__] = fn
    return fn


def mesh(kind: AxisType = AxisType.Auto) -> Any:
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)


class Model:
    """A model that holds its weights."""

    def __init__(self) -> None:
        self.w = jnp.full((4, 4), 0.5)
        self.b = np.full(4, 0.25, dtype=np.float32)

    def __call__(self, x: Any) -> Any:
        return jnp.tanh(x @ self.w + self.b)


@program
def flat(x: Any) -> Any:
    return x + ROW + ROW + SCALE + NUMBER + POINT + 2.5 + TABLE[0] + WIDE + WIDE * 2


@program
def in_jit(x: Any) -> Any:
    return jax.jit(lambda y: y + ROW + SCALE)(x) + ROW


@program
def in_jit_in_jit(x: Any) -> Any:
    inner = jax.jit(lambda y: y + TABLE[0])
    return jax.jit(lambda z: inner(z) * 2 + TABLE[1])(x)


@program
def called_twice(x: Any) -> Any:
    inner = jax.jit(lambda y: y + ROW)
    return inner(x) + inner(x * 2)


@program
def in_scan(x: Any) -> Any:
    return lax.scan(lambda c, _: (c + TABLE[0] + SCALE, c * ROW), x, None, length=3)


@program
def scan_with_captures(x: Any) -> Any:
    return lax.scan(lambda c, v: (c + ROW * v + x, c + TABLE[0]), x * 2, TABLE[:, 0])


@program
def scan_captures_first(x: Any) -> Any:
    y = jnp.sin(x)
    return lax.scan(lambda c, v: (c * y + TABLE[0] * v + x, c), x, jnp.ones(3))


@program
def scan_in_scan(x: Any) -> Any:
    def outer(c: Any, _: Any) -> Any:
        return lax.scan(lambda d, _: (d + ROW + TABLE[1], None), c + TABLE.sum() + x, None, length=2)

    return lax.scan(outer, x * 2, None, length=3)


@program
def scan_in_jit(x: Any) -> Any:
    return jax.jit(lambda y: lax.scan(lambda c, _: (c + TABLE[0], None), y, None, length=3)[0] + TABLE[0])(x)


@program
def jit_in_scan(x: Any) -> Any:
    return lax.scan(lambda c, _: (jax.jit(lambda d: d + TABLE[0])(c), None), x, None, length=3)


@program
def scan_unchanged_carry(x: Any) -> Any:
    return lax.scan(lambda c, _: ((c[0] + TABLE[0] * c[1], c[1]), None), (x, x * 2), None, length=3)


@program
def scan_of_a_key(x: Any) -> Any:
    return lax.scan(lambda c, _: (c + jax.random.normal(KEY, (4,)) + TABLE[0], None), x, None, length=3)


@program
def in_while(x: Any) -> Any:
    return lax.while_loop(
        lambda c: (c < TABLE[2]).all() & (c < SCALE).all(), lambda c: c + TABLE[0] + x + ROW, x * 2
    )


@program
def in_fori(x: Any) -> Any:
    return lax.fori_loop(0, x[0].astype(int), lambda i, c: c + TABLE[0] * i + x, x * 2)


@program
def in_map(x: Any) -> Any:
    return lax.map(lambda v: v * TABLE[0], x)


@program
def in_cond(x: Any) -> Any:
    return lax.cond(x[0] > 0, lambda y: y + TABLE[0] + x, lambda y: y * TABLE[1] + ROW, x)


@program
def cond_one_branch(x: Any) -> Any:
    return lax.cond(x[0] > 0, lambda y: y + TABLE[0], lambda y: y * 2, x)


@program
def cond_same_in_both(x: Any) -> Any:
    return lax.cond(x[0] > 0, lambda y: y + TABLE[0], lambda y: y * TABLE[0], x)


@program
def cond_numpy_in_both(x: Any) -> Any:
    return lax.cond(x[0] > 0, lambda y: y + ROW, lambda y: y * ROW, x)


@program
def in_switch(x: Any) -> Any:
    return lax.switch(x[0].astype(int), [lambda: TABLE[0] + x, lambda: x * 2, lambda: ROW * x])


@program
def switch_of_two(x: Any) -> Any:
    return lax.switch(x[0].astype(int), [lambda y: TABLE[0] + y, lambda y: y * SCALE + ROW], x)


@program
def cond_in_scan(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        return lax.cond(v > 0, lambda d: d + TABLE[0], lambda d: d * x, c), None

    return lax.scan(step, x * 2, jnp.ones(3))


@program
def in_shard_map(x: Any) -> Any:
    def body(y: Any) -> Any:
        return y + SCALE + ROW[:2] + TABLE[0, 0] + x[0]

    return jax.shard_map(body, mesh=mesh(), in_specs=P("model"), out_specs=P("model"))(x)


@program
def scan_in_shard_map(x: Any) -> Any:
    def body(y: Any) -> Any:
        c = lax.scan(lambda c, _: (c + TABLE[0, :1], None), y, None, length=2)[0]
        return lax.psum(c, "data")

    return jax.shard_map(body, mesh=mesh(), in_specs=P("data"), out_specs=P())(x)


@program
def shard_map_in_jit(x: Any) -> Any:
    @jax.jit
    def f(x: Any) -> Any:
        return jax.shard_map(
            lambda y: y * TABLE[0, :1], mesh=mesh(), in_specs=P("data"), out_specs=P("data")
        )(x)

    return f(x)


@program
def jit_in_shard_map(x: Any) -> Any:
    inner = jax.jit(lambda y: y * TABLE[0, :1])
    return jax.shard_map(inner, mesh=mesh(), in_specs=P("data"), out_specs=P("data"))(x)


@program
def shard_map_unchecked(x: Any) -> Any:
    return jax.shard_map(
        lambda y: y * TABLE[0, :1], mesh=mesh(), in_specs=P("data"), out_specs=P("data"), check_vma=False
    )(x)


@program
def in_pmap(x: Any) -> Any:
    return jax.pmap(lambda y: y + ROW + x * TABLE[0])(TABLE)


@program
def pmap_in_jit(x: Any) -> Any:
    @jax.jit
    def f(x: Any) -> Any:
        @jax.pmap
        def g(x: Any) -> Any:
            return TABLE[:2, :3] * x

        return g(x)

    return f(jnp.ones((4, 2, 3)))


@program
def jit_in_pmap(x: Any) -> Any:
    return jax.pmap(jax.jit(lambda y: y + TABLE[0]))(jnp.ones((4, 4)))


@program
def pmap_axes(x: Any) -> Any:
    f = functools.partial(jax.pmap, axis_name="i", in_axes=(None, 0), out_axes=None)
    return f(lambda a, b: lax.psum(a * b + TABLE[0], "i"))(x, jnp.ones((4, 4)))


@program
def in_custom_jvp(x: Any) -> Any:
    @jax.custom_jvp
    def f(y: Any) -> Any:
        return y + TABLE[0] + x

    f.defjvp(lambda p, t: (f(p[0]), t[0] * TABLE[0]))
    return f(x * 2)


@program
def in_custom_vjp(x: Any) -> Any:
    return _custom_vjp()(x)


def _custom_vjp() -> Any:
    @jax.custom_vjp
    def f(y: Any) -> Any:
        return y + TABLE[0] * SCALE

    f.defvjp(lambda y: (f(y), y), lambda r, g: (g * TABLE[0],))
    return f


@program
def in_remat(x: Any) -> Any:
    return jax.checkpoint(lambda y: jnp.sin(x + y * TABLE[0]))(x * 2)


@program
def in_linear_solve(x: Any) -> Any:
    return lax.custom_linear_solve(lambda v: v * ROW, x, lambda mv, b: b / ROW, symmetric=True)


@program
def in_custom_root(x: Any) -> Any:
    def solve(f: Any, x0: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, v: v - 0.1 * f(v), x0)

    def tangent(g: Any, y: Any) -> Any:
        return y / g(1.0)

    return lax.custom_root(lambda v: v**2 - SCALE * x[0], x[1], solve, tangent)


@program
def in_custom_vmap(x: Any) -> Any:
    @jax.custom_batching.custom_vmap
    def f(y: Any) -> Any:
        return y * TABLE[0]

    return f(x)


@program
def in_associative_scan(x: Any) -> Any:
    return lax.associative_scan(lambda a, b: a * b + TABLE[0, :1], jnp.ones((4, 1)) * x[0])


@program
def in_reduce(x: Any) -> Any:
    return lax.reduce(x, jnp.float32(0), lambda a, b: a + b, (0,)) + SCALE


@program
def returned(x: Any) -> Any:
    return ROW, x, TABLE, SCALE


@program
def returned_by_jit(x: Any) -> Any:
    return jax.jit(lambda y: (TABLE, y))(x)


@program
def returned_by_scan(x: Any) -> Any:
    return lax.scan(lambda c, _: (c * 2, TABLE[0]), x, None, length=2)


@program
def passed_to_jit(x: Any) -> Any:
    return jax.jit(lambda a, b: a + b)(ROW, TABLE) + x


@program
def passed_to_scan(x: Any) -> Any:
    return lax.scan(lambda c, v: (c + v, None), ROW, TABLE)[0] + x


@program
def gathered(x: Any) -> Any:
    return TABLE[PLACES].sum() + x


@program
def model(x: Any) -> Any:
    return Model()(x)


@program
def models_in_scan(x: Any) -> Any:
    m = Model()
    return lax.scan(lambda c, _: (m(c), None), x, None, length=3)


@program
def models_in_jit(x: Any) -> Any:
    m = Model()
    return jax.jit(m.__call__)(x) + m.b


@program
def closed_over(x: Any) -> Any:
    w, b = jnp.eye(4), np.ones(4, dtype=np.float32)

    @jax.jit
    def layer(x: Any) -> Any:
        return x @ w + b

    return jax.pmap(lambda y: layer(y) + b)(jnp.ones((2, 4))) + x


OWN["of_an_array"] = TABLE[0].__add__
OWN["a_bound_method"] = Model().__call__
OWN["a_partial"] = functools.partial(lambda w, x: w * x, TABLE[0])


@program
def effects(x: Any) -> Any:
    jax.debug.print("{}", ROW)
    return jax.pure_callback(
        lambda a, b: np.asarray(a) + np.asarray(b), jax.ShapeDtypeStruct((4,), x.dtype), x, TABLE[0]
    )


def derived() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The gradient, the batched form and the forward derivative of each of them."""

    def total(fn: Callable[..., Any]) -> Callable[..., Any]:
        def loss(x: Any) -> Any:
            return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(fn(x)))

        return loss

    for name, fn in tuple(OWN.items()):
        yield f"grad of {name}", jax.grad(total(fn))
        yield f"vmap of {name}", lambda x, fn=fn: jax.vmap(fn)(jnp.stack([x, x]))
        yield f"jvp of {name}", lambda x, fn=fn: jax.jvp(fn, (x,), (x,))


def cases() -> Iterator[tuple[str, Callable[[], tuple[Any, tuple[Any, ...]]]]]:
    for file in sorted(CASES.glob("*/*.py")):
        spec = importlib.util.spec_from_file_location(f"case_{file.stem}", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except ModuleNotFoundError:
            continue  # a package that this environment does not have
        yield file.stem, module.build


def everything() -> Iterator[tuple[str, Callable[[], tuple[Any, tuple[Any, ...]]]]]:
    from zoo import ZOO

    yield from ((f"own/{name}", lambda fn=fn: (fn, (X,))) for name, fn in OWN.items())
    yield from ((f"own/{name}", lambda fn=fn: (fn, (X,))) for name, fn in derived())
    yield from ((f"zoo/{name}", build) for name, build in ZOO.items())
    yield from ((f"cases/{name}", build) for name, build in cases())


def told(build: Callable[[], tuple[Any, tuple[Any, ...]]]) -> dict[str, str]:
    """What is made of one program; what is refused is told by its message."""
    from jaxprviz import draw, to_json
    from jaxprviz.errors import JaxprvizError

    try:
        fn, args = build()
        figure = draw(fn, *args)
    except (JaxprvizError, ModuleNotFoundError) as error:
        return {"refused": str(error).splitlines()[0]}
    assert figure.program is not None
    return {"dot": figure.dot, "text": figure.text, "json": to_json(figure.program)}


def main() -> None:
    chosen = sys.argv[2:]
    found = {name: told(build) for name, build in everything() if not chosen or name in chosen}
    Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
