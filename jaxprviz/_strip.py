"""Device strips: one cell a device, that tells which part of an array it holds.

A mesh of one axis is a row; of two axes a grid, its rows and columns named; of more axes a grid whose rows
run over all axes but the last.  Long ones are shortened in the middle.  Cells that hold the same part have
the same tint and the same digits, `:` is the whole array.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from jaxprviz import _style
from jaxprviz._facts import Layout
from jaxprviz._label import escape, sized
from jaxprviz._style import Hue

MAX_CELLS = 16
_MAX_SIDE = 8
_SKIP = "…"

Block = tuple[int | None, ...]


def strip(layout: Layout, hue: Hue) -> str:
    """The strip of one array as an HTML-like table: one cell for each position along the axes that are known.

    Args:
        layout: how the array lies over the devices; cells hold `?` where that is not known.
        hue: its tints.
    """
    layout = layout.manual
    axes = layout.mesh.axes or (("", 1),)
    blocks = layout.blocks()
    *outer, (column_name, columns) = axes
    rows = math.prod(size for _, size in outer)
    cells = [_cell(block, layout, hue) for block in blocks] if blocks else [_unknown()] * (rows * columns)
    if not outer:
        return _table(
            [_joined([cells[at] if at is not None else _gap() for at in _kept(columns, MAX_CELLS)])]
        )
    side = MAX_CELLS if rows * columns <= MAX_CELLS else 4
    shown_columns = _kept(columns, _MAX_SIDE if rows * columns <= MAX_CELLS else side)
    shown_rows = _kept(rows, _MAX_SIDE if rows * columns <= MAX_CELLS else side)
    row_name = " × ".join(name for name, _ in outer)
    grid = [
        f"<TD></TD>{_head(f'{column_name} →', len(shown_columns))}",
    ]
    for number, row in enumerate(shown_rows):
        line = [
            _gap() if row is None or column is None else cells[row * columns + column]
            for column in shown_columns
        ]
        name = _side(f"{row_name} ↓", len(shown_rows)) if number == 0 else ""
        grid.append(name + _joined(line))
    return _table(grid)


def _kept(count: int, limit: int) -> list[int | None]:
    """Which of `count` cells are shown; None is the gap where some are left out."""
    if count <= limit:
        return list(range(count))
    head = limit - 2
    return [*range(head), None, count - 1]


def _cell(block: Block, layout: Layout, hue: Hue) -> str:
    parts = layout.parts or ()
    split = [(index, part) for index, part in zip(block, parts, strict=True) if index is not None]
    if not split:
        return _td(hue.whole, _style.TEXT, ":")
    place = 0
    for index, part in split:
        place = place * part + index
    tint, ink = hue.tint(place, math.prod(part for _, part in split))
    return _td(tint, ink, ",".join(str(index) for index, _ in split))


def _td(tint: str, ink: str, text: str) -> str:
    return (
        f'<TD BGCOLOR="{tint}" BORDER="1" COLOR="white" WIDTH="22">'
        f'<FONT POINT-SIZE="{_style.TINY}" COLOR="{ink}">{text}</FONT></TD>'
    )


def _unknown() -> str:
    return _td("#EEEEEE", _style.GREY, "?")


def _gap() -> str:
    return f'<TD WIDTH="14">{sized(_SKIP, _style.TINY)}</TD>'


def _head(text: str, columns: int) -> str:
    return f'<TD COLSPAN="{columns}" ALIGN="LEFT">{_name(text)}</TD>'


def _side(text: str, rows: int) -> str:
    return f'<TD ROWSPAN="{rows}" VALIGN="TOP">{_name(text)}</TD>'


def _name(text: str) -> str:
    return f'<FONT POINT-SIZE="{_style.TINY}" COLOR="{_style.GREY}">{escape(text, 24)}</FONT>'


def _joined(cells: Sequence[str]) -> str:
    return "".join(cells)


def _table(rows: Sequence[str]) -> str:
    inner = "".join(f"<TR>{row}</TR>" for row in rows)
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2">{inner}</TABLE>'


def entering(layout: Layout) -> tuple[str, ...]:
    """What the boundary does to an array on its way to the devices, as clauses without the local type."""
    if layout.parts is None:
        return ("placement unknown",)
    known, left = layout.manual, _left_to_compiler(layout)
    split = _splits(known)
    if not split and not left:
        return ("copied whole",)
    copied = (_copied(known),) if _spare(known) else ()
    return (*split, *copied, *left)


def leaving(layout: Layout, *, stacked: bool) -> tuple[str, ...]:
    """How the parts of all devices become one array again.

    Args:
        layout: how the whole lies over the devices.
        stacked: True where each device's block gets its place on a new axis (pmap), False where blocks are
            put together along an axis that they have (shard_map).
    """
    if layout.parts is None:
        return ("placement unknown",)
    left = _left_to_compiler(layout)
    layout = layout.manual
    axes = [axis for axis, names in enumerate(_names(layout)) if names]
    over = _spare(layout)
    if not axes:
        return (f"one copy taken{f' over {over}' if over and left else ''}", *left)
    verb = "stacked" if stacked else "joined"
    word = f"{verb} along {'axis' if len(axes) == 1 else 'axes'} {' and '.join(map(str, axes))}"
    return (word, *((f"one copy taken over {over}",) if over else ()), *left)


def _left_to_compiler(layout: Layout) -> tuple[str, ...]:
    axes = " × ".join(_axis(layout, name) for name in layout.free)
    return (f"over {axes} as the compiler decides",) if axes else ()


def _names(layout: Layout) -> tuple[tuple[str, ...], ...]:
    spec = layout.spec or ()
    return (*spec, *((),) * (len(layout.type.shape) - len(spec)))


def _axis(layout: Layout, name: str) -> str:
    return f"{name}={layout.mesh.length(name)}" if name else ""


def _splits(layout: Layout) -> tuple[str, ...]:
    found = []
    for axis, names in enumerate(_names(layout)):
        if names:
            by = " × ".join(filter(None, (_axis(layout, name) for name in names)))
            found.append(f"axis {axis} split{f' by {by}' if by else ''}")
    return tuple(found)


def _spare(layout: Layout) -> str:
    """The mesh axes over which the array is copied."""
    used = set(itertools.chain.from_iterable(_names(layout)))
    return " × ".join(_axis(layout, name) for name, size in layout.mesh.axes if name not in used and size > 1)


def _copied(layout: Layout) -> str:
    return f"copied over {_spare(layout)}"
