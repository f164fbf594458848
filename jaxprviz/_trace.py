"""From a function and example arguments to a `Program`: the one place that calls `jax.make_jaxpr`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxprviz import _jax
from jaxprviz._mistakes import explained, too_many_devices
from jaxprviz._names import name_of, reachable_arrays
from jaxprviz._read import read
from jaxprviz.errors import TraceError
from jaxprviz.program import Program


def trace(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Program:
    """Traces a function and reads what JAX traced; nothing of it is run.

    Args:
        fn: any callable: a function, lambda, partial, bound method, callable object, or what `jax.jit`,
            `jax.pmap`, `jax.grad` and the like return.
        *args: example arguments: arrays, `jax.ShapeDtypeStruct`, numbers, and trees of them.  Only shapes and
            types count.  What is no array and no number (a string, a function, an object that is no tree) is
            passed to `fn` as it is, and so are the static arguments of a jitted function.
        **kwargs: the same by keyword.

    Returns:
        The program, as JAX holds it: `draw` and `explain` fold the pair that is a pmap on newer JAX to a
        `pmap`.

    Raises:
        TraceError: `fn` can't be called, or it (or JAX) refuses the arguments.  `error.original` is the
            exception.
        DevicesError: the program wants more devices than there are.
        VersionError: this JAX is too old.
    """
    _jax.require_supported()
    if not callable(fn):
        raise TraceError(
            f"jaxprviz was asked to trace {_shortened(repr(fn))}",
            f"a value of type {type(fn).__name__} can't be called",
            "Pass the function itself and then its arguments: draw(f, x, y), not draw(f(x, y)).",
        )
    asked = f"jaxprviz was asked to trace {_call_text(fn, args, kwargs)}"
    constant_names = reachable_arrays(fn)
    try:
        with _jax.whole_tracebacks():
            jaxpr = _make_jaxpr(fn, args, kwargs)
    except Exception as error:
        problem = explained(error, asked)
        if isinstance(problem, TraceError):
            problem.original = error
        raise problem from None
    program = read(jaxpr, name_of(fn), constant_names)
    _require_devices(program, asked)
    return program


def _make_jaxpr(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    static = {place for place, value in _places(args, kwargs) if not _is_dynamic(value)}
    static |= _declared_static(fn, args, kwargs)
    try:
        return _make_jaxpr_of_rest(fn, args, kwargs, static)
    except ValueError as error:
        # A pmapped function tells its static arguments only by refusing to have them traced.
        refused = _TRACED_STATIC.search(str(error))
        if refused is None or int(refused["place"]) in static:
            raise
        static.add(int(refused["place"]))
    return _make_jaxpr_of_rest(fn, args, kwargs, static)


_TRACED_STATIC = re.compile(r"Static argument \(index (?P<place>\d+)\) of type .*Tracer")


def _make_jaxpr_of_rest(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], static: set[Place]
) -> Any:
    if not static:
        return jax.make_jaxpr(fn)(*args, **kwargs)
    return jax.make_jaxpr(_closed_over(fn, args, kwargs, static))(
        *(value for place, value in enumerate(args) if place not in static),
        **{name: value for name, value in kwargs.items() if name not in static},
    )


Place = int | str
"""An argument by its position or by its keyword."""


def _places(args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[Place, Any]]:
    return [*enumerate(args), *kwargs.items()]


def _is_dynamic(value: Any) -> bool:
    """Whether an argument is traced: a tree whose leaves, if it has any, are arrays and numbers."""
    return all(_jax.is_array(leaf) for leaf in jax.tree.leaves(value))


def _declared_static(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[Place]:
    """The arguments that a jitted or pmapped function declares static.

    JAX tells them only indirectly: they are missing from the names of what it traces.
    """
    values = [
        (place, value) for place, value in _places(args, kwargs) if isinstance(value, (bool, int, str, tuple))
    ]
    if not values:
        return set()
    names = _traced_names(fn, args, kwargs)
    if names is None:
        return set()
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return set()  # no signature, or arguments that do not fit it: JAX will say so
    positional = list(bound.signature.parameters)[: len(args)]
    return {
        place
        for place, _ in values
        if (positional[place] if isinstance(place, int) and place < len(positional) else place) not in names
    }


def _traced_names(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[str] | None:
    """The names of the arguments that JAX traces of a jitted function; None for other callables."""
    if not (hasattr(fn, "trace") and hasattr(fn, "lower")):
        return None
    names = _jax.arg_names(_jax.open_jaxpr(fn.trace(*args, **kwargs).jaxpr))
    return {name.split("[")[0].split(".")[0] for name in names if name}


def _closed_over(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], static: set[Place]
) -> Callable[..., Any]:
    """`fn` as a function of its other arguments only."""

    def call(*dynamic: Any, **named: Any) -> Any:
        left = iter(dynamic)
        positional = [value if place in static else next(left) for place, value in enumerate(args)]
        fixed = {name: value for name, value in kwargs.items() if name in static}
        return fn(*positional, **fixed, **named)

    functools.update_wrapper(call, fn, updated=())
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return call
    kept = [
        parameter
        for place, (name, parameter) in enumerate(signature.parameters.items())
        if place not in static and name not in static
    ]
    call.__signature__ = signature.replace(parameters=kept)  # pyright: ignore[reportFunctionMemberAccess]
    return call


def _require_devices(program: Program, asked: str) -> None:
    """JAX 0.7 traces a pmap over more devices than there are, and fails only when it runs."""
    for body in program.bodies:
        for equation in body.equations:
            if (
                equation.primitive == "pmap"
                and equation.device
                and equation.device.mesh.size > program.devices
            ):
                raise too_many_devices(
                    asked, equation.name or "the function", equation.device.mesh.size, program.devices
                )


def _call_text(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    parts = [_value_text(value) for value in args] + [
        f"{name}={_value_text(value)}" for name, value in kwargs.items()
    ]
    return f"{name_of(fn)}({_shortened(', '.join(parts))})"


def _value_text(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _jax.read_type(jax.ShapeDtypeStruct(value.shape, value.dtype)).short
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return _shortened(repr(value), 40)
    return type(value).__name__


def _shortened(text: str, longest: int = 200) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
