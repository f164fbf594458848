"""Programs that once made a picture or a sentence say what is not so: each with what is right."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jaxprviz import (
    Figure,
    JaxprvizError,
    draw,
    explain,
    explore,
    from_json,
    legend,
    show_placement,
    trace,
)
from jaxprviz.program import Program

W, X = jnp.ones((2, 3)), jnp.ones((4, 2, 3))


def section(text: str, title: str) -> list[str]:
    """The sentences under a title."""
    lines = text.splitlines()
    if title not in lines:
        return []
    start = lines.index(title) + 1
    end = lines.index("", start) if "" in lines[start:] else len(lines)
    return [line.strip() for line in lines[start:end]]


def captured(text: str) -> list[str]:
    return section(text, "Captured variables")


def names(program: Program) -> list[tuple[str, str]]:
    """The equations whose results have a name, as (name, primitive)."""
    return [
        (name, equation.primitive)
        for body in program.bodies
        for equation in body.equations
        if equation.source is not None
        for name in equation.source.assigned
    ]


def test_the_only_equation_is_a_jit_that_captures() -> None:
    def f(w, x):
        return jax.jit(lambda y: y * w)(x)

    assert captured(explain(f, W, X)) == [
        "<lambda> captures w f32[2,3], bound as argument w of f; it enters jit <lambda>, where "
        "broadcast_in_dim reads it."
    ]


def test_each_level_of_nested_jits_is_counted() -> None:
    def f(w, x):
        @jax.jit
        def outer(y):
            @jax.jit
            def inner(z):
                return z * w

            return inner(y)

        return outer(x)

    assert captured(explain(f, W, X)) == [
        "outer captures w f32[2,3], bound as argument w of f; it enters jit outer.",
        "inner captures w f32[2,3], bound as argument w of f; it enters jit outer, then jit inner, where "
        "broadcast_in_dim reads it.",
    ]


def test_a_captured_number_is_no_argument() -> None:
    def f(x):
        number = jnp.float32(2)
        return jax.pmap(lambda y: y + number)(x)

    text = explain(f, X)
    if jax.__version_info__ >= (0, 8):  # before, JAX keeps no names there
        assert captured(text) == [
            "<lambda> captures the number 2.0 f32[], bound as a number written into f; it enters pmap <lambda>, "
            "where add reads it."
        ]
    assert "  the number 2.0 f32[]" in text
    assert "argument number" not in text


def test_a_loops_carry_is_not_its_first_value() -> None:
    def f(w, xs):
        def body(c, x):
            return c + jax.jit(lambda y: y * c)(x), None

        return jax.lax.scan(body, w, xs)

    assert captured(explain(f, W, X)) == [
        "<lambda> captures c f32[2,3], bound as argument c of body; it enters jit <lambda>, where mul reads it."
    ]


def test_one_step_of_a_loop_does_not_capture_all_slices() -> None:
    def f(ws, x):
        def body(c, w):
            return jax.jit(lambda y: y * w)(c), None

        return jax.lax.scan(body, x, ws)

    assert captured(explain(f, jnp.ones((5, 2, 3)), X)) == [
        "<lambda> captures w f32[2,3], bound as argument w of body; it enters jit <lambda>, where "
        "broadcast_in_dim reads it."
    ]


def test_a_capture_is_bound_where_the_function_around_has_it_as_argument() -> None:
    def f(w, x):
        @jax.jit
        def h(a, y):
            return jax.jit(lambda z: z * a)(y)

        return h(w, x) + h(w + 1, x)

    assert captured(explain(f, W, X)) == [
        "<lambda> captures a f32[2,3], bound as argument a of h; it enters jit <lambda>, where "
        "broadcast_in_dim reads it."
    ]


def test_what_is_put_into_a_container_has_not_its_name() -> None:
    def f(w):
        params = {"w": w * 2}
        pair = [w * 3, w * 4]
        kept: list[jax.Array] = []
        nothing = kept.append(w * 5)
        return params, pair, nothing, kept

    assert names(trace(f, W)) == []


def test_what_is_assigned_has_its_name() -> None:
    def f(w, flag):
        h = w * 2
        k = jnp.tanh(w @ w.T)
        m = w * 3 if flag else -w
        h += 1
        first, second = jnp.split(w, 2)
        return h, k, m, first, second

    assert names(trace(f, W, "yes")) == [
        ("h", "mul"),
        ("k", "tanh"),
        ("m", "mul"),
        ("h", "add"),
        ("first", "split"),
        ("second", "split"),
    ]


def test_the_name_that_a_helper_gives_is_not_the_callers() -> None:
    def helper(v):
        r = v * 2
        return r  # noqa: RET504 - the name is what is tested

    def f(w, x):
        h = helper(w)

        @jax.jit
        def g(y):
            return y * h

        return g(x) + 1

    (said,) = captured(explain(f, W, X))
    assert said.startswith("g captures a variable f32[2,3], bound as the result of mul in f (line ")
    assert said.endswith(", in helper); it enters jit g, where broadcast_in_dim reads it.")


def test_a_derivative_has_not_the_name_of_what_it_is_derived_from() -> None:
    @jax.jit
    def inner(w):
        k = jnp.sin(w)
        return k * 2

    def f(w):
        h = jnp.sin(w)
        return (h * inner(w)).sum()

    assert names(trace(f, W)) == [("k", "sin"), ("h", "sin")]
    assert names(trace(jax.grad(f), W)) == []


def test_the_result_of_an_inner_pmap_is_not_that_of_the_program() -> None:
    def f(x):
        return jax.pmap(lambda y: y * 2)(jax.pmap(lambda y: y + 1)(x))

    made = [line.strip().split(":")[0] for line in explain(f, X).splitlines() if " makes " in line]
    assert made == ["the result of <lambda> f32[4,2,3]", "result f32[4,2,3]"]


def test_the_result_of_one_step_is_not_that_of_the_loop() -> None:
    def f(w, xs):
        def body(c, x):
            return c, jax.pmap(lambda y: y * 2)(x)

        return jax.lax.scan(body, w, xs)

    made = [
        line.strip().split(":")[0]
        for line in explain(f, W, jnp.ones((5, 4, 2, 3))).splitlines()
        if " makes " in line
    ]
    assert made == ["the result of <lambda> f32[4,2,3]"]


def mesh(names: tuple[str, ...], *shape: int, backwards: bool = False) -> Mesh:
    devices = np.array(jax.devices())[::-1] if backwards else np.array(jax.devices())
    return Mesh(devices.reshape(shape), names)


def test_a_partly_manual_shard_map_leaves_an_axis_to_the_compiler() -> None:
    f = jax.shard_map(
        lambda a: jax.lax.psum(a, "data"),
        mesh=mesh(("data", "model"), 4, 2),
        in_specs=P("data"),
        out_specs=P(),
        axis_names={"data"},
    )
    figure = draw(jax.jit(f), jnp.ones((8, 4)))
    assert section(figure.text, "What shard_map <lambda> asks for over data=4 × model=2") == [
        "a f32[8,4]: axis 0 split by data=4, over model=2 as the compiler decides; <lambda> sees f32[2,4].",
        "result f32[2,4]: copied over data=4, over model=2 as the compiler decides; <lambda> makes f32[2,4].",
    ]
    cells = re.findall(r'WIDTH="22"><FONT[^>]*>([^<]*)<', figure.dot)
    assert cells == ["0", "1", "2", "3", ":", ":", ":", ":"]  # one for each position along data
    assert figure.dot.count(">over model=2 as the compiler decides<") == 2
    assert "copied over model" not in figure.dot
    assert "on each" not in figure.dot


def test_a_shard_map_inside_another_works_on_one_position_of_it() -> None:
    whole = mesh(("data", "model"), 4, 2)

    def outer(x):
        inside = jax.sharding.get_abstract_mesh()
        spec = P(None, "model")
        return jax.shard_map(
            lambda y: y * 2, mesh=inside, in_specs=spec, out_specs=spec, axis_names={"model"}
        )(x)

    f = jax.jit(
        jax.shard_map(outer, mesh=whole, in_specs=P("data"), out_specs=P("data"), axis_names={"data"})
    )
    text = explain(f, jnp.ones((8, 4)))
    assert section(text, "What shard_map <lambda> asks for over model=2, at each position of data=4") == [
        "x f32[2,4] (called y in <lambda>): axis 1 split by model=2; one device holds f32[2,2], 16 bytes; "
        "1 copy, 32 bytes in all.",
        "result f32[2,4]: axis 1 split by model=2; one device holds f32[2,2], 16 bytes; 1 copy, 32 bytes in all.",
    ]
    assert show_placement(f, jnp.ones((8, 4)), name="x").text == (
        "x f32[2,4]: axis 1 split by model=2.\n"
        "  model=0 holds x[:, 0:2], 16 bytes\n"
        "  model=1 holds x[:, 2:4], 16 bytes"
    )


@pytest.mark.parametrize("spec", [P("k", "d"), P(("k", "d")), P(None, "d"), P()], ids=str)
@pytest.mark.parametrize("backwards", [False, True])
def test_the_devices_of_a_placement_are_those_that_hold_the_shards(spec: P, *, backwards: bool) -> None:
    over = mesh(("d", "k"), 4, 2, backwards=backwards)
    f = jax.jit(jax.shard_map(lambda a: a * 2, mesh=over, in_specs=spec, out_specs=spec))
    x = jnp.ones((8, 4))
    asked, real = show_placement(f, x, name="result").text, show_placement(f(x), name="result").text
    assert asked.splitlines() == real.splitlines()


def test_the_devices_of_a_pmap_are_those_that_it_was_given() -> None:
    f = jax.pmap(lambda y: y * 2, devices=jax.devices()[4:8])
    asked, real = show_placement(f, X, name="result").text, show_placement(f(X), name="result").text
    assert asked.splitlines()[1:] == real.splitlines()[1:]
    assert "device 4 holds result[0:1, :, :], 24 bytes" in asked


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Model:
    """A tree that holds an array, a number, and a function, as the modules of some libraries do."""

    weight: Any
    scale: Any
    activation: Any


def test_the_arrays_of_a_tree_with_other_things_are_arguments() -> None:
    def f(model, x):
        return model.activation(x @ model.weight) * model.scale if model.scale > 1 else x

    program = trace(f, Model(jnp.ones((3, 3)), 2, jnp.tanh), X)
    assert program.main.input_names == ("model.weight", "x")
    assert program.main.constants == ()


@pytest.mark.skipif(jax.__version_info__ >= (0, 8), reason="newer JAX marks captured variables itself")
def test_what_may_be_captured_is_not_said_not_to_be() -> None:
    def scaled(by):
        return lambda y: y * by

    def f(w, x):
        kept = {"w": w}
        return jax.pmap(lambda y: y * kept["w"] + scaled(kept["w"])(y))(x)

    assert captured(explain(f, W, X)) == ["None for certain; see Not known below."]
    assert section(explain(f, W, X), "Not known") == [
        "Which of these inputs <lambda> captures: f32[2,3] (JAX keeps no names there)."
    ]


class Layer:
    def __init__(self, weight: jax.Array) -> None:
        self.weight = weight

    def __call__(self, x):
        return x * self.weight


def test_a_method_captures_its_object() -> None:
    layer = Layer(jnp.arange(6.0).reshape(2, 3))

    def f(x):
        return jax.pmap(layer.__call__)(x)

    assert captured(explain(f, X)) == [
        "__call__ captures layer.weight f32[2,3], bound as a constant array baked into f when it was traced; "
        "it enters pmap __call__, where mul reads it."
    ]


def test_a_leaked_tracer_is_no_constant_array() -> None:
    leaked: list[jax.Array] = []
    jax.make_jaxpr(leaked.append)(W)

    def f(x):
        return jax.pmap(lambda y: y + leaked[0])(x)

    text = explain(f, X)
    assert "constant array" not in text
    if jax.__version_info__ >= (0, 8):
        assert captured(text) == [
            "<lambda> captures leaked[0] f32[2,3], bound as a tracer that leaked out of another trace into f; it "
            "enters pmap <lambda>, where add reads it."
        ]


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(JaxprvizError) as raised:
        call()
    return str(raised.value)


def varies() -> Figure:
    f = jax.shard_map(lambda a: a, mesh=mesh(("d",), 8), in_specs=P("d"), out_specs=P())
    return draw(f, jnp.ones((8, 2)))


def too_large() -> Figure:
    def f(x):
        over = jax.make_mesh((16,), ("d",))
        return jax.shard_map(lambda a: a, mesh=over, in_specs=P("d"), out_specs=P("d"))(x)

    return draw(f, jnp.ones((16, 2)))


REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "the result in the place of the function": (
        lambda: draw(X),  # pyright: ignore[reportArgumentType]
        "jaxprviz was asked to trace f32[4,2,3]: an array can't be called\n"
        "Pass the function itself and then its arguments: draw(f, x, y), not draw(f(x, y)).",
    ),
    "no slice": (
        lambda: draw(jax.pmap(jnp.sin), jnp.ones((0, 3))),
        "jaxprviz was asked to trace sin(f32[0,3]): pmap of sin splits an axis of size 0: it is given no slice, so "
        "no device has anything to do\nSplit an axis of at least one element.",
    ),
    "copies that may differ": (
        varies,
        "jaxprviz was asked to trace <lambda>(f32[8,2]): out_specs=P() of shard_map says that the devices along "
        "the mesh axes it does not name all make the same result, and by what JAX knows they may differ\n"
        "Name these axes in out_specs to join the parts, or make the results equal (jax.lax.psum, pmean or "
        "all_gather over these axes). If they are equal and JAX does not see it: check_vma=False.",
    ),
    "a mesh that is too large": (
        too_large,
        "jaxprviz was asked to trace f(f32[16,2]): a mesh of 16 needs 16 devices, and there are 8\n"
        "Make it smaller, simulate more devices with jaxprviz.use_devices(16) before JAX starts (in a notebook: "
        "restart the kernel first), or take a jax.sharding.AbstractMesh, which needs none.",
    ),
    "a shape of other things": (
        lambda: draw(jnp.sin, jax.ShapeDtypeStruct(("many", 2), jnp.float32)),  # pyright: ignore[reportArgumentType]
        "jaxprviz was asked to trace sin(f32[many,2]): the argument x is a jax.ShapeDtypeStruct of a shape whose "
        "sizes are no whole numbers\nGive it sizes such as 4: jax.ShapeDtypeStruct((4, 3), jnp.float32).",
    ),
    "no path": (
        lambda: legend().save(None),  # pyright: ignore[reportArgumentType]
        'save the figure: None is no path of a file\nPass the name of a file: figure.save("f.svg").',
    ),
    "a path that no system takes": (
        lambda: legend().save("a\0.svg"),
        "save the figure: 'a\\x00.svg' is no path of a file\nPass the name of a file: figure.save(\"f.svg\").",
    ),
    "no text": (
        lambda: from_json(None),  # pyright: ignore[reportArgumentType]
        "read a program from JSON: it is a value of type NoneType, not a text\n"
        'Read a file that `figure.save("....json")` wrote; make it again if it was changed.',
    ),
    "arguments in the place of controls": (
        lambda: explore(jnp.add, W, X),
        "explore(add): it was given an array where the control of a parameter of build is expected\n"
        "build(devices, batch) returns (function, args) for the position of the sliders: explore(build). To draw "
        "one program: draw(f, w, x).",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_mistake_gets_one_message(name: str) -> None:
    call, message = REFUSALS[name]
    assert refusal(call) == message


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    assert "has 304 characters, too many for a file here" in refusal(
        lambda: legend().save(tmp_path / f"{'a' * 300}.txt")
    )


@pytest.mark.parametrize("in_axes", [-1, (0, -1)], ids=str)
def test_pmap_does_not_count_from_the_end(in_axes: Any) -> None:
    text = refusal(
        lambda: draw(jax.pmap(lambda a, b: a, in_axes=in_axes), jnp.ones((3, 4)), jnp.ones((4, 3)))
    )
    assert text.endswith(
        "was given an axis below 0, and pmap does not count axes from the end\n"
        "Count from the front in in_axes and out_axes: the last axis of an array x is x.ndim - 1."
    )


@pytest.mark.skipif(jax.__version_info__ < (0, 8), reason="older JAX nests pmaps")
def test_a_pmap_in_a_pmap() -> None:
    assert refusal(lambda: draw(jax.pmap(jax.pmap(jnp.sin)), jnp.ones((2, 2, 3)))) == (
        "jaxprviz was asked to trace sin(f32[2,2,3]): it has a pmap inside a pmap, which JAX does not trace from "
        "0.8 on\nMake the inner one a vmap, or use shard_map over a mesh of two axes."
    )


def test_a_slider_to_a_mesh_that_is_too_large() -> None:
    def build(devices):
        over = jax.make_mesh((devices,), ("d",))
        f = jax.shard_map(lambda a: a, mesh=over, in_specs=P("d"), out_specs=P("d"))
        return f, (jax.ShapeDtypeStruct((devices, 2), jnp.float32),)

    explorer = explore(build, devices=(1, 16))
    explorer.set(devices=16)
    assert explorer.error is not None
    assert explorer.error.splitlines()[0] == "build failed: a mesh of 16 needs 16 devices, and there are 8"


def test_one_path_to_open_is_enough() -> None:
    def f(x):
        return jax.jit(lambda y: jnp.sin(y) * 2)(x) + 1

    assert draw(f, X, budget=1, open="0").dot == draw(f, X, budget=1, open=["0"]).dot
    assert draw(f, X, budget=1, open="0").dot != draw(f, X, budget=1).dot
