"""The words for sizes, placements and bindings that pictures and sentences share."""

from __future__ import annotations

from collections.abc import Iterable

from jaxprviz._facts import Ground, Layout, Place, Spread
from jaxprviz._scope import Origin, Scope
from jaxprviz._spelling import spelled
from jaxprviz._text import one_line
from jaxprviz.program import Atom, Body, Boundary, Equation, Literal, Mesh, Type

CASTS = frozenset({"pvary", "pcast", "pbroadcast", "preduced_type"})
"""Primitives that change how a value is typed over mesh axes, and nothing else."""

CASTS_OF_NUMBERS = CASTS | {"convert_element_type"}
"""What JAX itself does to a number that is written into an equation, before the equation reads it."""

SILENT = CASTS | {"axis_index"}
"""Primitives that name mesh axes and yet send nothing."""

_UNITS = ("kB", "MB", "GB", "TB")


def bytes_text(count: int) -> str:
    """A number of bytes: exact below 100,000, then in units of 1000 to three digits (`"12.3 MB"`)."""
    if count < 100_000:
        return f"{count:,} {'byte' if count == 1 else 'bytes'}"
    size = float(count)
    for unit in _UNITS:
        size /= 1000
        if size < 999.5 or unit == _UNITS[-1]:
            digits = 0 if size >= 99.95 else 1
            return f"{size:.{digits}f} {unit}"
    raise AssertionError("the last unit returns")


def axes_text(mesh: Mesh, names: tuple[str, ...]) -> str:
    """Mesh axes with their sizes: `"data=4, model=2"`; an axis without a name is `"4 devices"`."""
    return ", ".join(
        f"{name}={mesh.length(name)}" if name else f"{mesh.length(name)} devices" for name in names
    )


def mesh_text(mesh: Mesh) -> str:
    """A whole mesh: `"data=4 × model=2"`; `"4 devices"` for the axis of a pmap that has no name."""
    return " × ".join(axes_text(mesh, (name,)) for name, _ in mesh.axes) or "1 device"


def title_of(scope: Scope) -> str:
    """A scope's title on one line."""
    return one_line(scope.title())


def called(equation: Equation) -> str:
    """What an equation is called: the function's name that it goes by, else its primitive as users write it."""
    return equation.name or spelled(equation.primitive)


def backward_text(equation: Equation) -> str | None:
    """`backward`: that an equation is what differentiation made to send cotangents back; None for any other."""
    return "backward" if "transpose" in equation.transforms else None


def marked_title(scope: Scope) -> str:
    """A scope's title, and that it is what differentiation made: `"block (backward)"`."""
    backward = backward_text(scope.equation) if scope.equation is not None else None
    return f"{title_of(scope)} ({backward})" if backward else title_of(scope)


def boundary_text(scope: Scope) -> str:
    """The boundary of a scope: `"pmap g"`, `"while cond"`, `"custom_jvp relu"`, `"scan step (backward)"`."""
    equation, call = scope.equation, scope.call
    if equation is None or call is None:
        return title_of(scope)
    label = f"{spelled(equation.primitive)} {call.label}".strip()
    if title_of(scope) != label:
        return f"{label} {marked_title(scope)}"
    return marked_title(scope)


def is_outermost_jit(scope: Scope) -> bool:
    """Whether a scope is the jit that is the whole program: with its arguments, and without captures."""
    parent, call = scope.parent, scope.call
    return (
        parent is not None
        and call is not None
        and not any(call.captured)
        and parent.parent is None
        and len(parent.body.equations) == 1
        and parent.body.equations[0].primitive in ("jit", "pjit")
        and parent.body.equations[0].operands == parent.body.inputs
    )


def devices_text(count: int) -> str:
    return f"{count} device" if count == 1 else f"{count} devices"


def layout_text(layout: Layout) -> str:
    """How an array lies over the devices: `"axis 0 split by data=4, copied over model=2"`."""
    if layout.spec is None:
        return "placement not known"
    if layout.mesh.size == 1:
        return "whole on the one device"
    split = [(axis, names) for axis, names in enumerate(layout.spec) if names]
    used = {name for _, names in split for name in names}
    sums = layout.unreduced
    whole = tuple(
        name for name, _ in layout.mesh.axes if not (name in used or name in layout.free or name in sums)
    )
    parts = [_split_text(layout.mesh, axis, names) for axis, names in split]
    if sums:
        parts.append(f"a sum over {axes_text(layout.mesh, sums)} that is not made yet")
    if not split and not layout.free and not sums:
        parts.append(f"copied whole to {devices_text(layout.mesh.size)}")
    elif whole:
        parts.append(f"copied over {axes_text(layout.mesh, whole)}")
    if layout.free:
        parts.append(f"over {axes_text(layout.mesh, layout.free)} as the compiler decides")
    return ", ".join(parts)


def _split_text(mesh: Mesh, axis: int, names: tuple[str, ...]) -> str:
    if names == ("",):
        return f"axis {axis} split over {devices_text(mesh.length(''))}"
    return f"axis {axis} split by {axes_text(mesh, names)}"


def place_text(place: Place) -> str:
    """Where an array lies outside of device scopes: as `layout_text`, or `"decided by the compiler"`."""
    if place.ground is Ground.COMPILER or place.layout is None:
        return "decided by the compiler"
    return layout_text(place.layout)


def spread_text(spread: Spread) -> str:
    """How a value differs inside a device scope: `"can differ over data, the same on all of model"`.

    Empty outside of device scopes.
    """
    groups = (
        ("can differ", "over", tuple(name for name in spread.axes if name in spread.varying)),
        (
            "not known whether it differs",
            "over",
            tuple(name for name in spread.axes if name in spread.unknown),
        ),
        ("the same", "on all of", spread.same),
    )
    return ", ".join(_along_text(*group) for group in groups if group[2])


def _along_text(what: str, way: str, names: tuple[str, ...]) -> str:
    """The axis of a pmap without a name is told as its devices."""
    named = " and ".join(name for name in names if name)
    unnamed = "on all devices" if way == "on all of" else "from device to device"
    return " ".join(filter(None, (what, f"{way} {named}" if named else unnamed)))


def captured_number(origin: Origin) -> Literal | None:
    """The number that is captured where it is written into the equation around the scope; None otherwise."""
    scope, variable = origin.scope, origin.variable
    outer = scope.outside(variable)
    if not isinstance(outer, Literal) or scope.call is None:
        return None
    return outer if scope.call.captured[scope.body.inputs.index(variable)] else None


def origin_text(origin: Origin) -> str:
    """Where a variable is bound: `"argument w of f"`, `"the result of mul in f (line 3)"`."""
    scope, body, variable = origin.scope, origin.scope.body, origin.variable
    if variable in body.inputs:
        if captured_number(origin) is not None and scope.parent is not None:
            return f"a number written into {title_of(scope.parent)}"
        name = body.input_names[body.inputs.index(variable)]
        which = name if name is not None else f"number {body.inputs.index(variable) + 1}"
        return f"argument {one_line(which)} of {title_of(scope)}"
    for constant in body.constants:
        if constant.variable == variable and constant.leaked:
            return f"a tracer that leaked out of another trace into {title_of(scope)}"
        if constant.variable == variable:
            return f"a constant array baked into {title_of(scope)} when it was traced"
    for equation in body.equations:
        if variable in equation.results:
            what = one_line(called(equation))
            return f"the result of {what} in {title_of(scope)}{line_text(scope, equation)}"
    return f"bound in {title_of(scope)}"


def line_text(scope: Scope, equation: Equation) -> str:
    """The line of an equation, with its file and its function where these are not the program's and the scope's own.

    Returns:
        `" (line 12)"`, `" (line 12, in helper)"`, `" (layers.py:12, in apply)"`; empty where no line is known.
    """
    source, body = equation.source, scope.body
    if source is None:
        return ""
    own = {title_of(scope), body.name, body.source.function if body.source is not None else None}
    elsewhere = source.function not in own and not source.function.startswith("<")
    main = scope.program.main.source
    near = source.file is None or (main is not None and source.file == main.file)
    where = f"line {source.line}" if near else f"{source.file}:{source.line}"
    return f" ({where}{f', in {one_line(source.function)}' if elsewhere else ''})"


def result_name(scope: Scope, variable: int) -> str | None:
    """The name of a variable that is returned: its place in what the program returns, or what it is called."""
    here, returned = scope, variable
    while returned in here.body.outputs:
        place = here.body.outputs.index(returned)
        if here.parent is None or here.call is None or here.equation is None:
            return here.body.output_names[place] or scope.name(variable)
        if place not in here.call.outputs or here.equation.boundary is Boundary.LOOP:
            break  # what a loop returns is the last of its steps, or all of them stacked
        returned, here = here.equation.results[here.call.outputs.index(place)], here.parent
    return scope.name(variable)


def atom_name(scope: Scope, atom: Atom) -> str:
    """What an operand is called: its name, or what made it."""
    if isinstance(atom, Literal):
        return f"the number {atom.text}"
    name = scope.name(atom)
    if name is not None:
        return name
    origin = scope.origin(atom)
    for equation in origin.scope.body.equations:
        if origin.variable in equation.results:
            place = f" {equation.results.index(origin.variable) + 1}" if len(equation.results) > 1 else ""
            return f"the result{place} of {called(equation)}"
    return "an array"


def some_names(names: Iterable[str], most: int = 6) -> str:
    """Names, each once; a longer list ends with how many more there are."""
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - most} more" if len(different) > most else ""
    return ", ".join(different[:most]) + more


def type_of(body: Body, atom: Atom) -> Type:
    """The type of an operand or a result."""
    return body.types[atom] if isinstance(atom, int) else atom.type
