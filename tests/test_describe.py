"""Sentences: primitives as users write them, trees in the place of their leaves, lines with their files."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from zoo import ZOO

from jaxprviz import explain, trace
from jaxprviz._scope import Scope
from jaxprviz._spelling import SPELLED
from jaxprviz._trees import tree_names, tree_of
from jaxprviz._words import line_text
from jaxprviz.program import Source

Tree = dict[str, Any]


def text_of(fn: Callable[..., Any], *args: Any) -> str:
    """The sentences, without what differs from one JAX to the next: its version, its names, its count of equations."""
    text = str(explain(fn, *args)).replace(jax.__version__, "VERSION")
    text = re.sub(r"^In the jaxpr, .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^[\d,]+ equations", "N equations", text, flags=re.MULTILINE) + "\n"


# --- trees -------------------------------------------------------------------------------------------------


def layers(count: int) -> Tree:
    return {f"layer{number}": {"b": jnp.ones(8), "w": jnp.ones((8, 8))} for number in range(count)}


def loss(params: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    for layer in params.values():
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return ((x - y) ** 2).mean()


def train_step(params: Tree, momentum: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree, jax.Array]:
    value, slopes = jax.value_and_grad(loss)(params, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, slopes)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum, value


def test_a_train_step(golden: Callable[[str, str], None]) -> None:
    golden("describe/train_step.txt", text_of(train_step, layers(7), layers(7), X, X))


def test_a_train_step_over_devices(golden: Callable[[str, str], None]) -> None:
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    params = layers(7)
    for layer in params.values():
        layer["w"] = jax.device_put(layer["w"], NamedSharding(mesh, P(None, "model")))
        layer["b"] = jax.device_put(layer["b"], NamedSharding(mesh, P()))
    x = jax.device_put(X, NamedSharding(mesh, P("data")))
    _, title, lines = text_of(train_step, params, layers(7), x, x).partition(
        "How arrays lie over the devices\n"
    )
    golden("describe/train_step_auto.txt", title + lines)


def test_a_train_step_in_a_device_scope(golden: Callable[[str, str], None]) -> None:
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))

    def many(params: Tree, momentum: Tree, xs: jax.Array) -> Any:
        def local(x: jax.Array) -> Any:
            return jax.lax.pmean(loss(params, x, x), "data"), momentum

        return jax.shard_map(local, mesh=mesh, in_specs=P("data"), out_specs=P())(xs)

    text = text_of(many, layers(7), layers(7), X)
    differing = (
        r"^Constants\n(  .*\n)*\n",  # newer JAX writes another number in relu
        r"^  (results of the equations inside|typed as varying).*\n",  # and casts of its own
    )
    golden("describe/captured_trees.txt", re.sub("|".join(differing), "", text, flags=re.MULTILINE))


def test_a_loop_that_hands_on_a_tree(golden: Callable[[str, str], None]) -> None:
    def many(params: Tree, momentum: Tree, xs: jax.Array) -> Any:
        def body(carry: Any, x: jax.Array) -> Any:
            params, momentum, value = train_step(carry[0], carry[1], x, x)
            return (params, momentum), value

        return jax.lax.scan(body, (params, momentum), xs)

    golden("describe/loop_of_a_tree.txt", text_of(many, layers(7), layers(7), X[None]))


def test_the_mapped_axis_of_a_tree() -> None:
    tree = {f"w{number}": jnp.ones((4, 2)) for number in range(13)}

    def f(tree: Tree) -> Tree:
        def g(t: Tree) -> Tree:
            return jax.tree.map(lambda leaf: leaf + 1, t)

        return jax.pmap(g)(tree)

    text = str(explain(f, tree))
    assert text.splitlines()[0] == "f(tree: 13 arrays, 416 bytes) -> result: 13 arrays, 416 bytes"
    assert text[text.index("What pmap") :].splitlines()[:3] == [
        "What pmap g asks for over 4 devices",
        "  tree, 13 arrays, 416 bytes: axis 0 split over 4 devices; one device holds 104 bytes; in all 416 bytes; "
        "g sees them without the split axis.",
        "  result, 13 arrays, 416 bytes: axis 0 split over 4 devices; one device holds 104 bytes; in all 416 bytes; "
        "g makes them without the split axis.",
    ]


def test_few_leaves_are_all_named() -> None:
    assert explain(loss, layers(2), X, X).splitlines()[0] == (
        "loss(params['layer0']['b']: f32[8], params['layer0']['w']: f32[8,8], params['layer1']['b']: f32[8], "
        "params['layer1']['w']: f32[8,8], x: f32[4,8], y: f32[4,8]) -> result: f32[]"
    )


@pytest.mark.parametrize(
    ("name", "tree"),
    [
        ("params['a']['b']", "params"),
        ("state[0].mu", "state"),
        ("state.mu[1]", "state"),
        ("x", "x"),
        ("result", "result"),
        ("result['w']", "result"),
        ("result[1]['w']", "result[1]"),
        ("argument 3", "argument 3"),
        ("the result 2 of block", "results of block"),
        ("['w']", "['w']"),
    ],
)
def test_the_tree_of_a_name(name: str, tree: str) -> None:
    assert tree_of(name) == tree


def test_names_of_a_tree() -> None:
    assert tree_names(["c['a']", "c['b']", "x"]) == "c['a'], c['b'], x"
    assert tree_names([*(f"c[{number}]" for number in range(9)), "x"]) == "c (9 arrays), x"
    assert tree_names([f"c['{'kernel' * 20}']", "c['b']", "x"]) == "c (2 arrays), x"


# --- spelling ----------------------------------------------------------------------------------------------


def named_in_the_jaxpr(fn: Callable[..., Any], *args: Any) -> str | None:
    return next((line for line in explain(fn, *args).splitlines() if line.startswith("In the jaxpr")), None)


def test_the_name_in_the_jaxpr_is_told_once() -> None:
    @jax.custom_jvp
    def act(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    act.defjvps(lambda t, ans, x: t)
    assert named_in_the_jaxpr(lambda x: act(act(x)), X) == "In the jaxpr, custom_jvp is custom_jvp_call."
    assert named_in_the_jaxpr(jnp.sin, X) is None


def test_a_name_that_is_easily_seen_is_not_told() -> None:
    def f(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x)
        return jax.checkpoint(jnp.sin)(x)

    assert "jax.debug.print of" in explain(f, X)
    assert "debug" not in (named_in_the_jaxpr(f, X) or "")


@pytest.mark.parametrize("name", ZOO)
def test_no_name_that_users_do_not_write(name: str) -> None:
    fn, args = ZOO[name]()
    heading, _, rest = str(explain(fn, *args)).partition("\n\n")
    inner = {primitive for primitive in SPELLED if primitive not in set(SPELLED.values())} - {
        "checkpoint",
        "remat",
    }
    assert not inner & set(re.findall(r"\w+", rest)), heading


# --- scopes and lines --------------------------------------------------------------------------------------


def test_a_backward_scope_is_told_as_such() -> None:
    def net(ws: jax.Array, x: jax.Array) -> jax.Array:
        def layer(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
            return jnp.tanh(x @ w), None

        return jax.lax.scan(layer, x, ws)[0].sum()

    text = str(explain(jax.grad(net), jnp.ones((5, 8, 8)), X))
    assert "  scan layer: 5 steps; handed on" in text
    assert "  scan layer (backward): 5 steps, from the last to the first; handed on" in text


def test_numbers_and_captures_are_told_where_they_are_read() -> None:
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))

    def f(w: jax.Array, x: jax.Array) -> jax.Array:
        def g(x: jax.Array) -> jax.Array:
            return (x @ w + 2.0) / 7.0

        return jax.shard_map(g, mesh=mesh, in_specs=P("data"), out_specs=P("data"))(x)

    text = str(explain(f, jnp.ones(8), X))
    assert (
        "g captures w f32[8], bound as argument w of f; it enters shard_map g, where dot_general reads it."
        in text
    )
    assert "In g: numbers written into the equations: 2.0 (add), 7.0 (div)." in text


def test_two_tests_of_the_same_name() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x)

    assert "while body <lambda>: as long as its test <lambda> says so, " in explain(f, X)


def test_the_line_of_another_file_has_its_name() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    program = trace(f, X)
    scope = Scope.root(program)
    (equation,) = program.main.equations
    here = equation.source
    assert here is not None and here.file == "test_describe.py"
    assert line_text(scope, equation) == f" (line {here.line})"
    at = {
        Source("f", 12, "test_describe.py"): " (line 12)",
        Source("helper", 12, "test_describe.py"): " (line 12, in helper)",
        Source("<lambda>", 12, "layers.py"): " (layers.py:12)",
        Source("apply", 12, "layers.py"): " (layers.py:12, in apply)",
        Source("f", 12, None): " (line 12)",
        None: "",
    }
    assert {source: line_text(scope, dataclasses.replace(equation, source=source)) for source in at} == at
    main = dataclasses.replace(program.main, source=None)
    nowhere = Scope.root(dataclasses.replace(program, bodies=(main, *program.bodies[1:])))
    assert line_text(nowhere, equation) == f" (test_describe.py:{here.line})"


X = jnp.ones((4, 8))
