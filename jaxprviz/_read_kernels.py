"""What a kernel says about its grid, and what the host is asked to run."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from jaxprviz import _jax
from jaxprviz.program import Block, Kernel

_LETTERS = "ijklmn"


def index_kernel(equation: Any) -> Kernel:
    """The grid and the blocks of a `pallas_call`."""
    mapping = equation.params["grid_mapping"]
    grid = tuple(int(size) if isinstance(size, int) else "dynamic" for size in mapping.grid)
    blocks = [_block(block, len(grid)) for block in mapping.block_mappings]
    whole = (None,) * (len(equation.invars) + len(equation.outvars) - len(blocks))  # what steers the grid
    return Kernel(grid, (*whole, *blocks))


def _block(block: Any, steps: int) -> Block | None:
    """One block; None where it is the whole array in each step."""
    shape = tuple(map(_size, block.block_shape))
    jaxpr = _jax.open_jaxpr(block.index_map_jaxpr)
    array = getattr(block, "array_aval", None) or getattr(block, "array_shape_dtype", None)
    space = _space(block)
    still = all(_jax.is_literal(atom) and atom.val == 0 for atom in jaxpr.outvars)
    if still and space is None and array is not None and shape == tuple(array.shape):
        return None
    return Block(shape, _index_text(jaxpr, steps, tuple(block.block_shape)), space)


def _size(size: Any) -> int | None:
    """The size of a block along one axis; None where the axis is taken away.  Its type differs between versions."""
    for name in ("block_size", "size"):
        if hasattr(size, name):
            return int(getattr(size, name))
    return int(size) if isinstance(size, int) else None


def _space(block: Any) -> str | None:
    """The memory of a block; None where the program leaves it open."""
    aval = getattr(block, "transformed_block_aval", None) or getattr(block, "block_aval", None)
    space = getattr(aval, "memory_space", None)
    text = str(getattr(space, "value", space)).lower()
    return None if space is None or text in ("default", "any", "none") else text


# --- which block --------------------------------------------------------------------------------------------


def _index_text(jaxpr: Any, steps: int, sizes: Sequence[Any]) -> str | None:
    """The index map as text in the grid's letters; None where it does more than this can spell."""
    if steps > len(_LETTERS):
        return None
    names = _jax.arg_names(jaxpr)
    known: dict[int, str] = {}
    for place, var in enumerate(jaxpr.invars):
        known[id(var)] = (
            _LETTERS[place] if place < steps else (names[place] or f"operand {place - steps + 1}")
        )
    texts = _outputs(jaxpr, known)
    if texts is None:
        return None
    if len(texts) == len(sizes):  # of an axis that is not counted in blocks, the first element
        texts = [
            f"from {text}" if type(size).__name__ in ("Element", "BoundedSlice") else text
            for text, size in zip(texts, sizes, strict=True)
        ]
    return f"({', '.join(map(_bare, texts))}{',' if len(texts) == 1 else ''})"


def _outputs(jaxpr: Any, known: dict[int, str]) -> list[str] | None:
    for equation in jaxpr.eqns:
        operands = [_text(atom, known) for atom in equation.invars]
        text = None if None in operands else _spelled(equation, [str(text) for text in operands])
        if text is None or len(equation.outvars) != 1:
            return None
        known[id(equation.outvars[0])] = text
    texts = [_text(atom, known) for atom in jaxpr.outvars]
    return None if None in texts else [str(text) for text in texts]


def _text(atom: Any, known: Mapping[int, str]) -> str | None:
    if not _jax.is_literal(atom):
        return known.get(id(atom))
    return str(int(atom.val)) if getattr(atom.val, "ndim", 0) == 0 else None


_SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
_CALLS = {"max": "max", "min": "min", "rem": "rem", "div": "div"}
_JITTED = {"floor_divide": "//", "remainder": "%"}


def _spelled(equation: Any, operands: list[str]) -> str | None:
    """One equation as text."""
    name = equation.primitive.name
    if name in ("convert_element_type", "copy") or (name == "get" and len(operands) == 0):
        return operands[0]
    if name == "get" and len(operands) > 1:
        return f"{operands[0]}[{', '.join(map(_bare, operands[1:]))}]"
    sign = _SIGNS.get(name)
    if name in ("jit", "pjit"):
        sign = _JITTED.get(str(equation.params.get("name")))
    if sign is not None and len(operands) == 2:
        return f"({operands[0]} {sign} {operands[1]})"
    if name in _CALLS:
        return f"{_CALLS[name]}({', '.join(map(_bare, operands))})"
    return f"(-{operands[0]})" if name == "neg" else None


def _bare(text: str) -> str:
    """A text without the brackets around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


# --- the host -----------------------------------------------------------------------------------------------


def host_function(callback: Any) -> str | None:
    """The name of the function that a callback runs on the host; None when it has none of the user's."""
    for _ in range(8):  # JAX wraps it a few times, each time otherwise
        inner = _wrapped(callback)
        if inner is None:
            break
        callback = inner
    name = getattr(callback, "__name__", None)
    return name if isinstance(name, str) and not _jax.is_of_jax(callback) else None


def _wrapped(callback: Any) -> Any:
    """The function inside a callback of JAX's, or inside a partial."""
    if isinstance(callback, functools.partial):
        return callback.func
    held = getattr(callback, "callback_func", None)
    if held is not None or not _jax.is_of_jax(callback):
        return held
    code, closure = getattr(callback, "__code__", None), getattr(callback, "__closure__", None)
    cells = dict(zip(getattr(code, "co_freevars", ()), closure or (), strict=False))
    names = ("callback", "callback_func", "fun", "f")
    return next((cells[name].cell_contents for name in names if name in cells), None)
