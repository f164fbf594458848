"""What the first lesson uses: a check of everything that the lessons need."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets
import jax

import jaxprviz
from jaxprviz._text import Text
from jaxprviz.errors import JaxprvizError, RenderError


def check_setup() -> Text:
    """Tries everything that the lessons need, and says for each whether it works and, if not, what to do."""
    return Text("\n".join(_tried(what, how) for what, how in _CHECKS.items()))


def _tried(what: str, how: Callable[[], str]) -> str:
    try:
        return f"works   {what}: {how()}"
    except (JaxprvizError, ImportError) as error:
        told = f"{type(error).__name__}: {error}" if isinstance(error, ImportError) else str(error)
        return f"FAILS   {what}: " + told.replace("\n", "\n        ")


def _square(x: jax.Array) -> jax.Array:
    return x * x


def _tracing() -> str:
    program = jaxprviz.trace(_square, _EXAMPLE)
    return f"x * x is {len(program.main.equations)} equation to JAX {program.jax}"


def _picture() -> str:
    figure = jaxprviz.draw(_square, _EXAMPLE)
    if "mul" not in figure.svg:
        raise RenderError("a picture of x * x was asked for", "it does not show the multiplication", _REPORT)
    return "Graphviz drew one"


def _sliders() -> str:
    explorer = jaxprviz.explore(lambda d=3: (_square, (jax.ShapeDtypeStruct((d,), "float32"),)), d=(1, 8))
    explorer.set(d=5)
    if explorer.error is not None or "f32[5]" not in explorer.text:
        raise JaxprvizError("a slider was moved", explorer.error or "the picture did not follow", _REPORT)
    return f"one moved, and its picture followed (ipywidgets {ipywidgets.__version__})"


_EXAMPLE = jax.ShapeDtypeStruct((3,), "float32")

_REPORT = "Restart the kernel and run the cells again; if that does not help, install the lessons anew."

_CHECKS: dict[str, Callable[[], str]] = {
    "tracing": _tracing,
    "devices": lambda: str(jaxprviz.use_devices(8)),
    "pictures": _picture,
    "sliders": _sliders,
}
