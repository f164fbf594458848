"""Leaves of trees: few are named one by one, of many the tree is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from jaxprviz._words import bytes_text, some_names
from jaxprviz.program import Type

MOST_LEAVES = 12
"""More leaves than this are told by their trees."""

_MOST_NAMES, _MOST_SIGNS = 6, 120
"""Of more names in one sentence, or of longer ones in all, only the trees are named."""

_TREE = re.compile(r"result(\[\d+\])?|[^.\[]+")
"""What a leaf's name begins with: the argument, or which one of the results, that it is a part of."""

_UNNAMED = re.compile(r"the result(?: \d+)? of (.*)")
"""What is called by the equation that made it."""

T = TypeVar("T")


def tree_of(name: str) -> str:
    """The tree that a leaf is in: `"params"` of `"params['w']"`, `"result[0]"` of `"result[0]['w']"`."""
    unnamed = _UNNAMED.fullmatch(name)
    if unnamed:
        return f"results of {unnamed.group(1)}"
    found = _TREE.match(name)
    return found.group() if found else name


def arrays_text(kinds: Sequence[Type]) -> str:
    """How many arrays, and their bytes in all where these are known: `"6 arrays, 9,024 bytes"`."""
    return f"{len(kinds)} arrays{sum_text(', ', [kind.nbytes for kind in kinds])}"


def sum_text(before: str, sizes: Sequence[int | None]) -> str:
    """The sum of sizes in bytes with what stands before it; empty where one is not known."""
    known = [size for size in sizes if size is not None]
    return f"{before}{bytes_text(sum(known))}" if len(known) == len(sizes) else ""


def tree_names(names: Sequence[str]) -> str:
    """Names; of many those of one tree together: `"c (19 arrays), x"`."""
    different = list(dict.fromkeys(names))
    together = ", ".join(different)
    if len(different) <= _MOST_NAMES and len(together) <= _MOST_SIGNS:
        return together
    trees: dict[str, list[str]] = {}
    for name in different:
        trees.setdefault(tree_of(name), []).append(name)
    return some_names(
        held[0] if len(held) == 1 else f"{tree} ({len(held)} arrays)" for tree, held in trees.items()
    )


def leaves_text(leaves: Sequence[tuple[str, Type]]) -> str:
    """Arguments or results with their types: `"w: f32[4], x: f32[2,4]"`; of many each tree's size instead."""
    if len(leaves) <= MOST_LEAVES:
        return ", ".join(f"{name}: {kind.short}" for name, kind in leaves)
    return ", ".join(
        f"{tree_of(held[0][0])}: {arrays_text([kind for _, kind in held])}"
        if len(held) > 1
        else f"{held[0][0]}: {held[0][1].short}"
        for held in grouped(leaves, lambda leaf: tree_of(leaf[0]))
    )


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[list[T]]:
    """Those of the same key together, in the order of the first of each."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    yield from groups.values()


def part_text(names: Sequence[str], kinds: Sequence[Type], whole: int) -> str:
    """Leaves of one tree: `"params, 6 arrays, 9,024 bytes"`, or `"params, 2 of 6 arrays (...), 80 bytes"`.

    Args:
        names: those of the leaves, all of the same tree.
        kinds: their types.
        whole: how many leaves the tree has in all.
    """
    tree = tree_of(names[0])
    if len(names) == whole:
        return f"{tree}, {arrays_text(kinds)}"
    size = sum_text(", ", [kind.nbytes for kind in kinds])
    return f"{tree}, {len(names)} of {whole} arrays ({some_names(names, most=3)}){size}"
