"""The question's program and its relatives: what is said of them, the same on every supported JAX."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from jaxprviz import draw, explain, trace
from jaxprviz._captures import all_captures, first_scopes
from jaxprviz._placement import placement
from jaxprviz._pmap import fold_pmaps
from jaxprviz._words import layout_text

W, X = jnp.ones((2, 3)), jnp.ones((4, 2, 3))
TABLE = jnp.arange(6.0).reshape(2, 3)
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Said:
    """What is found out about a program: captures as (function, name, constant), crossings in words."""

    captured: tuple[tuple[str, str | None, bool], ...]
    entering: tuple[tuple[str, tuple[int | str, ...]], ...]
    leaving: tuple[tuple[str, tuple[int | str, ...]], ...]


def said(fn: Callable[..., Any], *args: Any) -> Said:
    program = fold_pmaps(trace(fn, *args))
    placed = [found for scope in first_scopes(program) if (found := placement(scope)) is not None]
    return Said(
        tuple((c.scope.title(), c.name, c.constant) for c in all_captures(program)),
        tuple((layout_text(c.layout), c.inner.shape) for one in placed for c in one.entering),
        tuple((layout_text(c.layout), c.inner.shape) for one in placed for c in one.leaving),
    )


@jax.jit
def question(w, x):
    @jax.pmap
    def g(x):
        return w * x

    return g(x)


COPIED, SPLIT = ("copied whole to 4 devices", (2, 3)), ("axis 0 split over 4 devices", (2, 3))


def test_the_question() -> None:
    assert said(question, W, X) == Said((("g", "w", False),), (COPIED, SPLIT), (SPLIT,))


def test_the_question_in_sentences(golden: Callable[[str, str], None]) -> None:
    golden("question.txt", str(explain(question, W, X)).replace(jax.__version__, "VERSION"))


def test_a_captured_intermediate() -> None:
    @jax.jit
    def f(w, x):
        h = w * 2

        @jax.pmap
        def g(x):
            return h * x

        return g(x)

    assert said(f, W, X) == Said((("g", "h", False),), (COPIED, SPLIT), (SPLIT,))
    assert "g captures h f32[2,3], bound as the result of mul in f (line " in explain(f, W, X)
    assert (
        "Outside of the device scopes\n  argument w f32[2,3], 24 bytes: enters none of them as it is; the caller and "
        "the compiler decide its place."
    ) in explain(f, W, X)
    assert "Outside" not in explain(question, W, X)


def test_a_captured_constant() -> None:
    @jax.jit
    def f(x):
        @jax.pmap
        def g(x):
            return TABLE * x

        return g(x)

    assert said(f, X) == Said((("g", "TABLE", True),), (COPIED, SPLIT), (SPLIT,))
    text = explain(f, X)
    assert "g captures TABLE f32[2,3], bound as a constant array baked into " in text
    assert "TABLE f32[2,3] (captured): copied whole to 4 devices; one device holds f32[2,3], 24 bytes" in text


def test_a_number_is_written_into_its_equation() -> None:
    scale = 3.0

    @jax.jit
    def f(x):
        return jax.pmap(lambda x: x * scale)(x)

    assert said(f, X) == Said((), (SPLIT,), (SPLIT,))
    assert "numbers written into the equations: 3.0 (mul)." in explain(f, X)


def test_two_captured_variables() -> None:
    @jax.jit
    def f(w, b, x):
        @jax.pmap
        def g(x):
            return w * x + b

        return g(x)

    assert said(f, W, W, X) == Said((("g", "w", False), ("g", "b", False)), (COPIED, COPIED, SPLIT), (SPLIT,))


def test_pmap_without_jit() -> None:
    def f(w, x):
        @jax.pmap
        def g(x):
            return w * x

        return g(x)

    assert said(f, W, X) == Said((("g", "w", False),), (COPIED, SPLIT), (SPLIT,))


def test_passed_whole_is_not_captured() -> None:
    @functools.partial(jax.pmap, in_axes=(None, 0))
    def g(w, x):
        return w * x

    assert said(g, W, X) == Said((), (COPIED, SPLIT), (SPLIT,))


def test_other_axes() -> None:
    @functools.partial(jax.pmap, axis_name="i", in_axes=(None, 1), out_axes=(1, None))
    def f(w, x):
        y = w * x
        return y, jax.lax.psum(y.sum(), "i")

    assert said(f, jnp.ones(3), jnp.ones((3, 4))) == Said(
        (),
        (("copied whole to 4 devices", (3,)), ("axis 1 split by i=4", (3,))),
        (("axis 1 split by i=4", (3,)), ("copied whole to 4 devices", ())),
    )
    text = explain(f, jnp.ones(3), jnp.ones((3, 4)))
    assert "psum over i in f: each device gives f32[], 4 bytes; the result: the same on all of i." in text


@pytest.mark.parametrize(
    ("spec", "words", "block"),
    [
        (P(), "copied whole to 8 devices", (8, 6)),
        (P("data"), "axis 0 split by data=4, copied over model=2", (2, 6)),
        (P(None, "model"), "axis 1 split by model=2, copied over data=4", (8, 3)),
        (P("data", "model"), "axis 0 split by data=4, axis 1 split by model=2", (2, 3)),
        (P(("data", "model")), "axis 0 split by data=4, model=2", (1, 6)),
    ],
)
def test_shard_map_over_two_axes(spec: P, words: str, block: tuple[int, ...]) -> None:
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def f(w, x):
        def body(x):
            return x * w.sum()

        return jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)(x)

    w, x = jnp.ones((2, 3)), jnp.arange(48.0).reshape(8, 6)
    entering = (("copied whole to 8 devices", ()), (words, block))
    found = said(f, w, x)
    # The sum is made outside or inside: what is captured is w, whole, or the sum of it.
    assert (found.captured[0][0], found.captured[0][2]) == ("body", False)
    assert (found.entering[1], found.leaving) == (entering[1], ((words, block),))
    result = jax.jit(f)(w, x)
    assert {shard.data.shape for shard in result.addressable_shards} == {block}


def test_the_claims_are_what_jax_does() -> None:
    """Every device holds the block that is said, and of w each sees the whole."""

    @jax.jit
    def f(w, x):
        @jax.pmap
        def g(x):
            return w, w * x

        return g(x)

    seen, result = f(TABLE, X)
    assert seen.shape == (4, 2, 3) and all((seen[k] == TABLE).all() for k in range(4))
    if jax.__version_info__ >= (0, 8):  # before, the result was copied whole
        layouts = [c.layout for c in _leaving(question, W, X)]
        shards = question(W, X).addressable_shards
        assert [shard.data.shape for shard in shards] == [layouts[0].local] * 4
        assert [shard.data.nbytes for shard in shards] == [layouts[0].local_nbytes] * 4
    assert (result == TABLE * X).all()


def _leaving(fn: Callable[..., Any], *args: Any) -> list[Any]:
    program = fold_pmaps(trace(fn, *args))
    return [
        c for scope in first_scopes(program) if (one := placement(scope)) is not None for c in one.leaving
    ]


def test_bytes() -> None:
    program = fold_pmaps(trace(question, W, X))
    (placed,) = [one for scope in first_scopes(program) if (one := placement(scope)) is not None]
    numbers = [(c.layout.copies, c.layout.local_nbytes, c.layout.total_nbytes) for c in placed.entering]
    assert numbers == [(4, 24, 96), (1, 24, 96)]


_SAME_BYTES = """
import hashlib, jaxprviz
jaxprviz.use_devices(8)
import jax, jax.numpy as jnp
@jax.jit
def f(w, x):
    @jax.pmap
    def g(x):
        return w * x
    return g(x)
figure = jaxprviz.draw(f, jnp.ones((2, 3)), jnp.ones((4, 2, 3)))
for text in (figure.dot, figure.svg, figure.text, jaxprviz.to_json(figure.program)):
    print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_same_bytes_whatever_the_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _SAME_BYTES],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and len(outputs.pop().split()) == 4


ODD = '<script>alert("1")</script> & \\N {a|b}\nsecond "line" 😀'


def test_odd_names_are_text() -> None:
    def f(params, x):
        def g(y):
            return y * params[ODD]

        g.__name__ = ODD
        return jax.jit(g)(x)

    figure = draw(f, {ODD: jnp.ones(3)}, jnp.ones(3))
    assert "<script" not in figure.svg and "&lt;script&gt;" in figure.svg
    assert len([line for line in figure.text.splitlines() if "alert" in line and "captures" in line]) == 1
    mesh = jax.make_mesh((4,), (ODD,), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P(ODD), out_specs=P(ODD))
    figure = draw(mapped, jnp.ones((8, 3)))
    assert "<script" not in figure.svg
    assert f"axis 0 split by {ODD}=4".replace("\n", "¶") in figure.text
