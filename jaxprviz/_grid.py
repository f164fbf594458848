"""Pictures of one array on its devices: one cell a device, that says which slice it holds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from jaxprviz import _label, _style
from jaxprviz._facts import Layout
from jaxprviz._text import one_line
from jaxprviz._words import bytes_text, layout_text
from jaxprviz.program import Mesh

_MOST_ROWS, _MOST_COLUMNS = 8, 8

Bounds = tuple[tuple[int, int], ...]
"""For each axis of an array the first element that a device holds and the one after the last."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Which slice of an array each device holds.

    Attributes:
        name: what the array is called.
        type: its type, as text (`f32[4,2,3]`).
        shape: its shape.
        itemsize: bytes of one element; None where it has no fixed size.
        summary: how it lies over the devices, in words.
        axes: the names of the mesh axes that the rows and the columns of `devices` run along; empty without
            a mesh.
        devices: the names of the devices, row by row.
        bounds: what each of them holds, in the same order.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    itemsize: int | None
    summary: str
    axes: tuple[str, ...]
    devices: tuple[tuple[str, ...], ...]
    bounds: tuple[tuple[Bounds, ...], ...]

    def slice_text(self, bounds: Bounds) -> str:
        """A slice as Python writes it: `x[0:1, :]`."""
        parts = [
            ":" if (start, stop) == (0, size) else f"{start}:{stop}"
            for (start, stop), size in zip(bounds, self.shape, strict=True)
        ]
        name = one_line(self.name)
        return f"{name}[{', '.join(parts)}]" if parts else name

    def text(self) -> str:
        """The same in sentences, one device a line."""
        lines = [f"{one_line(self.name)} {self.type}: {self.summary}."]
        for names, row in zip(self.devices, self.bounds, strict=True):
            lines += [
                f"  {name} holds {self.slice_text(bounds)}{self._size(bounds)}"
                for name, bounds in zip(names, row, strict=True)
            ]
        return "\n".join(lines)

    def _size(self, bounds: Bounds) -> str:
        if self.itemsize is None:
            return ""
        count = self.itemsize
        for start, stop in bounds:
            count *= stop - start
        return f", {bytes_text(count)}"


def grid_of_layout(layout: Layout, name: str, *, part: bool = False) -> Grid:
    """The grid of a variable of a program.  The layout is known, and so are the sizes of its array.

    Args:
        layout: how the variable lies.
        name: what it is called.
        part: whether the mesh is only a part of the devices: then each cell is told by its place in the mesh.
    """
    blocks, parts = layout.blocks(), layout.parts
    assert blocks is not None
    assert parts is not None
    shape = tuple(int(size) for size in layout.type.shape)
    bounds = [
        tuple(
            (0, size) if index is None else (index * size // part, (index + 1) * size // part)
            for index, size, part in zip(block, shape, parts, strict=True)
        )
        for block in blocks
    ]
    names = _places(layout.mesh) if part else _devices(layout.mesh)
    axes = tuple(axis for axis, _ in layout.mesh.axes)
    columns = layout.mesh.axes[-1][1] if len(axes) > 1 else len(bounds)
    return Grid(
        name,
        layout.type.short,
        shape,
        layout.type.itemsize,
        layout_text(layout),
        axes,
        *in_rows(names, bounds, columns),
    )


def _devices(mesh: Mesh) -> list[str]:
    return [f"device {number}" for number in mesh.ids or range(mesh.size)]


def _places(mesh: Mesh) -> list[str]:
    """What tells each device of a mesh from the others: `"data=0, model=1"`."""
    places = itertools.product(*(range(size) for _, size in mesh.axes))
    return [
        ", ".join(f"{name}={at}" for (name, _), at in zip(mesh.axes, place, strict=True)) for place in places
    ]


def in_rows(
    names: Sequence[str], bounds: Sequence[Bounds], columns: int
) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[Bounds, ...], ...]]:
    """Devices and what they hold, in rows of `columns`."""
    starts = range(0, len(names), columns)
    return (
        tuple(tuple(names[start : start + columns]) for start in starts),
        tuple(tuple(bounds[start : start + columns]) for start in starts),
    )


def grid_dot(grids: Sequence[Grid]) -> str:
    """The picture of one or several grids, one below the other, as DOT text."""
    rows = "".join(f'<TR><TD ALIGN="LEFT">{_table(grid)}</TD></TR>' for grid in grids)
    table = f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="6">{rows}</TABLE>'
    look = {**_style.NODES[_style.Look.TABLE], "label": f"<{table}>"}
    lines = (
        "digraph placement {",
        f"  graph [{_label.attributes(_style.GRAPH)}]",
        f"  node [{_label.attributes(_style.NODE)}]",
        f"  grids [{_label.attributes(look)}]",
        "}",
    )
    return "\n".join(lines) + "\n"


def _table(grid: Grid) -> str:
    distinct = sorted({bounds for row in grid.bounds for bounds in row})
    whole = len(distinct) == 1
    rows = _kept(len(grid.devices), _MOST_ROWS)
    columns = _kept(len(grid.devices[0]), _MOST_COLUMNS)
    *downwards, across = grid.axes or ("",)
    down = " × ".join(downwards)
    head = (
        f'<TR><TD COLSPAN="{len(columns) + bool(down)}" ALIGN="LEFT">{_label.bold(grid.name)}{_label.GAP}'
        f"{_label.grey(grid.type)}{_label.GAP * 2}"
        f"{_label.sized(_label.escape(grid.summary, 90), _style.SMALL)}</TD></TR>"
    )
    if across:
        corner = "<TD></TD>" if down else ""
        name = _axis(f"{across} →")
        head += f'<TR>{corner}<TD COLSPAN="{len(columns)}" ALIGN="LEFT">{name}</TD></TR>'
    body = []
    for place, row in enumerate(rows):
        side = _axis(f"{down} ↓") if place == 0 and down else ""
        first = f'<TD VALIGN="TOP">{side}</TD>' if down else ""
        cells = "".join(_cell(grid, row, column, distinct, whole) for column in columns)
        body.append(f"<TR>{first}{cells}</TR>")
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="4" CELLPADDING="3">{head}{"".join(body)}</TABLE>'


def _cell(grid: Grid, row: int | None, column: int | None, distinct: list[Bounds], whole: bool) -> str:
    if row is None or column is None:
        return '<TD BORDER="0">…</TD>'
    if column >= len(grid.devices[row]):
        return "<TD></TD>"
    bounds = grid.bounds[row][column]
    hue = _style.HUE_IN
    tint, ink = (hue.whole, _style.TEXT) if whole else hue.tint(distinct.index(bounds), len(distinct))
    name = _label.sized(f'<FONT COLOR="{ink}">{_label.escape(grid.devices[row][column])}</FONT>', _style.TINY)
    held = f'<FONT COLOR="{ink}"><B>{_label.escape(grid.slice_text(bounds))}</B></FONT>'
    return f'<TD BORDER="1" COLOR="{_style.GREY}" BGCOLOR="{tint}" CELLPADDING="5">{name}<BR/>{held}</TD>'


def _axis(text: str) -> str:
    return _label.sized(_label.grey(text), _style.SMALL)


def _kept(count: int, most: int) -> list[int | None]:
    """Which of `count` rows or columns are shown; None is the gap where some are left out."""
    return list(range(count)) if count <= most else [*range(most - 2), None, count - 1]


def parts_text(bounds: Sequence[Bounds]) -> str:
    """How an array without a mesh lies over the devices."""
    if len(bounds) == 1:
        return "whole on one device"
    parts = len(set(bounds))
    return (
        f"copied whole to {len(bounds)} devices"
        if parts == 1
        else f"in {parts} parts on {len(bounds)} devices"
    )


def bounds_of(index: tuple[slice, ...], shape: tuple[int, ...]) -> Bounds:
    """First index and the one behind the last, along each axis, of a part of an array."""
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))
