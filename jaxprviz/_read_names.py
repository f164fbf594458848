"""The names that functions give to what is inside and outside of them, read from their code."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jaxprviz import _jax
from jaxprviz._primitives import Held
from jaxprviz.program import Body


def _own_arguments(code: types.CodeType | None) -> tuple[str, ...] | None:
    """The names of a function's own arguments; None when it takes any number of them."""
    if code is None or code.co_flags & 0x0C:  # *args or **kwargs
        return None
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _is_of_a_class(code: types.CodeType) -> bool:
    """Whether a function was defined in a class: what comes first may be bound already."""
    return code.co_qualname.split(".")[-2:-1] not in ([], ["<locals>"])


def closure(code: types.CodeType | None) -> tuple[str, ...] | None:
    """The names by which a function holds what is outside: of a method `self` too; None when not known."""
    if code is None or not _is_of_a_class(code):
        return code.co_freevars if code is not None else None
    return (*code.co_freevars, "self") if code.co_varnames[:1] == ("self",) else None


def looked_up(code: types.CodeType | None) -> tuple[str, ...]:
    """The names that a function's code looks up in its module, attributes included."""
    return code.co_names if code is not None else ()


_OUTER = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_GLOBAL", "LOAD_NAME"})


def parts_read(code: types.CodeType | None) -> tuple[str, ...]:
    """The parts of what is outside that a function, or one in it, names: `"params['w']"`, `"layer.w"`, `"xs[0]"`.

    They are written as JAX writes the names of a tree's leaves.
    """
    return tuple(dict.fromkeys(_parts(code))) if code is not None else ()


def _parts(code: types.CodeType) -> Iterator[str]:
    path, key = "", ""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _OUTER:
            path, key = str(instruction.argval), ""
        elif path and instruction.opname == "LOAD_ATTR":
            path, key = f"{path}.{instruction.argval}", ""
            yield path
        elif path and instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            key = f"[{instruction.argval!r}]"
        elif path and key and _takes_an_item(instruction):
            path, key = f"{path}{key}", ""
            yield path
        else:
            path = key = ""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _parts(constant)


def _takes_an_item(instruction: dis.Instruction) -> bool:
    return (
        instruction.opname == "BINARY_SUBSCR" or instruction.argrepr == "[]"
    )  # the latter from Python 3.14 on


def arguments_after_self(code: types.CodeType | None) -> tuple[str, ...] | None:
    """The names of a function's own arguments without the object that a method is bound to."""
    own = _own_arguments(code)
    if own is None or code is None or not _is_of_a_class(code):
        return own
    return own[1:] if own[:1] == ("self",) else None


def pmap_names(jaxpr: Any, code: types.CodeType | None) -> tuple[str | None, ...]:
    """The names of a pmapped function's inputs: JAX 0.8 and newer call them all `args[k]` or `flat_args[k]`."""
    kept = _jax.arg_names(jaxpr)
    flat = [position for position, name in enumerate(kept) if name]
    own = _own_arguments(code) or ()
    if own[:1] == ("self",) and len(own) == len(flat) + 1:
        own = own[1:]
    names: list[str | None] = [None] * len(kept)
    if len(own) == len(flat):  # otherwise an argument is a tree of arrays, and which is which is not known
        for position, name in zip(flat, own, strict=True):
            names[position] = name
    return tuple(names)


def map_names(jaxpr: Any, code: types.CodeType | None) -> tuple[str | None, ...]:
    """The names of the inputs of a function that `lax.map` calls: JAX calls its one argument `x`."""
    own = arguments_after_self(code) or ()
    return tuple(
        own[0] + name.removeprefix("x") if name and len(own) == 1 else None for name in _jax.arg_names(jaxpr)
    )


def without_guess(body: Body) -> Body:
    """The body of a pmap of JAX 0.7 without what its code seems to tell, where that can be wrong.

    What is copied whole may be an argument, or captured, or an argument of the code that a partial binds.
    """
    return replace(body, closure=body.closure or None, arguments=None)


def old_pmap_captures(equation: Any, body: Held) -> Held:
    """Which inputs of a pmap of JAX 0.7 are captured: captured ones come first and are not mapped.

    Where JAX keeps no names an argument with `in_axes=None` looks just the same: those are not known here.
    """
    if None not in body.captured:
        return body
    axes = equation.params["in_axes"]
    whole = next((position for position, axis in enumerate(axes) if axis is not None), len(axes))
    return replace(body, captured=tuple(None if position < whole else False for position in range(len(axes))))


def name_inside(name: str | None, code: types.CodeType | None) -> str | None:
    """The name of a constant as the code that uses it calls it: `self.w` in a method of the model `m`."""
    root, _, attribute = (name or "").partition(".")
    first = attribute.partition(".")[0].partition("[")[0]
    if code is None or not first or root in (*code.co_freevars, *code.co_names):
        return name
    is_method = code.co_varnames[: min(code.co_argcount, 1)] == ("self",) and first in code.co_names
    return f"self.{attribute}" if is_method else name
