"""What can be traced, under which names; and what is said of what cannot."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jaxprviz
from jaxprviz import _jax, trace
from jaxprviz.errors import DevicesError, JaxprvizError, TraceError, VersionError
from jaxprviz.program import Program

ROOT = Path(__file__).parent.parent


def named(program: Program) -> tuple[str | None, list[str | None], list[str], list[str | None]]:
    """Name, arguments with their types, and results of a program."""
    body = program.main
    types = [body.types[variable].short for variable in body.inputs]
    return body.name, list(body.input_names), types, list(body.output_names)


def add(x: Any, y: Any = 1.0) -> Any:
    return x + y


class Model:
    def __init__(self) -> None:
        self.w = jnp.ones((3, 3))

    def apply(self, x: Any) -> Any:
        return x @ self.w

    def __call__(self, x: Any) -> Any:
        return x @ self.w


X = jnp.ones((2, 3))


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "expected"),
    [
        (add, (X, X), {}, ("add", ["x", "y"], ["f32[2,3]"] * 2, ["result"])),
        (add, (X,), {"y": 2.0}, ("add", ["x", "y"], ["f32[2,3]", "f32[]"], ["result"])),
        (add, (np.ones(3, np.float32), 2), {}, ("add", ["x", "y"], ["f32[3]", "i32[]"], ["result"])),
        (
            add,
            (jax.ShapeDtypeStruct((1000, 1000), jnp.bfloat16),),
            {},
            ("add", ["x"], ["bf16[1000,1000]"], ["result"]),
        ),
        (lambda x: x, (X,), {}, ("<lambda>", ["x"], ["f32[2,3]"], ["result"])),
        (functools.partial(add, y=X), (X,), {}, ("add", ["x"], ["f32[2,3]"], ["result"])),
        (Model().apply, (X,), {}, ("apply", ["x"], ["f32[2,3]"], ["result"])),
        (Model(), (X,), {}, ("Model", ["x"], ["f32[2,3]"], ["result"])),
        (jax.jit(add), (X, X), {}, ("add", ["x", "y"], ["f32[2,3]"] * 2, ["result"])),
        (jax.grad(lambda x: x.sum()), (X,), {}, ("<lambda>", ["x"], ["f32[2,3]"], ["result"])),
        (
            lambda p, b: {"loss": p["w"].sum(), "aux": (b, None)},
            ({"w": X, "b": None}, X),
            {},
            ("<lambda>", ["p['w']", "b"], ["f32[2,3]"] * 2, ["result['aux'][0]", "result['loss']"]),
        ),
    ],
)
def test_what_can_be_traced(fn: Any, args: Any, kwargs: Any, expected: Any) -> None:
    assert named(trace(fn, *args, **kwargs)) == expected


def primitives(program: Program) -> list[str]:
    return [equation.primitive for body in program.bodies for equation in body.equations]


def power(x: Any, n: int, kind: str = "mul") -> Any:
    for _ in range(n):
        x = x * 2.0 if kind == "mul" else x + 2.0
    return x


@pytest.mark.parametrize(
    ("fn", "args", "kwargs"),
    [
        (jax.jit(power, static_argnums=1), (X, 3), {}),
        (jax.jit(power, static_argnames=("n", "kind")), (X,), {"n": 3}),
        (jax.jit(power, static_argnames=("n", "kind")), (X, 3, "mul"), {}),
        (jax.pmap(power, static_broadcasted_argnums=1), (jnp.ones((4, 2)), 3), {}),
        (functools.partial(power, n=3), (X,), {}),
    ],
)
def test_static_arguments(fn: Any, args: Any, kwargs: Any) -> None:
    program = trace(fn, *args, **kwargs)
    assert primitives(program).count("mul") == 3
    assert program.main.input_names == ("x",)


def test_what_is_no_array_is_passed_as_it_is() -> None:
    def f(x: Any, how: Callable[..., Any], name: str) -> Any:
        return how(x) if name == "yes" else x

    assert named(trace(f, X, jnp.sin, "yes")) == ("f", ["x"], ["f32[2,3]"], ["result"])
    assert primitives(trace(f, X, jnp.sin, "yes")) == ["sin"]


def test_nothing_is_run() -> None:
    calls: list[int] = []

    def f(x: Any) -> Any:
        jax.debug.callback(lambda _: calls.append(1), x)
        return jax.pure_callback(lambda v: calls.append(2) or v, jax.ShapeDtypeStruct((2, 3), jnp.float32), x)

    jaxprviz.draw(f, X)
    jaxprviz.explain(f, X)
    assert calls == []


# --- mistakes --------------------------------------------------------------------------------------------------


def uneven() -> Any:
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
    return jax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P("data"), out_specs=P("data"))


def wrong_shapes(w: Any, x: Any) -> Any:
    return x @ w


MISTAKES: dict[str, tuple[Any, tuple[Any, ...], type[JaxprvizError], tuple[str, ...]]] = {
    "not_callable": (X, (X,), TraceError, ("can't be called", "draw(f, x, y)")),
    "missing": (wrong_shapes, (X,), TraceError, ("wrong_shapes(f32[2,3])", "missing 1 required", "'x'")),
    "shapes": (wrong_shapes, (X, X), TraceError, ("in wrong_shapes, line", "return x @ w")),
    "text": (lambda x: "text", (X,), TraceError, ("returns a value of type str", "Return arrays only")),
    "devices_12": (jax.pmap(lambda x: x), (jnp.ones((12, 3)),), DevicesError, ("12", "8", "use_devices(12)")),
    "devices_16": (jax.pmap(lambda x: x), (jnp.ones((16, 3)),), DevicesError, ("16", "8", "use_devices(16)")),
    "devices_jit": (
        jax.jit(lambda x: jax.pmap(lambda x: x * 2)(x)),
        (jnp.ones((16, 3)),),
        DevicesError,
        ("16", "8", "use_devices(16)"),
    ),
    "sizes": (
        jax.pmap(lambda w, x: w * x),
        (X, jnp.ones((4, 2, 3))),
        TraceError,
        ("axis 0 of w has 2", "axis 0 of x has 4", "in_axes=None"),
    ),
    "uneven": (uneven, (jnp.ones((6, 3)),), TraceError, ("6", "4", "'data'", "4 or 8")),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    fn, args, kind, words = MISTAKES[name]
    fn = fn() if fn is uneven else fn
    with pytest.raises(kind) as caught:
        trace(fn, *args)
    text = str(caught.value)
    assert [word for word in words if word not in text] == []
    assert [word for word in ("squeeze", "_fun", "flat_args", "_internal", "jax/_src") if word in text] == []
    assert caught.value.asked and caught.value.wrong and caught.value.remedy
    shown = caught.value.__cause__ or (not caught.value.__suppress_context__ and caught.value.__context__)
    assert not shown


def test_old_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jax, "_VERSION", (0, 6, 1))
    with pytest.raises(VersionError, match=r"JAX 0\.7\.2 and newer"):
        trace(add, X)


def script(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_devices_in_time() -> None:
    code = "import jaxprviz, jax; print(jaxprviz.use_devices(5), jax.device_count(), jaxprviz.use_devices(3))"
    assert script(code) == "5 simulated CPU devices 5 5 simulated CPU devices"


def test_devices_too_late() -> None:
    code = """
import jax, jaxprviz
jax.config.update("jax_num_cpu_devices", 2)
jax.devices()
try:
    jaxprviz.use_devices(8)
except jaxprviz.JaxprvizError as error:
    print(error)
"""
    assert script(code) == (
        "use_devices(8) was asked for 8 devices: JAX has started already, with 2 simulated CPU devices, and counts "
        "its devices only then\nRestart Python (in a notebook: Kernel, Restart) and call use_devices(8) before "
        "anything uses JAX."
    )


def test_devices_that_the_environment_sets() -> None:
    code = """
import jaxprviz
try:
    print(jaxprviz.use_devices(4))
except jaxprviz.JaxprvizError as error:
    print(error)
"""
    flag = "--xla_force_host_platform_device_count="
    assert script(code, XLA_FLAGS=f"{flag}6") == "6 simulated CPU devices"
    assert "Take --xla_force_host_platform_device_count=2 out of XLA_FLAGS" in script(
        code, XLA_FLAGS=f"{flag}2"
    )


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "8"])
def test_devices_that_are_no_number(count: Any) -> None:
    with pytest.raises(DevicesError, match="a whole number from 1 on"):
        jaxprviz.use_devices(count)
