"""Draws what JAX traces: nested jaxprs, captured variables, and how each array lies over the devices.

    import jaxprviz
    jaxprviz.draw(f, w, x)      # the picture; in a notebook it shows itself
    jaxprviz.explain(f, w, x)   # the same in sentences

What JAX's documentation says of the things drawn: https://docs.jax.dev/en/latest/jaxpr.html
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from jaxprviz._check import Report, check
    from jaxprviz._devices import Devices, show_placement, use_devices
    from jaxprviz._draw import draw, explain, same_program
    from jaxprviz._explore import Explorer, explore
    from jaxprviz._figure import Figure
    from jaxprviz._json import from_json, to_json
    from jaxprviz._legend import legend
    from jaxprviz._same import Comparison
    from jaxprviz._trace import trace
    from jaxprviz._values import Values, values
    from jaxprviz.errors import JaxprvizError
    from jaxprviz.program import Program

# Loaded when first used: importing the package must cost little, and drawing a stored program needs no JAX.
_HOMES = {
    "Comparison": "_same",
    "Devices": "_devices",
    "Explorer": "_explore",
    "Figure": "_figure",
    "JaxprvizError": "errors",
    "Program": "program",
    "Report": "_check",
    "Values": "_values",
    "check": "_check",
    "draw": "_draw",
    "explain": "_draw",
    "explore": "_explore",
    "from_json": "_json",
    "legend": "_legend",
    "same_program": "_draw",
    "show_placement": "_devices",
    "to_json": "_json",
    "trace": "_trace",
    "use_devices": "_devices",
    "values": "_values",
}

__all__ = [
    "Comparison",
    "Devices",
    "Explorer",
    "Figure",
    "JaxprvizError",
    "Program",
    "Report",
    "Values",
    "check",
    "draw",
    "explain",
    "explore",
    "from_json",
    "legend",
    "same_program",
    "show_placement",
    "to_json",
    "trace",
    "use_devices",
    "values",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
