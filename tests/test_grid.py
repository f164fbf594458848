"""Grids of devices: what each holds, in words and in DOT; compared with the shards that JAX makes."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from jaxprviz import show_placement
from jaxprviz.errors import JaxprvizError

NAMES = ("a", "b", "c")
SHARDINGS = [
    *(((8,), spec) for spec in [(), ("a",), (None, "a")]),
    *(
        (mesh, spec)
        for mesh in [(2, 4), (4, 2), (2, 2, 2)]
        for spec in [(), ("a",), (None, "a"), ("a", "b"), (("a", "b"), None), (("b", "a"),)]
    ),
]


def held(text: str) -> list[str]:
    """The slices in the text of a placement, device by device."""
    return [line.split(" holds ")[1].split(",  ")[0] for line in text.splitlines() if " holds " in line]


def said(array: jax.Array) -> list[str]:
    """The same from the shards, by device."""
    found = []
    for shard in sorted(array.addressable_shards, key=lambda shard: shard.device.id):
        parts = []
        for part, size in zip(shard.index, array.shape, strict=True):
            start, stop, _ = part.indices(size)
            parts.append(":" if (start, stop) == (0, size) else f"{start}:{stop}")
        found.append(f"x[{', '.join(parts)}], {shard.data.nbytes} bytes")
    return found


@pytest.mark.parametrize(("shape", "spec"), SHARDINGS)
def test_grid_tells_the_real_shards(shape: tuple[int, ...], spec: tuple[object, ...]) -> None:
    names = NAMES[: len(shape)]
    mesh = jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(shape))
    x = jax.device_put(jnp.ones((16, 8)), NamedSharding(mesh, PartitionSpec(*spec)))
    assert held(show_placement(x, name="x").text) == said(x)


def test_grid_of_a_program_is_that_of_the_arrays_that_come_out() -> None:
    f = jax.pmap(lambda x: x * 2)
    x = jnp.ones((4, 2, 3))
    asked = held(show_placement(f, x, name="result").text)
    assert [line.replace("result", "x") for line in asked] == said(f(x))


def test_grid_text_and_dot(golden: Callable[[str, str], None]) -> None:
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    x = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, PartitionSpec("data")))
    figure = show_placement(x, name="<x>")
    golden("placement.txt", figure.text)
    golden("placement.dot", figure.dot)
    assert "&lt;x&gt;" in figure.svg and "<x>" not in figure.svg


def test_many_devices_are_shortened() -> None:
    mesh = jax.sharding.AbstractMesh((64, 64), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    x = jax.ShapeDtypeStruct(
        (64, 64), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec("data", "model"))
    )
    figure = show_placement(x, name="x")
    assert len(held(figure.text)) == 4096
    assert figure.dot.count("x[") == 7 * 7


def test_one_device_and_replicated() -> None:
    assert show_placement(jnp.ones(3), name="x").text == (
        "x f32[3]: whole on one device.\n  device 0 holds x[:], 12 bytes"
    )


@pytest.mark.parametrize("value", [3, [1, 2], "text"])
def test_values_that_lie_on_no_device(value: object) -> None:
    with pytest.raises(JaxprvizError, match="it has no sharding"):
        show_placement(value)


def test_variables_that_are_not_there() -> None:
    with pytest.raises(JaxprvizError, match=r"Those that do: x, result\."):
        show_placement(jax.pmap(lambda x: x * 2), jnp.ones((4, 2)), name="y")
    with pytest.raises(JaxprvizError, match="no device scope"):
        show_placement(lambda x: x * 2, jnp.ones(4))
