"""The titles of frames moved to the left edge of their frames, in the SVG that Graphviz wrote.

Graphviz keeps a title above what its frame holds, but not always at its left edge: a box knows of no frame.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

_START = re.compile(rb'<g id="([^"]*)" class="(node|edge|cluster)"')
_POINTS = re.compile(rb'<(?:path|polygon)[^>]* (?:d|points)="([^"]*)"')
_BLANKS = bytes.maketrans(b",MCZ", b"    ")
"""All that stands between the numbers of Graphviz's paths."""
_TEXT = re.compile(rb'<text[^>]* x="([^"]*)" y="([^"]*)"')

_MARGIN = 9.0
"""Points between the edge of a frame and its title: what Graphviz keeps between a frame and the boxes in it."""

_NEAR = 4.0
"""A title that is no farther from its place is left where it is."""

_CLEAR = 6.0
_HEIGHT = 14.0
_STEPS = 12

_Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def titles_left(svg: bytes) -> bytes:
    """Moves the title of each frame to the frame's left edge, or to what is drawn in between.

    Args:
        svg: what Graphviz wrote for a picture of a program: the title of frame `s_0` is the box `ts_0`.
    """
    groups = list(_groups(svg))
    frames = {group.name: group for group in groups if group.kind == "cluster"}
    moved: list[tuple[int, bytes]] = []
    for group in groups:
        frame = frames.get(group.name[1:])
        if group.kind != "node" or not group.name.startswith("t") or frame is None:
            continue
        texts = [(float(x), float(y)) for x, y in _TEXT.findall(group.text)]
        around = _bounds(_numbers(frame.text))
        if not texts or around is None:
            continue
        left = min(x for x, _ in texts)
        shift = around[0] + _MARGIN - left
        if shift > -_NEAR:
            continue
        area = (left + shift, min(y for _, y in texts) - _HEIGHT, left, max(y for _, y in texts) + 3)
        taken = [x + _CLEAR for other in groups if other is not group for x in _meets(other, area)]
        shift = max([around[0] + _MARGIN, *taken]) - left
        if shift <= -_NEAR:
            moved.append((group.end, f' transform="translate({shift:.2f} 0)"'.encode()))
    for end, text in reversed(moved):
        svg = svg[:end] + text + svg[end:]
    return svg


@dataclass(frozen=True, slots=True)
class _Group:
    """A box, a line or a frame in the SVG.

    Attributes:
        name: its id.
        kind: `"node"`, `"edge"` or `"cluster"`.
        end: where its first tag could have one more attribute.
        text: what it is drawn with.
    """

    name: str
    kind: str
    end: int
    text: bytes


def _groups(svg: bytes) -> Iterator[_Group]:
    starts = list(_START.finditer(svg))
    for start, following in itertools.zip_longest(starts, starts[1:]):
        end = len(svg) if following is None else following.start()
        yield _Group(start[1].decode(), start[2].decode(), start.end(), svg[start.end() : end])


def _numbers(group: bytes) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for points in _POINTS.findall(group):
        numbers = list(map(float, points.translate(_BLANKS).split()))
        found += zip(numbers[::2], numbers[1::2], strict=True)
    return found


def _bounds(points: list[tuple[float, float]]) -> _Box | None:
    if not points:
        return None
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _meets(group: _Group, area: _Box) -> Iterator[float]:
    """How far right a box or a line reaches that is drawn in an area; frames are drawn around it."""
    if group.kind == "cluster":
        return
    points = _numbers(group.text)
    bounds = _bounds(points)
    # A Bézier curve stays within the bounds of its points.
    if bounds is None or not _overlap(bounds, area):
        return
    if group.kind == "node":
        yield bounds[2]
    else:
        yield from (x for x, y in _along(points) if _overlap((x, y, x, y), area))


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _along(points: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Points along a line of Bézier curves."""
    for at in range(0, len(points) - 3, 3):
        corners = points[at : at + 4]
        for step in range(_STEPS + 1):
            share = step / _STEPS
            rest = 1 - share
            weights = (rest**3, 3 * rest**2 * share, 3 * rest * share**2, share**3)
            yield (
                sum(weight * x for weight, (x, _) in zip(weights, corners, strict=True)),
                sum(weight * y for weight, (_, y) in zip(weights, corners, strict=True)),
            )
