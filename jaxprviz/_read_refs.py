"""Which part of a mutable reference an equation reads or writes, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprviz import _jax

_FIRST_INDEX = {"get": 1, "swap": 2, "addupdate": 2}
"""For each primitive on references its first operand that is part of an index: the reference stands in front, and
what is written."""


def index_text(equation: Any) -> str | None:
    """The index of an equation that reads or writes a reference: `"0, :"`, `"{2}, :"`, `"..."`.

    Args:
        equation: JAX's equation.

    Returns:
        The index as Python writes it; `{2}` stands for operand 2.  None for an equation of another primitive, and
        for a reference that is seen in another way than by indices.
    """
    name = equation.primitive.name
    if name not in _FIRST_INDEX:
        return None
    first = _FIRST_INDEX[name]
    leaves = [
        str(int(atom.val)) if _jax.is_literal(atom) and getattr(atom.val, "ndim", 0) == 0 else f"{{{place}}}"
        for place, atom in enumerate(equation.invars[first:], first)
    ]
    steps = equation.params["tree"].unflatten(leaves)
    if any(type(step).__name__ != "NDIndexer" for step in steps):
        return None
    return "][".join(_indexer(step.indices, step.shape) for step in steps) or "..."


def _indexer(indices: Sequence[Any], shape: Sequence[int]) -> str:
    texts = [_one(index, size) for index, size in zip(indices, shape, strict=True)]
    return "..." if all(text == ":" for text in texts) else ", ".join(texts)


def _one(index: Any, size: int) -> str:
    """The index along one axis of `size`: a position, or a slice, as the code would write it."""
    if type(index).__name__ != "Slice":
        return str(index)
    start, length, stride = index.start, index.size, index.stride
    if not all(isinstance(part, int) for part in (start, length, stride)):
        step = "" if stride == 1 else f", {stride}"
        return f"ds({start}, {length}{step})"
    if (start, length, stride) == (0, size, 1):
        return ":"
    end = start + (length - 1) * stride + 1
    return f"{start}:{end}" + ("" if stride == 1 else f":{stride}")
