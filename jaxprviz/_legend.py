"""The legend: how to read the pictures, drawn from the tables that the pictures are drawn from."""

from __future__ import annotations

from jaxprviz._figure import Figure
from jaxprviz._key import legend_dot

_TEXT = """\
How to read a picture
  A box with a blue frame is an argument, one with a green frame a result.
  A box with a grey frame is an equation: the primitive, and the type of what it makes.
  A frame around boxes is a scope: a function that is called, with what it is (jit, pmap, scan, ...) and its name.
  A frame with a double border is a device scope: its inside runs once on every device.
  A captured variable is orange, dashed and thick, all the way from where it is bound to where it is used.
  A purple box is a constant array, baked in when the function was traced; a number stands in its equation.
  A strip has one cell a device: ':' where each device holds the whole array, a number where it holds that part.
  A hexagon is a collective: the devices exchange data.  A line says what becomes the same, or different, by it.
  A box with a turned corner is a Python function that runs on the host; one with two pins is code that JAX knows
  nothing of.
  A box that reads or writes `x[...]` works on a mutable reference; a line to what writes has two heads.
  A stacked box is a scope, or a row of equations, that is folded: its path is what `open=` takes."""


def legend() -> Figure:
    """Draws the legend."""
    return Figure(None, legend_dot(), _TEXT, "Legend")
