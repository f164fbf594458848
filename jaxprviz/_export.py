"""SVG to PNG and PDF: by vl-convert, which brings its own fonts, or else by Graphviz's own `dot`."""

from __future__ import annotations

import importlib
import math
import re
from types import ModuleType

from jaxprviz._render import render
from jaxprviz.errors import RenderError

PNG_SCALE = 2.0
"""Pixels of a PNG a pixel of the SVG: sharp on dense screens."""

PNG_PIXELS = 40_000_000
"""No PNG has more pixels than this: a large picture is drawn at a smaller scale.  It takes 160 MB to draw."""

PNG_SIDE = 30_000
"""No PNG is wider or taller than this, in pixels: many programs can't open larger ones."""

_SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')

_POINTS_A_PIXEL = 72 / 96


def to_png(svg: str, dot: str) -> bytes:
    """A picture as PNG, at `PNG_SCALE` or as large as `PNG_PIXELS` and `PNG_SIDE` allow.

    Args:
        svg: the picture, as `dress` made it.
        dot: the text that it was drawn from.

    Raises:
        RenderError: nothing that makes a PNG is installed, or it failed.
    """
    scale = png_scale(svg)
    converter = _vl_convert()
    if converter is None:
        return render(dot, "png", dpi=max(1, math.floor(96 * scale)))
    try:
        return converter.svg_to_png(svg, scale=scale)
    except ValueError as error:
        raise _failed("PNG", error) from None


def to_pdf(svg: str, dot: str) -> bytes:
    """A picture as PDF, in the size that Graphviz laid it out in; its text is text.

    Args and errors are those of `to_png`.
    """
    converter = _vl_convert()
    if converter is None:
        return render(dot, "pdf")
    try:
        return converter.svg_to_pdf(_SIZE.sub(_in_points, svg, count=1))
    except ValueError as error:
        raise _failed("PDF", error) from None


def png_scale(svg: str) -> float:
    """The scale at which a picture is drawn as PNG.  Raises ValueError when `svg` is not from `dress`."""
    size = _SIZE.search(svg)
    if size is None:
        raise ValueError("not a picture of dress: it has no size")
    width, height = (max(1.0, float(number)) for number in size.groups())
    return min(PNG_SCALE, math.sqrt(PNG_PIXELS / (width * height)), PNG_SIDE / max(width, height))


def _in_points(size: re.Match[str]) -> str:
    """The size of the picture as numbers of points: vl-convert takes one unit for one point."""
    width, height = (float(number) * _POINTS_A_PIXEL for number in size.groups())
    return f'width="{width:.2f}" height="{height:.2f}"'


def _vl_convert() -> ModuleType | None:
    """The module vl_convert, which is optional; None without it."""
    try:
        return importlib.import_module("vl_convert")
    except ImportError:
        return None


def _failed(fmt: str, error: ValueError) -> RenderError:
    lines = str(error).strip().splitlines()
    return RenderError(
        f"draw the picture as {fmt}",
        f"vl-convert could not convert it ({lines[-1] if lines else 'no reason given'})",
        "Save it as .svg instead.",
    )
