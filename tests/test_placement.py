"""What is said of placement: whole values, and the truth of them on eight devices."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from zoo import NOT_RUN, ZOO

from jaxprviz import explain, program, trace
from jaxprviz._captures import first_scopes
from jaxprviz._facts import Ground, Layout, Place, Spread
from jaxprviz._flow import flow
from jaxprviz._placement import placement, places
from jaxprviz._pmap import fold_pmaps
from jaxprviz._scope import Scope
from jaxprviz._words import layout_text, place_text, spread_text

P = PartitionSpec
Body = Callable[..., dict[str, Any]]
DATA, MODEL, BOTH, NONE = ("data",), ("model",), ("data", "model"), ()


def auto_mesh(*sizes: int, names: tuple[str, ...] = BOTH, order: Any = None) -> Mesh:
    count = int(np.prod(sizes))
    devices = np.array(jax.devices()[:count])
    devices = devices if order is None else devices[np.array(order)]
    return Mesh(devices.reshape(sizes), names, axis_types=(AxisType.Auto,) * len(sizes))


def explicit_mesh(*sizes: int, names: tuple[str, ...] = BOTH) -> Mesh:
    return jax.make_mesh(sizes, names, axis_types=(AxisType.Explicit,) * len(sizes))


def numbers(*shape: int) -> jax.Array:
    """Values no two of which are equal."""
    return jnp.arange(1.0, 1.0 + float(np.prod(shape))).reshape(shape)


def place_of(traced: program.Program, atom: program.Atom) -> tuple[Ground, Layout]:
    """On what ground a variable of the outermost scope is said to lie, and how."""
    assert isinstance(atom, int)
    place = places(traced).of(Scope.root(traced))[atom]
    assert place is not None and place.layout is not None
    return place.ground, place.layout


def device_scopes(traced: program.Program) -> list[Scope]:
    return [scope for scope in first_scopes(traced) if scope.equation is not None and scope.equation.device]


# --- what differs, against the values that the devices hold -----------------------------------------------------


def returning_all(
    body: Body, mesh: Mesh, in_specs: Any, checked: bool, manual: Any = None
) -> Callable[..., Any]:
    """The function that returns what each device holds of each value of a body, one row a device."""
    axes = tuple(mesh.axis_names) if manual is None else manual
    return jax.shard_map(
        lambda *args: {name: jnp.asarray(value)[None] for name, value in body(*args).items()},
        mesh=mesh,
        in_specs=in_specs,
        out_specs=P(axes),
        check_vma=checked,
        **({} if manual is None else {"axis_names": set(manual)}),
    )


def claims(traced: program.Program) -> dict[str, Spread]:
    """What is said of each value that the first device scope returns."""
    scope = device_scopes(traced)[0]
    equation, call = scope.equation, scope.call
    assert equation is not None and call is not None
    known = flow(traced).of(scope)
    names = [name.split("'")[1] for name in traced.main.output_names if name]
    outputs = [scope.body.outputs[place] for place in call.outputs if place is not None]
    assert len(names) == len(outputs)
    return {
        name: known[atom] if isinstance(atom, int) else Spread(known[0].axes)
        for name, atom in zip(names, outputs, strict=True)
    }


def refuted(said: dict[str, Spread], held: dict[str, Any], sizes: dict[str, int]) -> list[str]:
    """The values that are said to be the same along an axis and are not."""
    wrong = []
    for name, spread in said.items():
        rows = np.asarray(held[name])
        rows = rows.reshape(*(sizes[axis] for axis in spread.axes), *rows.shape[1:])
        for place, axis in enumerate(spread.axes):
            first = np.take(rows, [0], axis=place)
            if axis in spread.same and not np.array_equal(
                np.broadcast_to(first, rows.shape), rows, equal_nan=rows.dtype.kind in "fc"
            ):
                wrong.append(f"{name} over {axis}")
    return wrong


def collectives(x: Any, w: Any) -> dict[str, Any]:
    return {
        "x": x,
        "w": w,
        "sum": lax.psum(x, "data"),
        "both": lax.psum(x * w.sum(), ("data", "model")),
        "mean": lax.pmean(x, "data"),
        "most": lax.pmax(x, "data"),
        "least": lax.pmin(x, "model"),
        "gathered": lax.all_gather(x, "data"),
        "scattered": lax.psum_scatter(jnp.ones((4, 1)) * x[:1], "data"),
        "shifted": lax.ppermute(x, "data", [(k, (k + 1) % 4) for k in range(4)]),
        "half": lax.ppermute(w, "data", [(0, 1)]),
        "turned": lax.all_to_all(lax.all_gather(x, "data"), "data", 0, 0),
        "index": lax.axis_index("data") + jnp.zeros(()),
        "where": lax.axis_index("model") + lax.psum(x, "data"),
        "one": jnp.ones(3) * 2,
        "sums": jax.tree.reduce(jnp.add, lax.psum({"a": x, "b": x * 2}, "data")),
        "size": jnp.asarray(lax.psum(1, "data")),
    }


COLLECTIVES = {
    "x": DATA, "w": MODEL, "sum": NONE, "both": NONE, "mean": NONE, "most": NONE, "least": DATA,
    "gathered": NONE, "scattered": DATA, "shifted": DATA, "half": BOTH, "turned": DATA, "index": DATA,
    "where": MODEL, "one": NONE, "sums": NONE, "size": NONE,
}  # fmt: skip


def groups(x: Any, w: Any) -> dict[str, Any]:
    pairs = [[0, 1], [2, 3]]
    return {
        "sum": lax.psum(x, "data", axis_index_groups=pairs),
        "gathered": lax.all_gather(x, "data", axis_index_groups=pairs),
        "same": lax.psum(w, "data", axis_index_groups=pairs),
    }


GROUPS = {"sum": DATA, "gathered": DATA, "same": BOTH}


def loops(x: Any, w: Any) -> dict[str, Any]:
    zero = jnp.zeros(())
    total, sums = lax.scan(lambda c, v: (c + v.sum(), c * 2), jnp.zeros(()), x)
    late, _ = lax.scan(lambda c, _: ((c[1], c[2], x.sum()), c[0]), (zero, zero, zero), None, length=3)
    even, _ = lax.scan(lambda c, _: (lax.psum(c + x.sum(), "data") / 4, None), jnp.zeros(()), None, length=2)
    fixed = lax.fori_loop(0, 3, lambda k, c: c + w.sum() * k, jnp.zeros(()))
    steps = lax.while_loop(
        lambda c: c[1] < x.sum(), lambda c: (c[0] + 1, c[1] * 2), (jnp.zeros(()), jnp.ones(()))
    )
    known = lax.while_loop(lambda c: c < 40, lambda c: c * 2, jnp.ones(()))
    return {
        "total": total, "sums": sums, "late": jnp.stack(late), "even": even, "fixed": fixed,
        "steps": steps[0], "known": known,
    }  # fmt: skip


LOOPS = {
    "total": DATA,
    "sums": DATA,
    "late": DATA,
    "even": NONE,
    "fixed": MODEL,
    "steps": DATA,
    "known": NONE,
}


def branches(x: Any, w: Any) -> dict[str, Any]:
    return {
        "chosen": lax.cond(x.sum() > 60, lambda: 1.0, lambda: 2.0),
        "agreed": lax.cond(lax.psum(x.sum(), "data") > 60, lambda v: v * 1.0, lambda v: v + 2.0, w),
        "switched": lax.switch(lax.axis_index("data"), [lambda k=k: float(k) for k in range(4)]),
        "picked": jnp.where(x.sum() > 60, 1.0, 2.0),
    }


BRANCHES = {"chosen": DATA, "agreed": MODEL, "switched": DATA, "picked": DATA}


@jax.jit
def shared(v: Any) -> Any:
    return jnp.sin(v) * 2


@jax.custom_jvp
def curved(v: Any) -> Any:
    return v * v


curved.defjvp(lambda primals, tangents: (curved(*primals), 2 * primals[0] * tangents[0]))


@jax.custom_vjp
def bent(v: Any) -> Any:
    return v * v


bent.defvjp(lambda v: (v * v, v), lambda v, g: (2 * v * g,))


def calls(x: Any, w: Any) -> dict[str, Any]:
    matrix = jnp.eye(3) * 2
    return {
        "first": shared(x), "second": shared(w), "third": shared(jnp.ones(2)),
        "jvp": curved(w), "vjp": bent(x), "remat": jax.checkpoint(lambda v: jnp.sin(v))(w),
        "grad": jax.grad(lambda v: (jnp.sin(v) * x).sum())(x),
        "solved": jnp.linalg.solve(matrix, jnp.ones(3) * w.sum()),
        "found": lax.custom_linear_solve(lambda v: 2 * v * x, x, lambda _, b: b / 2 / x),
        "mapped": jax.vmap(lambda v: v * 2)(x),
        "assoc": lax.associative_scan(jnp.add, x),
        "sorted": jnp.sort(w), "taken": w[jnp.argmax(x) % 2],
    }  # fmt: skip


CALLS = {
    "first": DATA, "second": MODEL, "third": NONE, "jvp": MODEL, "vjp": DATA, "remat": MODEL, "grad": DATA,
    "solved": MODEL, "found": DATA, "mapped": DATA, "assoc": DATA, "sorted": MODEL, "taken": BOTH,
}  # fmt: skip


def chance(x: Any, w: Any) -> dict[str, Any]:
    key = jax.random.key(0)
    return {
        "bits": jax.random.uniform(key, (3,)),
        "folded": jax.random.uniform(jax.random.fold_in(key, lax.axis_index("data"))),
        "split": jax.random.normal(jax.random.split(key)[1], (2,)) * w.sum(),
    }


CHANCE = {"bits": NONE, "folded": DATA, "split": MODEL}

BODIES = [
    (collectives, COLLECTIVES, True),
    (groups, GROUPS, False),
    (loops, LOOPS, False),
    (branches, BRANCHES, False),
    (calls, CALLS, True),
    (chance, CHANCE, True),
]


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize(("body", "varying", "typed"), BODIES, ids=[body.__name__ for body, _, _ in BODIES])
def test_values_inside_a_shard_map(
    body: Body, varying: dict[str, tuple[str, ...]], typed: bool, checked: bool
) -> None:
    if checked and not typed:
        pytest.skip("JAX's types refuse it")
    fn = returning_all(body, auto_mesh(4, 2), (P("data"), P("model")), checked)
    args = (numbers(8, 3), numbers(4))
    said = claims(trace(fn, *args))
    assert {name: spread.varying for name, spread in said.items()} == {
        name: frozenset(axes) for name, axes in varying.items()
    }
    assert [name for name, spread in said.items() if spread.unknown or spread.unequal] == []
    assert refuted(said, jax.jit(fn)(*args), {"data": 4, "model": 2}) == []


def references(x: Any, w: Any) -> dict[str, Any]:
    plain, loop, inner, chosen = (jax.new_ref(jnp.zeros(3)) for _ in range(4))
    before = plain[...]
    plain[0] = w.sum()
    after = plain[...]

    def step(k: Any, carry: Any) -> Any:
        seen = loop[...].sum()
        loop[...] = jnp.ones(3) * x.sum()
        return carry + seen

    seen = lax.fori_loop(0, 3, step, jnp.zeros(()))

    @jax.jit
    def write(v: Any) -> None:
        inner[1] = v

    write(x.sum())
    lax.cond(x.sum() > 60, lambda: chosen.__setitem__(0, 1.0), lambda: None)
    return {"before": before, "after": after, "seen": seen, "inner": inner[...], "chosen": chosen[...]}


def test_references_hold_what_was_written() -> None:
    fn = returning_all(references, auto_mesh(4, 2), (P("data"), P("model")), False)
    args = (numbers(8, 3), numbers(4))
    said = claims(trace(fn, *args))
    assert {name: tuple(sorted(spread.varying)) for name, spread in said.items()} == {
        "before": NONE,
        "after": MODEL,
        "seen": DATA,
        "inner": DATA,
        "chosen": DATA,
    }
    assert refuted(said, jax.jit(fn)(*args), {"data": 4, "model": 2}) == []


def test_a_host_may_answer_each_device_otherwise() -> None:
    answers = itertools.count()

    def body(x: Any) -> dict[str, Any]:
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        answer = io_callback(lambda: np.float32(next(answers)), shape)
        pure = jax.pure_callback(lambda: np.float32(next(answers)), shape)
        return {
            "x": x,
            "io": answer,
            "pure": pure,
            "made": answer + x.sum(),
            "sum": lax.psum(answer, ("data", "model")),
        }

    fn = returning_all(body, auto_mesh(4, 2), P("data"), False)
    said = claims(trace(fn, numbers(8)))
    assert {name: (tuple(sorted(one.varying)), tuple(sorted(one.unknown))) for name, one in said.items()} == {
        "x": (DATA, NONE),
        "io": (NONE, BOTH),
        "pure": (NONE, BOTH),
        "made": (DATA, MODEL),
        "sum": (NONE, NONE),
    }
    held = jax.jit(fn)(numbers(8))
    assert len(set(np.asarray(held["io"]).tolist())) > 1  # it does
    assert refuted(said, held, {"data": 4, "model": 2}) == []


def test_what_has_one_device_differs_from_none() -> None:
    fn = returning_all(
        lambda x: {"x": x, "index": lax.axis_index("model") * 1.0}, auto_mesh(4, 1), P(BOTH), False
    )
    assert claims(trace(fn, numbers(8))) == {
        "x": Spread(BOTH, frozenset({"data"})),
        "index": Spread(BOTH),
    }


def test_typed_as_varying_is_not_varying() -> None:
    def body(x: Any) -> dict[str, Any]:
        pcast = getattr(lax, "pcast", None)  # up to 0.7 it is called pvary
        cast = pcast(jnp.ones(3), "data", to="varying") if pcast else vars(lax)["pvary"](jnp.ones(3), "data")
        return {"x": x, "cast": cast, "gathered": lax.all_gather(x, "data")}

    fn = returning_all(body, auto_mesh(4, 2), P("data"), True)
    traced = trace(fn, numbers(8))
    said = claims(traced)
    assert said == {"x": Spread(BOTH, frozenset(DATA)), "cast": Spread(BOTH), "gathered": Spread(BOTH)}
    scope = device_scopes(traced)[0]
    typed = {kind.varying for kind in scope.body.types if kind.shape in ((3,), (4, 2))}
    assert typed == {(), ("data",)}
    assert "typed as varying, though the same on every device: " in explain(fn, numbers(8))
    assert refuted(said, jax.jit(fn)(numbers(8)), {"data": 4, "model": 2}) == []


def test_one_function_with_other_inputs_is_followed_for_each() -> None:
    @jax.jit
    def inner(v: Any) -> Any:
        return v * 2

    def body(x: Any, w: Any) -> dict[str, Any]:
        return {"x": inner(x[:1]), "w": inner(w[:1]), "one": inner(jnp.ones(1))}

    traced = trace(
        returning_all(body, auto_mesh(4, 2), (P("data"), P("model")), False), numbers(8), numbers(4)
    )
    known = flow(traced)
    scopes = [scope for scope in first_scopes(traced) if scope.title() == "inner"]
    assert len({scope.number for scope in scopes}) < len(scopes)
    assert {known.of(scope)[0] for scope in scopes} == {
        Spread(BOTH, frozenset(DATA)),
        Spread(BOTH, frozenset(MODEL)),
        Spread(BOTH),
    }


def test_many_calls_of_one_function_are_followed_once() -> None:
    @jax.jit
    def inner(v: Any) -> Any:
        return jnp.sin(v) * 2

    def body(x: Any) -> Any:
        for _ in range(300):
            x = inner(x)
        return x

    fn = jax.shard_map(body, mesh=auto_mesh(4, 2), in_specs=P("data"), out_specs=P("data"))
    known = flow(trace(fn, numbers(8)))
    assert len(known._frames) == 3


def test_copies_that_differ_differ_in_the_next_scope_too() -> None:
    mesh = auto_mesh(4, 2)

    def unequal(x: Any) -> Any:
        return jax.shard_map(
            lambda v: v.sum(), mesh=mesh, in_specs=P("data"), out_specs=P(), check_vma=False
        )(x)

    def fn(x: Any) -> Any:
        again = returning_all(lambda v: {"v": v, "fine": lax.psum(v, "data")}, mesh, P(), False)
        return again(unequal(x))

    traced = trace(fn, numbers(8))
    first, second = device_scopes(traced)
    parent = first.parent
    assert parent is not None and first.equation is not None
    assert flow(traced).of(parent)[first.equation.results[0]] == Spread(unequal=frozenset(DATA))
    known = flow(traced).of(second)[second.body.inputs[0]]
    assert known == Spread(BOTH, frozenset(DATA))
    rows = np.asarray(jax.jit(fn)(numbers(8))["v"])
    assert len(set(rows.tolist())) == 4  # the copies do differ
    assert "the copies are taken to be equal, nothing checks it" in explain(unequal, numbers(8))


def test_copies_that_differ_are_not_known_on_another_mesh() -> None:
    def fn(x: Any) -> Any:
        y = jax.shard_map(
            lambda v: v.sum(), mesh=auto_mesh(4, 2), in_specs=P("data"), out_specs=P(), check_vma=False
        )(x)
        other = auto_mesh(8, names=("all",))
        return jax.shard_map(
            lambda v: v[None], mesh=other, in_specs=P(), out_specs=P("all"), check_vma=False
        )(y)

    traced = trace(fn, numbers(8))
    scope = device_scopes(traced)[1]
    assert flow(traced).of(scope)[scope.body.inputs[0]] == Spread(
        ("all",), unknown=frozenset({"all"}), unequal=frozenset(DATA)
    )


def test_a_pmap_and_its_copies() -> None:
    @functools.partial(jax.pmap, axis_name="i", in_axes=(None, 0), out_axes=(0, None, None))
    def fn(w: Any, x: Any) -> Any:
        return w * x, lax.psum(x.sum(), "i"), x.sum()

    traced = fold_pmaps(trace(fn, numbers(3), numbers(4, 3)))
    (scope,) = device_scopes(traced)
    known = flow(traced).of(scope)
    assert [known[variable] for variable in scope.body.inputs] == [
        Spread(("i",)),
        Spread(("i",), frozenset("i")),
    ]
    assert [known[atom] for atom in scope.body.outputs if isinstance(atom, int)] == [
        Spread(("i",), frozenset("i")),
        Spread(("i",)),
        Spread(("i",), frozenset("i")),
    ]
    text = explain(fn, numbers(3), numbers(4, 3))
    assert (
        "result[1] f32[]: copied whole to 4 devices; one device holds f32[], 4 bytes; 4 copies, 16 bytes in all; "
        "the copies are equal." in text
    )
    assert (
        "result[2] f32[]: copied whole to 4 devices; one device holds f32[], 4 bytes; 4 copies, 16 bytes in all; "
        "the copies are taken to be equal, nothing checks it." in text
    )


def test_a_partly_manual_shard_map_speaks_of_its_own_axes() -> None:
    body = returning_all(
        lambda x: {"x": x, "sum": lax.psum(x, "data")}, auto_mesh(4, 2), P("data"), True, ("data",)
    )
    traced = trace(jax.jit(body), numbers(8, 4))
    assert claims(traced) == {"x": Spread(DATA, frozenset(DATA)), "sum": Spread(DATA)}
    scope = device_scopes(traced)[0]
    (place,) = {
        place and (place.ground, place.layout and place.layout.mesh.axes)
        for place in places(traced).of(scope)
    }
    assert place == (Ground.COMPILER, (("model", 2),))


def test_a_shard_map_in_another() -> None:
    def outer(x: Any) -> Any:
        inner = jax.shard_map(
            lambda v: (v, lax.psum(v, "model"), lax.psum(v, "data")),
            mesh=jax.sharding.get_abstract_mesh(),
            in_specs=P(None, "model"),
            out_specs=(P(None, "model"), P(), P(None, "model")),
            axis_names={"model"},
        )
        return tuple(one[None] for one in inner(x))

    fn = jax.shard_map(
        outer, mesh=auto_mesh(4, 2), in_specs=P("data"), out_specs=P("data"), axis_names={"data"}
    )
    traced = trace(jax.jit(fn), numbers(8, 4))
    around, within = device_scopes(traced)
    known = flow(traced)
    assert [known.of(within)[atom].same for atom in within.body.outputs if isinstance(atom, int)] == [
        NONE,
        MODEL,
        DATA,
    ]
    assert within.equation is not None
    assert [known.of(around)[result] for result in within.equation.results] == [
        Spread(DATA, frozenset(DATA)),
        Spread(DATA, frozenset(DATA)),
        Spread(DATA),
    ]
    third = np.asarray(jax.jit(fn)(numbers(8, 4))[2])
    assert np.array_equal(third, np.broadcast_to(third[:1], third.shape))


def test_a_primitive_that_nobody_knows() -> None:
    """What it does with its body is not known, and so is what comes out of it."""
    holder = Primitive("holder")
    holder.def_abstract_eval(lambda x, *, body: x)

    def body(x: Any) -> Any:
        return holder.bind(jnp.ones(3), body=jax.make_jaxpr(lambda v: v * 2)(jnp.ones(3)))

    fn = jax.shard_map(
        body, mesh=auto_mesh(8, names=("i",)), in_specs=P("i"), out_specs=P("i"), check_vma=False
    )
    traced = trace(fn, numbers(8))
    (scope,) = device_scopes(traced)
    known, unknown = flow(traced).of(scope), Spread(("i",), unknown=frozenset("i"))
    (position,) = [k for k, equation in enumerate(scope.body.equations) if equation.primitive == "holder"]
    assert known[scope.body.equations[position].results[0]] == unknown
    assert set(flow(traced).of(scope.child(position))) == {unknown}


NOT_ON_MANY = {
    "debug_callback",  # ordered: JAX runs it on one device alone
    "custom_transpose",  # JAX does not run its jaxpr again
}
"""Programs of the zoo that can't be run as parts of a device scope."""


def each_value(fn: Callable[..., Any]) -> Body:
    """The function that returns what each equation of a function makes, as far as it is a number."""

    def run(*args: Any) -> dict[str, Any]:
        closed = jax.make_jaxpr(fn)(*args)
        jaxpr = closed.jaxpr  # from 0.12 on that is the same object
        names = {
            f"{position:03} {place} {equation.primitive.name}": var
            for position, equation in enumerate(jaxpr.eqns)
            for place, var in enumerate(equation.outvars)
            if type(var.aval).__name__ == "ShapedArray" and jnp.issubdtype(var.aval.dtype, jnp.number)
        }
        info = jaxpr.debug_info._replace(result_paths=None)
        whole = jaxpr.replace(outvars=list(names.values()), debug_info=info)
        run = jaxpr_as_fun(whole if jaxpr is closed else closed.replace(jaxpr=whole))
        return dict(zip(names, run(*jax.tree.leaves(args)), strict=True))

    return run


@pytest.mark.parametrize("name", sorted(ZOO.keys() - NOT_RUN - NOT_ON_MANY))
def test_each_primitive_of_the_zoo(name: str) -> None:
    """With a first argument that differs over one axis, and others that are the same everywhere."""
    fn, args = ZOO[name]()
    if device_scopes(trace(fn, *args)) or not args:
        pytest.skip("it has devices of its own, or no arguments")

    def body(*args: Any) -> dict[str, Any]:
        shift = lax.axis_index("data")
        first = jax.tree.map(
            lambda v: v * (1 + shift).astype(v.dtype) if jnp.issubdtype(v.dtype, jnp.floating) else v, args[0]
        )
        return each_value(fn)(first, *args[1:])

    run = returning_all(body, auto_mesh(4, 2), P(), False)
    said = claims(trace(run, *args))
    assert refuted(said, jax.jit(run)(*args), {"data": 4, "model": 2}) == []
    unknown = {value.split()[-1] for value, spread in said.items() if spread.unknown}
    assert not unknown or unknown & UNKNOWN, unknown


UNKNOWN = {"pure_callback", "io_callback", "pallas_call"}
"""The primitives of which nobody can know what they make."""


def test_words_of_a_spread() -> None:
    assert [
        spread_text(spread)
        for spread in (
            Spread(),
            Spread(BOTH),
            Spread(BOTH, frozenset(DATA)),
            Spread(BOTH, frozenset(DATA), frozenset(MODEL)),
            Spread(("",)),
            Spread(("",), frozenset({""})),
        )
    ] == [
        "",
        "the same on all of data and model",
        "can differ over data, the same on all of model",
        "can differ over data, not known whether it differs over model",
        "the same on all devices",
        "can differ from device to device",
    ]


# --- where arrays lie, against their shards ---------------------------------------------------------------------

MESHES = {
    "4x2": lambda: auto_mesh(4, 2),
    "permuted": lambda: auto_mesh(4, 2, order=[3, 1, 6, 0, 7, 5, 2, 4]),
    "2x2x2": lambda: auto_mesh(2, 2, 2, names=("data", "model", "extra")),
    "4x1": lambda: auto_mesh(4, 1),
}
SPECS = [
    P(),
    P("data"),
    P(None, "data"),
    P(("data", "model")),
    P(("model", "data")),
    P("model", "data"),
    P(None, ("model", "data")),
]


def lies_as_claimed(layout: Layout, array: jax.Array) -> None:
    """That the shards of an array are those that the layout tells, device by device."""
    mesh = layout.mesh
    ids = mesh.ids or tuple(range(mesh.size))
    positions = itertools.product(*(range(size) for _, size in mesh.axes))
    where = dict(zip(ids, positions, strict=True))
    shards = {shard.device.id: shard for shard in array.addressable_shards}
    assert set(shards) == set(where)
    local, blocks = layout.local, layout.blocks()
    assert local == array.sharding.shard_shape(array.shape)
    assert local is not None and blocks is not None
    for device, shard in shards.items():
        block = layout.block(where[device])
        assert block is not None
        found = tuple(
            None if part.indices(size) == (0, size, 1) else part.indices(size)[0] // int(length)
            for part, size, length in zip(shard.index, array.shape, local, strict=True)
        )
        told = tuple(
            None if count == 1 else index for index, count in zip(block, layout.parts or (), strict=True)
        )
        assert (device, told) == (device, found)
        assert layout.local_nbytes == shard.data.nbytes
    same = [shard for shard in shards.values() if shard.index == shards[ids[0]].index]
    assert layout.copies == len(same)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("which", MESHES)
def test_actual_arguments_lie_as_they_lie(which: str, spec: PartitionSpec) -> None:
    array = jax.device_put(numbers(8, 16), NamedSharding(MESHES[which](), spec))
    traced = trace(lambda x: x + 1, array)
    ground, layout = place_of(traced, 0)
    assert ground is Ground.GIVEN
    lies_as_claimed(layout, array)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("which", MESHES)
def test_results_lie_as_the_program_asks(which: str, spec: PartitionSpec) -> None:
    sharding = NamedSharding(MESHES[which](), spec)
    asked = [
        jax.jit(lambda x: lax.with_sharding_constraint(x * 2, sharding)),
        jax.jit(lambda x: x * 2, out_shardings=sharding),
        jax.shard_map(lambda x: x * 2, mesh=sharding.mesh, in_specs=spec, out_specs=spec, check_vma=False),
    ]
    for fn in asked:
        traced = trace(fn, numbers(8, 16))
        ground, layout = place_of(traced, traced.main.outputs[0])
        assert ground is Ground.ASKED
        lies_as_claimed(layout, jax.jit(fn)(numbers(8, 16)))


def test_explicit_types_are_so() -> None:
    mesh = explicit_mesh(4, 2)
    x = jax.device_put(numbers(8, 4), NamedSharding(mesh, P("data", None)))
    w = jax.device_put(numbers(4, 6), NamedSharding(mesh, P(None, "model")))

    def fn(x: Any, w: Any) -> Any:
        y = jnp.sin(x @ w)
        return y, y.sum(0), y.T, y * 2

    traced = trace(fn, x, w)
    results = jax.jit(fn)(x, w)
    for atom, array in zip((*traced.main.inputs, *traced.main.outputs), (x, w, *results), strict=True):
        ground, layout = place_of(traced, atom)
        assert ground is Ground.TYPE
        lies_as_claimed(layout, array)
    assert [place_text(Place(*place_of(traced, atom))) for atom in traced.main.outputs] == [
        "axis 0 split by data=4, axis 1 split by model=2",
        "axis 0 split by model=2, copied over data=4",
        "axis 0 split by model=2, axis 1 split by data=4",
        "axis 0 split by data=4, axis 1 split by model=2",
    ]


SHARDED = program.Sharding(program.Mesh((("data", 4), ("model", 2)), (), ("auto", "auto")), (("data",), ()))


def test_shardings_are_read() -> None:
    mesh = auto_mesh(4, 2)
    given = jax.device_put(numbers(8, 4), NamedSharding(mesh, P("data")))
    example = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=NamedSharding(mesh.abstract_mesh, P("data")))
    on_one = jax.device_put(numbers(8, 4), jax.devices()[0])
    assert trace(lambda *x: x, given, on_one, numbers(3), example).shardings == (SHARDED, None, None, SHARDED)
    assert trace(lambda *x: x, on_one).shardings == ()
    assert trace(lambda n, x, k=None: x * n, 3, x=given).shardings == (None, SHARDED)
    permuted = jax.device_put(
        numbers(8), NamedSharding(auto_mesh(8, names=("i",), order=range(7, -1, -1)), P())
    )
    assert trace(lambda x: x, permuted).shardings == (
        program.Sharding(program.Mesh((("i", 8),), tuple(range(7, -1, -1)), ("auto",)), ((),)),
    )


def test_the_result_of_a_pmap_is_split() -> None:
    made = jax.pmap(lambda x: x)(numbers(8, 4))
    (sharding,) = trace(lambda x: x, made).shardings
    assert sharding is not None
    assert (sharding.mesh.axes, sharding.spec) == ((("", 8),), (("",), ()))
    _, layout = place_of(trace(lambda x: x, made), 0)
    lies_as_claimed(layout, made)


def asked(fn: Callable[..., Any], *args: Any) -> list[tuple[str, Any, Any]]:
    return [
        (equation.primitive, equation.in_shardings, equation.out_shardings)
        for body in trace(fn, *args).bodies
        for equation in body.equations
        if equation.in_shardings or equation.out_shardings
    ]


def test_what_equations_ask_for_is_read() -> None:
    mesh = auto_mesh(4, 2)
    sharding, x = NamedSharding(mesh, P("data")), numbers(8, 4)
    free = program.Sharding(SHARDED.mesh, ((), ("model",)), (0,))
    constrain = lax.with_sharding_constraint
    assert asked(jax.jit(lambda a, b: a * b, in_shardings=(sharding, None)), x, x) == [
        ("jit", (SHARDED, None), ())
    ]
    assert asked(jax.jit(lambda a: (a, a + 1), out_shardings=(None, sharding)), x) == [
        ("jit", (), (None, SHARDED))
    ]
    assert asked(jax.jit(lambda a: a + 1), x) == []
    assert asked(lambda a: constrain(a, sharding), x) == [("sharding_constraint", (), (SHARDED,))]
    assert asked(lambda a: constrain(a, NamedSharding(mesh, P(P.UNCONSTRAINED, "model"))), x) == [
        ("sharding_constraint", (), (free,))
    ]
    assert asked(lambda a: jax.device_put(a, sharding), x) == [("device_put", (), (SHARDED,))]
    assert asked(lambda a: jax.device_put(a, jax.devices()[0]), x) == []
    explicit = jax.device_put(x, NamedSharding(explicit_mesh(4, 2), P("data", None)))
    wanted = program.Sharding(
        program.Mesh((("data", 4), ("model", 2)), (), ("explicit", "explicit")), ((), ("model",))
    )
    assert asked(
        lambda a: jax.sharding.reshard(a, NamedSharding(explicit_mesh(4, 2), P(None, "model"))), explicit
    ) == [("reshard", (), (wanted,))]


def test_types_hold_their_mesh_and_their_open_sums() -> None:
    mesh = explicit_mesh(4, 2)
    a = jax.device_put(numbers(8, 4), NamedSharding(mesh, P(None, "model")))
    b = jax.device_put(numbers(4, 8), NamedSharding(mesh, P("model", None)))

    def fn(a: Any, b: Any) -> Any:
        return jnp.einsum(
            "ij,jk->ik", a, b, out_sharding=NamedSharding(mesh, P(None, None, unreduced=frozenset({"model"})))
        )

    traced = trace(fn, a, b)
    kinds = program.Mesh((("data", 4), ("model", 2)), (), ("explicit", "explicit"))
    atom = traced.main.outputs[0]
    assert isinstance(atom, int)
    kind = traced.main.types[atom]
    assert (kind.spec, kind.mesh, kind.unreduced) == (((), ()), kinds, ("model",))
    assert places(traced).of(Scope.root(traced))[atom] == Place(Ground.TYPE, Layout(kind, kinds, ((), ())))
    layout = Layout(kind, kinds, ((), ()))
    assert (layout_text(layout), layout.copies, layout.local) == (
        "a sum over model=2 that is not made yet, copied over data=4",
        4,
        (8, 8),
    )


def test_axes_that_are_left_to_the_compiler() -> None:
    mesh = auto_mesh(4, 2)

    def fn(x: Any) -> Any:
        return lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("data", P.UNCONSTRAINED))) + 1

    traced = trace(fn, numbers(8, 4))
    known = places(traced).of(Scope.root(traced))
    assert [
        (place.ground, layout_text(place.layout)) for place in known if place is not None and place.layout
    ] == [
        (Ground.COMPILER, "over data=4, model=2 as the compiler decides"),
        (Ground.COMPILER, "over data=4, model=2 as the compiler decides"),
        (Ground.ASKED, "axis 0 split by data=4, over model=2 as the compiler decides"),
        (Ground.COMPILER, "over data=4, model=2 as the compiler decides"),
    ]
    assert places(trace(lambda x: x + 1, numbers(3))).of(Scope.root(trace(lambda x: x + 1, numbers(3)))) == (
        None,
        None,
    )


def test_explicit_axes_beside_manual_ones() -> None:
    mesh = explicit_mesh(4, 2)
    x = jax.device_put(numbers(8, 4), NamedSharding(mesh, P("data", "model")))
    fn = jax.jit(
        jax.shard_map(jnp.sin, mesh=mesh, in_specs=P("data"), out_specs=P("data"), axis_names={"data"})
    )
    traced = trace(fn, x)
    (scope,) = device_scopes(traced)
    placed = placement(scope)
    assert placed is not None
    lies_as_claimed(placed.entering[0].layout, x)
    lies_as_claimed(placed.leaving[0].layout, fn(x))
    inside = places(traced).of(scope)[0]
    assert inside is not None and inside.layout is not None
    assert (inside.ground, layout_text(inside.layout), inside.layout.local) == (
        Ground.TYPE,
        "axis 1 split by model=2",
        (2, 2),
    )


def test_parts_that_cannot_be_equal() -> None:
    sharding = NamedSharding(auto_mesh(4, 2), P("data"))
    fn = jax.jit(lambda x: lax.with_sharding_constraint(x * 2, sharding))
    traced = trace(fn, numbers(6, 4))
    _, layout = place_of(traced, traced.main.outputs[0])
    assert (layout.divides, layout.local, layout.copies, layout.local_nbytes) == (
        False,
        None,
        None,
        None,
    )
    assert section(explain(fn, numbers(6, 4)), "How arrays lie over the devices")[-1] == (
        "result f32[6,4], 96 bytes: as the program asks, axis 0 split by data=4, copied over model=2; "
        "which cannot be cut into equal parts."
    )


def section(text: str, title: str) -> list[str]:
    """The lines of one section."""
    (found,) = [part for part in text.split("\n\n") if part.startswith(title)]
    return [line.strip() for line in found.splitlines()[1:]]


def test_an_array_that_arrives_split_is_made_whole() -> None:
    mesh = auto_mesh(4, 2)
    w = jax.device_put(numbers(8, 4), NamedSharding(mesh, P("data")))

    @jax.jit
    def fn(w: Any, x: Any) -> Any:
        return jax.shard_map(lambda x: x + w.sum(), mesh=mesh, in_specs=P("data"), out_specs=P("data"))(x)

    assert section(explain(fn, w, numbers(8)), "What shard_map")[:2] == [
        "w f32[8,4] (captured): as it arrives, axis 0 split by data=4, copied over model=2; then made whole: "
        "copied whole to 8 devices; one device holds f32[8,4], 128 bytes; 8 copies, 1,024 bytes in all.",
        "x f32[8]: axis 0 split by data=4, copied over model=2; one device holds f32[2], 8 bytes; 2 copies, "
        "64 bytes in all.",
    ]
    assert "as it arrives" not in explain(fn, numbers(8, 4), numbers(8))


def test_arrays_outside_of_device_scopes() -> None:
    mesh = auto_mesh(4, 2)
    sharding = NamedSharding(mesh, P("data"))
    x = jax.device_put(numbers(8, 4), sharding)

    def fn(w: Any, x: Any) -> Any:
        h = lax.with_sharding_constraint(x @ w, NamedSharding(mesh, P(None, "model")))
        return jnp.sin(h), jax.jit(lambda v: v, out_shardings=sharding)(h)

    lines = section(explain(fn, numbers(4, 6), x), "How arrays lie over the devices")
    assert [re.sub(r" \(line \d+\)", "", line) for line in lines] == [
        "argument w f32[4,6], 96 bytes: the caller and the compiler decide its place.",
        "argument x f32[8,4], 128 bytes: as it arrives, axis 0 split by data=4, copied over model=2; one device "
        "holds f32[2,4], 32 bytes; 2 copies, 256 bytes in all.",
        "h f32[8,6], made by with_sharding_constraint in fn: as the program asks, axis 1 split by model=2, "
        "copied over data=4; one device holds f32[8,3], 96 bytes; 4 copies, 768 bytes in all.",
        "result[0] f32[8,6], 192 bytes: decided by the compiler.",
        "result[1] f32[8,6], 192 bytes: as the program asks, axis 0 split by data=4, copied over model=2; "
        "one device holds f32[2,6], 48 bytes; 2 copies, 384 bytes in all.",
    ]


def test_one_device_and_no_elements() -> None:
    one = auto_mesh(1, names=("d",))
    fn = jax.shard_map(lambda x: x * 2, mesh=one, in_specs=P("d"), out_specs=P("d"))
    assert section(explain(fn, numbers(4)), "What shard_map") == [
        "x f32[4]: whole on the one device.",
        "result f32[4]: whole on the one device.",
    ]
    fn = jax.shard_map(lambda x: x * 2, mesh=auto_mesh(8, names=("d",)), in_specs=P("d"), out_specs=P("d"))
    assert section(explain(fn, jnp.ones((0, 4))), "What shard_map")[:2] == [
        "x f32[0,4]: axis 0 split by d=8; it has no elements.",
        "result f32[0,4]: axis 0 split by d=8; it has no elements.",
    ]
