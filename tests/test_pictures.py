"""The picture of each primitive, with its one of `golden/pictures` on the JAX that the pins name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from test_dot import Maker, edges, f32, orange, picture, program
from test_project import ROOT, pins
from zoo import ZOO

from jaxprviz import draw
from jaxprviz._render import render
from jaxprviz._spelling import SPELLED

PINNED = jax.__version__ == pins(ROOT / "requirements.lock")["jax"][0]
FOLDER = Path(__file__).parent / "golden/pictures"


def _picture(name: str) -> str:
    fn, args = ZOO[name]()
    return draw(fn, *args).dot


@pytest.mark.skipif(not PINNED, reason="another JAX traces other equations")
@pytest.mark.parametrize("name", ZOO)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"pictures/{name}.dot", _picture(name))


@pytest.mark.skipif(not PINNED, reason="another JAX has other primitives")
def test_no_picture_is_stale() -> None:
    assert {path.stem for path in FOLDER.glob("*.dot")} == set(ZOO)


@pytest.mark.parametrize("name", ZOO)
def test_every_line_joins_boxes_and_graphviz_draws_all(name: str) -> None:
    text = _picture(name)
    boxes = set(re.findall(r"^ +(\w+) \[id=", text, re.MULTILINE))
    found = edges(text, hidden=True)
    assert {end for tail, head, _ in found for end in (tail, head)} <= boxes
    assert len(found) == text.count(" -> ")
    assert render(text).count(b'class="edge"') == len(edges(text))


@pytest.mark.parametrize("name", ZOO)
def test_primitives_have_the_names_that_users_write(name: str) -> None:
    """JAX's own names stand in tooltips alone."""
    labels = re.sub(r'tooltip="(?:[^"\\]|\\.)*"', "", _picture(name))
    assert set(re.findall(r"\w+", labels)) & (set(SPELLED) - {"checkpoint", "remat"}) == set()


HOLDS = {
    "cond": ["chooses the branch", "from the branch taken"],
    "custom_linear_solve": ["handed in by the solver", "goes back to the solver"],
    "debug_callback": ["look", "on the host, in order"],
    "ffi_call": ['shape="component"'],
    "io_callback": ["<B>save</B>", "on the host, in order", 'shape="note"'],
    "nested": ["residual", "backward"],
    "pallas_blocks": ["grid 4 × 2", "block (2, 4) at (i, j)", "block (None, 4) at (0, j)", "output"],
    "pallas_scratch": ["scratch", "working memory", "what o_ref holds in the end"],
    "refs": ["<B>reads</B>&#160;total[...]", "<B>writes</B>&#160;2.0&#160;to&#160;total[0]"],
    "remat": ["jax.checkpoint"],
    "run_state": ["what x holds in the end"],
    "scan": ["carry", "sliced", "the same each step"],
    "shard_map": ["the same on all of data", "copied whole", "axis 0 split by data=4"],
}


@pytest.mark.parametrize("name", [name for name in HOLDS if name in ZOO])
def test_what_the_boxes_say(name: str) -> None:
    text = _picture(name)
    assert [words for words in HOLDS[name] if words not in text] == []


def test_collectives_are_told_on_what_is_folded() -> None:
    """A run of equations, and a scope, name the collectives in them."""
    inner = Maker("g")
    x = inner.input(f32(3), "x")
    for _ in range(20):
        (x,) = inner.do("psum_invariant", (x,), f32(3), axes=("data",))
        (x,) = inner.do("neg", (x,), f32(3))
    main = Maker("f")
    drawn = program(inner.done(x), main.done(*main.call("jit", 0, (main.input(f32(3), "x"),), (f32(3),))))
    folded = re.findall(
        r"^ *(e_\w+) \[.*?>psum over data(?: × (\d+))?<", picture(drawn, closed=["0"]), re.MULTILINE
    )
    assert folded == [("e_0", "")]
    runs = re.findall(r">psum over data × (\d+)<", picture(drawn, budget=1, open=["0"]))
    hexagons = picture(drawn, budget=1, open=["0"]).count('shape="hexagon"')
    assert sum(map(int, runs)) + hexagons == 20


def test_arguments_of_a_tree_stand_together() -> None:
    def f(params: Any, x: Any) -> Any:
        return sum(jax.tree.leaves(params)) * x

    text = draw(f, {"dense": {name: jnp.ones(3) for name in "abcdefghij"}}, jnp.ones(3)).dot
    (tree,) = re.findall(r"^ *a_0 .*label=<(.*)> tooltip", text, re.MULTILINE)
    words = re.sub(r"<[^<>]*>", " ", tree).replace("&#160;", " ").split()
    leaves = [word for name in "abcdefg" for word in (f"['dense']['{name}']", "f32[3]")]
    assert words == ["params", "10", "arrays", *leaves, "and", "3", "more"]


def test_how_arrays_are_asked_to_lie() -> None:
    """By the shardings of a jit, by a constraint, and by how the actual argument lay."""
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
    rows, whole = (NamedSharding(mesh, PartitionSpec(*names)) for names in (("data",), ()))

    def f(w: Any, x: Any) -> Any:
        return jax.lax.with_sharding_constraint(x * w, rows)

    def told(text: str) -> list[tuple[str, str]]:
        return re.findall(r"^ *(\w+) \[.*>((?:asked|arrives): [^<]*)<", text, re.MULTILINE)

    split, copied = "axis 0 split by data=4", "copied whole"
    jitted = jax.jit(f, in_shardings=(whole, rows), out_shardings=whole)
    assert sorted(told(draw(jitted, jnp.ones(8), jnp.ones(8)).dot)) == [
        ("a_0", f"asked: {copied}"),
        ("a_1", f"asked: {split}"),
        ("e_0_1", f"asked: {split}"),
        ("r_0", f"asked: {copied}"),
    ]
    arrived = draw(f, jnp.ones(8), jax.device_put(jnp.ones(8), rows)).dot
    assert sorted(told(arrived)) == [("a_1", f"arrives: {split}"), ("e_1", f"asked: {split}")]


def test_a_captured_variable_is_orange_through_named_scopes() -> None:
    def f(w: Any, x: Any) -> Any:
        with jax.named_scope("block"):
            return jax.jit(lambda x: x * w)(x)

    assert orange(draw(f, jnp.ones(3), jnp.ones(3), named_scopes=True).dot) == {
        ("a_0", "d_0_0"),
        ("d_0_0", "d_0_0_0"),
        ("d_0_0_0", "e_0_0_0"),
    }


def test_reads_and_writes_stand_in_the_order_of_the_code() -> None:
    """Hidden lines hold each access below the one before it; a line to what writes has two heads."""

    def f(x: Any) -> Any:
        ref = jax.new_ref(x)
        ref[0] = 1.0
        ref[1] = 2.0
        return ref[...]

    found = edges(draw(f, jnp.ones(3)).dot, hidden=True)
    hidden = {(tail, head) for tail, head, attributes in found if "style=invis" in attributes}
    assert {("e_1", "e_2"), ("e_2", "e_3")} <= hidden
    both = {(tail, head) for tail, head, attributes in found if 'dir="both"' in attributes}
    assert both == {("e_0", "e_1"), ("e_0", "e_2")}
