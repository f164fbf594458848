"""A small program for each primitive that holds bodies, and some that hold none: `ZOO` names them.

Each entry builds a function and example arguments: `fn, args = ZOO["scan"]()`.  What this JAX can't trace is
left out.  `NOT_RUN` are those that can be traced and drawn, but not run here.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec

Built = tuple[Callable[..., Any], tuple[Any, ...]]

ZOO: dict[str, Callable[[], Built]] = {}
NOT_RUN = {"ffi_call", "custom_dce"}
_VERSION = jax.__version_info__
_FOR_TPU = "absl" if _VERSION >= (0, 9) else "jax"
"""The package that JAX's module for the TPU needs, from which kernels take their working memory."""


def _entry(
    since: tuple[int, ...] = (0,), until: tuple[int, ...] = (99,), needs: str = "jax"
) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Enters a program for versions of JAX from `since` to before `until`, where the package `needs` is."""

    def enter(build: Callable[[], Built]) -> Callable[[], Built]:
        if since <= _VERSION < until and importlib.util.find_spec(needs):
            ZOO[build.__name__.removesuffix("_")] = build
        return build

    return enter


def _x(*shape: int) -> Any:
    """Numbers around 1, all different."""
    return jnp.linspace(0.5, 1.5, int(np.prod(shape)), dtype=jnp.float32).reshape(shape)


def _mesh(**axes: int) -> Any:
    return jax.make_mesh(
        tuple(axes.values()),
        tuple(axes),
        axis_types=(AxisType.Auto,) * len(axes),
        devices=jax.devices()[: int(np.prod(list(axes.values())))],
    )


# --- calls --------------------------------------------------------------------------------------------------


@_entry()
def jit() -> Built:
    def f(w: Any, x: Any) -> Any:
        @jax.jit
        def inner(x: Any) -> Any:
            return x * w

        return inner(x)

    return f, (_x(3), _x(3))


@_entry(since=(0, 10, 3))
def jit_inline() -> Built:
    def f(w: Any, x: Any) -> Any:
        @functools.partial(jax.jit, inline=True)
        def inner(x: Any) -> Any:
            return x * w

        return inner(x)

    return f, (_x(3), _x(3))


@_entry()
def pmap() -> Built:
    def f(w: Any, x: Any) -> Any:
        def g(x: Any) -> Any:
            return x @ w

        return jax.pmap(g, devices=jax.devices()[:4])(x)

    return f, (_x(3, 3), _x(4, 3))


@_entry()
def shard_map() -> Built:
    mesh = _mesh(data=4)

    def f(w: Any, x: Any) -> Any:
        @functools.partial(
            jax.shard_map, mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec()
        )
        def total(x: Any) -> Any:
            return lax.psum((x @ w).sum(0), "data")

        return total(x)

    return f, (_x(3, 3), _x(8, 3))


@_entry()
def shard_map_partly_manual() -> Built:
    mesh = _mesh(data=2, model=2)

    def f(w: Any, x: Any) -> Any:
        @functools.partial(
            jax.shard_map,
            mesh=mesh,
            in_specs=PartitionSpec("data"),
            out_specs=PartitionSpec("data"),
            axis_names={"data"},
        )
        def rows(x: Any) -> Any:
            return x @ w

        return rows(x)

    return jax.jit(f), (_x(4, 4), _x(8, 4))


@_entry(until=(0, 9))
def closed_call() -> Built:
    """The call that JAX makes when it differentiates another one."""
    from jax.extend.core import jaxpr_as_fun, primitives
    from jax.extend.linear_util import wrap_init

    def f(w: Any, x: Any) -> Any:
        closed = jax.make_jaxpr(lambda w, x: [jnp.sin(x) * w])(w, x)
        called = wrap_init(jaxpr_as_fun(closed), debug_info=closed.jaxpr.debug_info)
        (out,) = primitives.closed_call_p.bind(called, w, x, call_jaxpr=closed)
        return out

    return f, (_x(3), _x(3))


@_entry(until=(0, 9))
def core_call() -> Built:
    from jax.extend.core import primitives
    from jax.extend.linear_util import wrap_init

    def f(w: Any, x: Any) -> Any:
        def inner(w: Any, x: Any) -> Any:
            return [jnp.sin(x) * w]

        info = jax.make_jaxpr(inner)(w, x).jaxpr.debug_info
        (out,) = primitives.call_p.bind(wrap_init(inner, debug_info=info), w, x)
        return out

    return f, (_x(3), _x(3))


@_entry()
def named_call() -> Built:
    def f(w: Any, x: Any) -> Any:
        @functools.partial(jax.named_call, name="attention")
        def inner(x: Any) -> Any:
            return x * w

        return inner(x)

    return f, (_x(3), _x(3))


@_entry()
def named_scope() -> Built:
    def f(w: Any, x: Any) -> Any:
        with jax.named_scope("embed"):
            y = x * w
            with jax.named_scope("norm"):
                y = y / y.sum()
        return y + 1

    return f, (_x(3), _x(3))


@_entry()
def compute_on() -> Built:
    compute_on: Any = importlib.import_module("jax.experimental.compute_on").compute_on

    def f(w: Any, x: Any) -> Any:
        def on_host(x: Any) -> Any:
            return x * w

        if _VERSION < (0, 11):
            return compute_on("device_host")(jax.jit(on_host))(x)
        return compute_on(on_host, compute_type="device_host", out_memory_spaces=jax.memory.Space.Device)(x)

    return f, (_x(3), _x(3))


@_entry()
def composite() -> Built:
    def f(w: Any, x: Any) -> Any:
        @functools.partial(lax.composite, name="my.scaled")
        def scaled(w: Any, x: Any, *, scale: Any) -> Any:
            return x * w * scale

        return scaled(w, x, scale=np.float32(2.0))

    return f, (_x(3), _x(3))


@_entry()
def custom_partitioning() -> Built:
    from jax.experimental.custom_partitioning import custom_partitioning as partitioned

    @partitioned
    def scaled(x: Any, w: Any) -> Any:
        return x * w

    def shardings(mesh: Any, arguments: Any, result: Any) -> Any:
        return arguments[0].sharding

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        return mesh, lambda x, w: x * w, result.sharding, tuple(a.sharding for a in arguments)

    scaled.def_partition(
        infer_sharding_from_operands=shardings, partition=partition, sharding_rule="i, i -> i"
    )

    def f(w: Any, x: Any) -> Any:
        return scaled(x, w)

    return f, (_x(3), _x(3))


@_entry(until=(0, 10))
def custom_dce() -> Built:
    dce = importlib.import_module("jax.experimental.custom_dce")

    @dce.custom_dce
    def both(x: Any) -> Any:
        return jnp.sin(x), jnp.cos(x)

    @both.def_dce
    def rule(used: Any, x: Any) -> Any:
        return tuple(make(x) if use else None for make, use in zip((jnp.sin, jnp.cos), used, strict=True))

    def f(w: Any, x: Any) -> Any:
        return both(x * w)[0]

    return f, (_x(3), _x(3))


# --- loops and branches -------------------------------------------------------------------------------------


@_entry()
def scan() -> Built:
    def f(w: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ w + x)
            return h, h.sum()

        return lax.scan(step, h, xs)

    return f, (_x(3, 3), _x(3), _x(5, 3))


@_entry()
def lax_map() -> Built:
    def f(w: Any, xs: Any) -> Any:
        def row(x: Any) -> Any:
            return x * w

        return lax.map(row, xs)

    return f, (_x(3), _x(5, 3))


@_entry()
def fori() -> Built:
    def f(w: Any, x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            return x * w + i

        return lax.fori_loop(0, 4, step, x)

    return f, (_x(3), _x(3))


@_entry()
def fori_dynamic() -> Built:
    def f(n: Any, w: Any, x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            return x * w + i

        return lax.fori_loop(0, n, step, x)

    return f, (jnp.int32(4), _x(3), _x(3))


@_entry()
def while_() -> Built:
    def f(limit: Any, w: Any, x: Any) -> Any:
        def small(x: Any) -> Any:
            return x.sum() < limit

        def step(x: Any) -> Any:
            return x + w

        return lax.while_loop(small, step, x)

    return f, (jnp.float32(20.0), _x(3), _x(3))


@_entry()
def cond() -> Built:
    def f(p: Any, w: Any, b: Any, x: Any) -> Any:
        def scaled(x: Any) -> Any:
            return x * w

        def moved(x: Any) -> Any:
            return x + b

        return lax.cond(p, scaled, moved, x)

    return f, (jnp.bool_(True), _x(3), _x(3), _x(3))


@_entry()
def switch() -> Built:
    def f(k: Any, w: Any, x: Any) -> Any:
        def same(x: Any) -> Any:
            return x

        def scaled(x: Any) -> Any:
            return x * w

        def sine(x: Any) -> Any:
            return jnp.sin(x)

        return lax.switch(k, (same, scaled, sine), x)

    return f, (jnp.int32(1), _x(3), _x(3))


@_entry()
def associative_scan() -> Built:
    def f(w: Any, x: Any) -> Any:
        def join(a: Any, b: Any) -> Any:
            return a * b

        return lax.associative_scan(join, x * w)

    return f, (_x(4), _x(4))


# --- differentiation ----------------------------------------------------------------------------------------


@_entry()
def custom_jvp() -> Built:
    def f(w: Any, x: Any) -> Any:
        @jax.custom_jvp
        def act(x: Any) -> Any:
            return jnp.sin(x) * w

        @act.defjvp
        def rule(primals: Any, tangents: Any) -> Any:
            return act(*primals), jnp.cos(primals[0]) * w * tangents[0]

        return act(x)

    return f, (_x(3), _x(3))


@_entry()
def custom_vjp() -> Built:
    def f(w: Any, x: Any) -> Any:
        @jax.custom_vjp
        def act(x: Any, s: Any) -> Any:
            return jnp.sin(x) * s

        act.defvjp(lambda x, s: (act(x, s), (x, s)), lambda kept, g: (g * jnp.cos(kept[0]), g.sum()))
        return act(x, w.sum())

    return f, (_x(3), _x(3))


@_entry()
def custom_vjp_nondiff() -> Built:
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def apply(fn: Any, x: Any) -> Any:
        return fn(x)

    apply.defvjp(lambda fn, x: (fn(x), x), lambda fn, x, g: (g * jnp.cos(x),))

    def f(w: Any, x: Any) -> Any:
        return apply(jnp.sin, x) * w

    return f, (_x(3), _x(3))


@_entry()
def remat() -> Built:
    def f(w: Any, x: Any) -> Any:
        @jax.checkpoint
        def block(x: Any) -> Any:
            return jnp.tanh(x @ w)

        return block(x)

    return f, (_x(3, 3), _x(3))


@_entry()
def custom_linear_solve() -> Built:
    def f(a: Any, b: Any) -> Any:
        def product(x: Any) -> Any:
            return a * x

        def solve(product: Any, b: Any) -> Any:
            return b / a

        return lax.custom_linear_solve(product, b, solve, symmetric=True)

    return f, (_x(3), _x(3))


@_entry()
def custom_root() -> Built:
    def f(a: Any, guess: Any) -> Any:
        def residual(x: Any) -> Any:
            return x * x - a

        def solve(g: Any, x: Any) -> Any:
            for _ in range(3):
                x = x - g(x) / (2 * x)
            return x

        def tangent_solve(g: Any, y: Any) -> Any:
            return y / g(1.0)

        return lax.custom_root(residual, guess, solve, tangent_solve)

    return f, (jnp.float32(2.0), jnp.float32(1.0))


@_entry()
def linear_call() -> Built:
    def f(w: Any, x: Any) -> Any:
        def scaled(w: Any, x: Any) -> Any:
            return x * w

        def transposed(w: Any, g: Any) -> Any:
            return g * w

        return jax.custom_derivatives.linear_call(scaled, transposed, w, x)

    return f, (_x(3), _x(3))


@_entry(until=(0, 10))
def custom_transpose() -> Built:
    transposed: Any = importlib.import_module("jax.custom_transpose").custom_transpose

    def f(w: Any, x: Any) -> Any:
        @transposed
        def scaled(w: Any, x: Any) -> Any:
            return x * w

        @scaled.def_transpose
        def back(w: Any, g: Any) -> Any:
            return g * w

        return scaled(jax.ShapeDtypeStruct(x.shape, x.dtype), w, x)

    return f, (_x(3), _x(3))


@_entry()
def custom_gradient() -> Built:
    def f(w: Any, x: Any) -> Any:
        @jax.custom_gradient
        def cube(x: Any) -> Any:
            return x**3, lambda g: g * 3 * x**2

        return cube(x) * w

    return f, (_x(3), _x(3))


@_entry()
def closure_convert() -> Built:
    def f(w: Any, x: Any) -> Any:
        def inner(x: Any) -> Any:
            return x * jnp.sin(w)

        converted, consts = jax.closure_convert(inner, x)
        return converted(x, *consts)

    return f, (_x(3), _x(3))


@_entry()
def custom_vmap() -> Built:
    def f(w: Any, x: Any) -> Any:
        @jax.custom_batching.custom_vmap
        def scaled(x: Any) -> Any:
            return x * w

        @scaled.def_vmap
        def rule(size: Any, batched: Any, x: Any) -> Any:
            return x * w, True

        return scaled(x)

    return f, (_x(3), _x(3))


# --- references and kernels ---------------------------------------------------------------------------------


@_entry()
def refs() -> Built:
    def f(w: Any, x: Any) -> Any:
        total = jax.new_ref(x)
        total[...] += w
        total[0] = 2.0
        return total[...] * 2

    return f, (_x(3), _x(3))


@_entry()
def ref_in_scan() -> Built:
    def f(w: Any, xs: Any) -> Any:
        total = jax.new_ref(w)

        def step(_: Any, x: Any) -> Any:
            total[...] += x
            return None, total[...]

        sums = lax.scan(step, None, xs)[1]
        return sums, total[...]

    return f, (_x(3), _x(4, 3))


@_entry(since=(0, 8))
def freeze() -> Built:
    def f(w: Any, x: Any) -> Any:
        total = jax.new_ref(x)
        total[...] += w
        return jax.freeze(total)

    return f, (_x(3), _x(3))


@_entry()
def run_state() -> Built:
    from jax.experimental import pallas as pl

    def f(w: Any, x: Any) -> Any:
        @pl.run_state
        def add(ref: Any) -> Any:
            ref[...] = ref[...] + w

        return add(x)

    return f, (_x(3), _x(3))


@_entry()
def run_state_captured_ref() -> Built:
    from jax.experimental import pallas as pl

    def f(w: Any, x: Any) -> Any:
        total = jax.new_ref(w)

        @pl.run_state
        def add(ref: Any) -> Any:
            total[...] += ref[...]

        add(x)
        return total[...]

    return jax.jit(f), (_x(3), _x(3))


def _kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> Any:
    o_ref[...] = x_ref[...] + y_ref[...]


@_entry()
def pallas_call() -> Built:
    from jax.experimental import pallas as pl

    def f(w: Any, x: Any) -> Any:
        call = pl.pallas_call(_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)
        return call(x, w)

    return f, (_x(8), _x(8))


@_entry()
def pallas_blocks() -> Built:
    from jax.experimental import pallas as pl

    def product(x_ref: Any, y_ref: Any, o_ref: Any) -> Any:
        o_ref[...] = x_ref[...] * y_ref[...]

    def f(w: Any, x: Any) -> Any:
        return pl.pallas_call(
            product,
            grid=(4, 2),
            in_specs=[
                pl.BlockSpec((2, 4), lambda i, j: (i, j)),
                pl.BlockSpec((None, 4), lambda i, j: (0, j)),
            ],
            out_specs=pl.BlockSpec((2, 4), lambda i, j: (i, j)),
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            interpret=True,
        )(x, w)

    return f, (_x(1, 8), _x(8, 8))


@_entry()
def pallas_loop() -> Built:
    """A loop in a kernel, which captures the kernel's references."""
    from jax.experimental import pallas as pl

    def rows(x_ref: Any, o_ref: Any) -> Any:
        k = pl.program_id(0)

        def step(i: Any, _: Any) -> None:
            o_ref[i] = x_ref[i] * (k + 1)

        lax.fori_loop(0, 4, step, None)

    def f(x: Any) -> Any:
        spec = pl.BlockSpec((4,), lambda i: (i,))
        return pl.pallas_call(
            rows,
            grid=(2,),
            in_specs=[spec],
            out_specs=spec,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            interpret=True,
        )(x)

    return f, (_x(8),)


@_entry(needs=_FOR_TPU)
def pallas_run_scoped() -> Built:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def doubled(x_ref: Any, o_ref: Any) -> Any:
        def with_memory(memory: Any) -> None:
            memory[...] = x_ref[...] * 2
            o_ref[...] = memory[...]

        pl.run_scoped(with_memory, pltpu.VMEM((8,), jnp.float32))

    def f(x: Any) -> Any:
        return pl.pallas_call(doubled, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)

    return f, (_x(8),)


@_entry(needs=_FOR_TPU)
def pallas_scratch() -> Built:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def total(x_ref: Any, o_ref: Any, sum_ref: Any) -> Any:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...]
        o_ref[...] = sum_ref[...]

    def f(x: Any) -> Any:
        return pl.pallas_call(
            total,
            grid=(4,),
            in_specs=[pl.BlockSpec((2, 4), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((2, 4), lambda i: (0, 0)),
            out_shape=jax.ShapeDtypeStruct((2, 4), x.dtype),
            scratch_shapes=[pltpu.VMEM((2, 4), jnp.float32)],
            interpret=True,
        )(x)

    return f, (_x(8, 4),)


@_entry(needs=_FOR_TPU)
def pallas_prefetch() -> Built:
    """A kernel whose blocks are chosen by numbers that are known only when it runs."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def copy(order_ref: Any, x_ref: Any, o_ref: Any) -> Any:
        o_ref[...] = x_ref[...]

    def f(order: Any, x: Any) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((2, 4), lambda i, order: (order[i], 0))],
            out_specs=pl.BlockSpec((2, 4), lambda i, order: (i, 0)),
        )
        return pl.pallas_call(
            copy, grid_spec=spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True
        )(order, x)

    return f, (jnp.array([3, 1, 0, 2], jnp.int32), _x(8, 4))


# --- small functions that a primitive is made with ----------------------------------------------------------


@_entry()
def reduce() -> Built:
    def f(w: Any, x: Any) -> Any:
        def join(a: Any, b: Any) -> Any:
            return a * b + a

        return lax.reduce(x * w, np.float32(0.0), join, (0,))

    return f, (_x(4), _x(4))


@_entry()
def reduce_window() -> Built:
    def f(w: Any, x: Any) -> Any:
        def join(a: Any, b: Any) -> Any:
            return jnp.maximum(a, b) + 0 * a

        own = lax.reduce_window(x, np.float32(-np.inf), join, (2,), (1,), "VALID")
        return own.sum() + lax.reduce_window(x * w, 0.0, lax.add, (2,), (2,), "VALID").sum()

    return f, (_x(4), _x(4))


@_entry()
def scatter() -> Built:
    def f(w: Any, x: Any) -> Any:
        return x.at[1:].add(w[1:]).at[0].set(2.0).at[2].mul(w[0])

    return f, (_x(4), _x(4))


@_entry()
def scatter_apply() -> Built:
    def f(w: Any, x: Any) -> Any:
        return x.at[jnp.array([0, 2])].apply(jnp.sin) * w

    return f, (_x(4), _x(4))


@_entry()
def sort() -> Built:
    def f(w: Any, x: Any) -> Any:
        return lax.sort((x * w, w), num_keys=1)

    return f, (_x(4), _x(4))


@_entry()
def max_pool() -> Built:
    """Its gradient is `select_and_scatter_add`."""

    def f(w: Any, x: Any) -> Any:
        return lax.reduce_window(x * w, -jnp.inf, lax.max, (2,), (2,), "VALID")

    return f, (_x(4), _x(4))


# --- the host -----------------------------------------------------------------------------------------------


@_entry()
def io_callback() -> Built:
    from jax.experimental import io_callback as io

    def save(x: Any) -> Any:
        return np.float32(x.sum())

    def f(w: Any, x: Any) -> Any:
        total = io(save, jax.ShapeDtypeStruct((), jnp.float32), x * w, ordered=True)
        io(functools.partial(save), jax.ShapeDtypeStruct((), jnp.float32), x)
        return x * total

    return f, (_x(3), _x(3))


@_entry()
def pure_callback() -> Built:
    def f(w: Any, x: Any) -> Any:
        def doubled(x: Any) -> Any:
            return np.asarray(x) * 2

        return jax.pure_callback(
            doubled, jax.ShapeDtypeStruct(x.shape, x.dtype), x * w, vmap_method="sequential"
        )

    return f, (_x(3), _x(3))


@_entry()
def debug_callback() -> Built:
    def f(w: Any, x: Any) -> Any:
        def look(x: Any) -> None:
            del x

        jax.debug.callback(look, x)
        jax.debug.callback(look, w, ordered=True)
        return x * w

    return f, (_x(3), _x(3))


@_entry()
def debug_print() -> Built:
    def f(w: Any, x: Any) -> Any:
        jax.debug.print("x is {x} of {}", w, x=x)
        return x * w

    return f, (_x(3), _x(3))


@_entry()
def ffi_call() -> Built:
    def f(w: Any, x: Any) -> Any:
        call = jax.ffi.ffi_call("my_norm", jax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="sequential")
        return call(x, w, eps=np.float32(1e-6))

    return f, (_x(3), _x(3))


# --- nested in each other -----------------------------------------------------------------------------------


@_entry()
def nested() -> Built:
    """The gradient of a jit that holds a shard_map that holds a scan that captures."""
    mesh = _mesh(data=4)

    def f(w: Any, b: Any, x: Any) -> Any:
        @jax.jit
        def loss(x: Any) -> Any:
            @functools.partial(
                jax.shard_map, mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec()
            )
            def total(x: Any) -> Any:
                def step(h: Any, _: Any) -> Any:
                    return jnp.tanh(h @ w + b), None

                return lax.psum(lax.scan(step, x, None, length=3)[0].sum(), "data")

            return total(x)

        return loss(x)

    return jax.grad(f), (_x(3, 3), _x(3), _x(8, 3))


@_entry()
def everything() -> Built:
    """Branches in a loop in a remat in a loop, with a custom rule."""

    def f(w: Any, p: Any, x: Any) -> Any:
        @jax.custom_jvp
        def act(x: Any) -> Any:
            return jnp.sin(x) * w

        @act.defjvp
        def rule(primals: Any, tangents: Any) -> Any:
            return act(*primals), jnp.cos(primals[0]) * tangents[0]

        @jax.checkpoint
        def block(x: Any) -> Any:
            def step(i: Any, x: Any) -> Any:
                return lax.cond(p, lambda x: act(x) + w, lambda x: x - i, x)

            return lax.fori_loop(0, 3, step, x)

        return lax.scan(lambda h, _: (block(h), None), x, None, length=2)[0]

    return f, (_x(3), jnp.bool_(True), _x(3))
