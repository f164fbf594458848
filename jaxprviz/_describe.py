"""The facts about a program as sentences: what is captured, what is baked in, how arrays lie on devices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from jaxprviz._captures import captures, first_scopes, is_captured
from jaxprviz._facts import Capture, Crossing
from jaxprviz._placement import own_mesh, placement
from jaxprviz._scope import Scope
from jaxprviz._text import one_line
from jaxprviz._words import (
    SILENT,
    axes_text,
    boundary_text,
    bytes_text,
    captured_number,
    devices_text,
    is_outermost_jit,
    layout_text,
    mesh_text,
    origin_text,
    result_name,
    title_of,
)
from jaxprviz.program import Atom, Body, Constant, Equation, Literal, Program, Type

_MOST = 40
"""Sentences of one kind; a longer list ends with how many more there are."""


def describe(program: Program) -> str:
    """The sentences, in sections.

    Args:
        program: with its pmaps folded (`fold_pmaps`).

    Returns:
        Plain text, the same for the same program.
    """
    scopes = list(first_scopes(program))
    unknown = _unknown_lines(scopes)
    sections = [
        ("", _heading_lines(program)),
        ("Captured variables", _capture_lines(scopes, known=not unknown)),
        ("Constants", _constant_lines(scopes)),
        *_placement_sections(scopes),
        ("Outside of the device scopes", _elsewhere_lines(program, scopes)),
        ("What the devices exchange", _collective_lines(scopes)),
        ("Not known", unknown),
    ]
    return "\n\n".join(
        "\n".join(map(one_line, [title, *lines] if title else lines)) for title, lines in sections if lines
    )


def _heading_lines(program: Program) -> list[str]:
    body = program.main
    arguments = ", ".join(
        f"{name or 'argument ' + str(position + 1)}: {body.types[variable].short}"
        for position, (name, variable) in enumerate(zip(body.input_names, body.inputs, strict=True))
    )
    results = ", ".join(
        f"{name or 'result'}: {_type(body, atom)}"
        for name, atom in zip(body.output_names, body.outputs, strict=True)
    )
    count = sum(len(body.equations) for body in program.bodies)
    equations = "1 equation" if count == 1 else f"{count:,} equations"
    title = body.name or "the program"
    return [
        f"{title}({arguments}) -> {results or 'nothing'}",
        f"{equations}{_pmap_note(program)}, traced by JAX {program.jax}.",
    ]


def _pmap_note(program: Program) -> str:
    """How the equations of a pmap are counted: newer JAX writes several for what is one here."""
    count = sum(equation.primitive == "pmap" for body in program.bodies for equation in body.equations)
    return " (each pmap counts as one)" if count > 1 else " (the pmap counts as one)" if count else ""


def _capture_lines(scopes: Iterable[Scope], *, known: bool) -> list[str]:
    """The captures, or that there are none, or (when not of every input it is known) that none is known."""
    found = [capture for scope in scopes for capture in captures(scope)]
    none = "No inner function captures a variable." if known else "None for certain; see Not known below."
    return _listed([_capture_line(capture) for capture in found]) or [f"  {none}"]


def _capture_line(capture: Capture) -> str:
    scope, origin = capture.scope, capture.origin
    kind = scope.body.types[capture.variable].short
    what = "a constant array" if capture.constant else "a variable"
    number = captured_number(origin)
    if number is not None:
        what = f"the number {number.text}"
    name = f"{capture.name} {kind}" if capture.name else f"{what} {kind}"
    through = origin.through if number is None else (origin.scope, *origin.through)
    crossed = [step for step in through if not is_outermost_jit(step)]
    steps = [(text, len(list(same))) for text, same in itertools.groupby(map(boundary_text, crossed))]
    way = ", then ".join(text if count == 1 else f"{text} ({count} levels)" for text, count in steps)
    return f"{title_of(scope)} captures {name}, bound as {origin_text(origin)}; it enters {way}."


def _constant_lines(scopes: Iterable[Scope]) -> list[str]:
    places = {scope.number: scope for scope in reversed(list(scopes))}  # the first place of each body
    arrays, numbers = [], []
    for scope in reversed(places.values()):
        arrays += [_array_line(scope, constant) for constant in scope.body.constants]
        numbers += _number_lines(scope)
    return _listed([*arrays, *numbers])


def _array_line(scope: Scope, constant: Constant) -> str:
    kind = scope.body.types[constant.variable]
    size = f", {bytes_text(kind.nbytes)}" if kind.nbytes is not None else ""
    name = f"{constant.name} {kind.short}" if constant.name else f"an array {kind.short}"
    what = (
        "is a tracer that leaked out of another trace"
        if constant.leaked
        else "is a constant array, baked in when it was traced"
    )
    return f"In {title_of(scope)}: {name} {what}{size}."


def _number_lines(scope: Scope) -> Iterator[str]:
    numbers = dict.fromkeys(
        (atom.text, equation.primitive)
        for equation in scope.body.equations
        for atom in equation.operands
        if isinstance(atom, Literal)
    )
    if numbers:
        listed = ", ".join(f"{text} ({primitive})" for text, primitive in itertools.islice(numbers, 6))
        more = f" and {len(numbers) - 6} more" if len(numbers) > 6 else ""
        yield f"In {title_of(scope)}: numbers written into the equations: {listed}{more}."


def _placement_sections(scopes: Iterable[Scope]) -> Iterator[tuple[str, list[str]]]:
    for scope in scopes:
        placed, equation = placement(scope), scope.equation
        if placed is None or equation is None or equation.device is None:
            continue
        mesh = own_mesh(scope, equation.device)
        over = mesh_text(mesh) if any(name for name, _ in mesh.axes) else devices_text(mesh.size)
        around = [name for name, _ in equation.device.mesh.axes if name not in dict(mesh.axes)]
        if around:
            over += f", at each position of {axes_text(equation.device.mesh, tuple(around))}"
        title = f"What {boundary_text(scope)} asks for over {over}"
        entering = [_entering_line(scope, crossing) for crossing in placed.entering]
        leaving = [_leaving_line(scope, crossing) for crossing in placed.leaving]
        yield title, _listed([*entering, *leaving])


def _elsewhere_lines(program: Program, scopes: Iterable[Scope]) -> list[str]:
    """The arguments and results that cross into no device scope, of a program that has one."""
    held = [scope for scope in scopes if placement(scope) is not None]
    if not held:
        return []
    entering: set[int] = set()
    leaving: set[str | None] = set()
    for scope in held:
        parent, equation = scope.parent, scope.equation
        assert parent is not None and equation is not None
        entering |= {found for atom in equation.operands if (found := _argument(parent, atom)) is not None}
        leaving |= {result_name(parent, result) for result in equation.results}
    body = program.main
    lines = [
        _elsewhere_line(f"argument {name or position + 1}", body.types[variable], "enters")
        for position, (name, variable) in enumerate(zip(body.input_names, body.inputs, strict=True))
        if variable not in entering
    ]
    lines += [
        _elsewhere_line(name or "result", _atom_type(body, atom), "comes from")
        for name, atom in zip(body.output_names, body.outputs, strict=True)
        if name not in leaving
    ]
    return _listed(lines)


def _argument(scope: Scope, atom: Atom) -> int | None:
    """The variable of the outermost scope that an atom is, through all boundaries; None when it is made inside."""
    here: Scope | None = scope
    while isinstance(atom, int) and here is not None:
        if here.parent is None:
            return atom
        outer = here.outside(atom)
        if outer is None:
            return None
        atom, here = outer, here.parent
    return None


def _elsewhere_line(name: str, kind: Type, verb: str) -> str:
    size = f", {bytes_text(kind.nbytes)}" if kind.nbytes is not None else ""
    return f"{name} {kind.short}{size}: {verb} none of them as it is; the caller and the compiler decide its place."


def _entering_line(scope: Scope, crossing: Crossing) -> str:
    equation, parent = scope.equation, scope.parent
    assert equation is not None
    assert parent is not None
    atom = equation.operands[crossing.position]
    outer = _atom_name(parent, atom)
    inner = scope.name(crossing.inside) if crossing.inside is not None else None
    position = scope.body.inputs.index(crossing.inside) if crossing.inside is not None else None
    captured = position is not None and is_captured(scope, position)
    kind = (
        " (captured)"
        if captured
        else f" (called {inner} in {title_of(scope)})"
        if inner and inner != outer
        else ""
    )
    return f"{outer} {crossing.layout.type.short}{kind}: {_layout_words(scope, crossing)}."


def _leaving_line(scope: Scope, crossing: Crossing) -> str:
    equation, parent = scope.equation, scope.parent
    assert equation is not None
    assert parent is not None
    assert equation.device is not None
    result = equation.results[crossing.position]
    name = result_name(parent, result) or _atom_name(parent, result)
    taken = ""
    if crossing.layout.spec is not None and not any(crossing.layout.spec) and not equation.device.checked:
        taken = "; the copies are taken to be equal, nothing checks it"
    return f"{name} {crossing.layout.type.short}: {_layout_words(scope, crossing, seen='makes')}{taken}."


def _layout_words(scope: Scope, crossing: Crossing, seen: str = "sees") -> str:
    layout = crossing.layout
    words = [layout_text(layout)]
    local = layout.local
    if local is not None and layout.copies is not None:
        block = f"[{','.join(map(str, local))}]"
        words.append(
            f"one device holds {layout.type.short.split('[')[0]}{block}"
            + (f", {bytes_text(layout.local_nbytes)}" if layout.local_nbytes is not None else "")
        )
        whole = "1 copy" if layout.copies == 1 else f"{layout.copies} copies"
        if layout.total_nbytes is not None:
            words.append(f"{whole}, {bytes_text(layout.total_nbytes)} in all")
        if crossing.inner.shape != local and crossing.inner.kind == layout.type.kind:
            gone = " (the split axis is gone)" if len(crossing.inner.shape) == len(local) - 1 else ""
            words.append(f"{title_of(scope)} {seen} {crossing.inner.short}{gone}")
    elif local is not None:
        words.append(f"{title_of(scope)} {seen} {crossing.inner.short}")
    return "; ".join(words)


def _collective_lines(scopes: Iterable[Scope]) -> list[str]:
    return _listed(
        [
            _collective_line(scope, equation)
            for scope in scopes
            for equation in scope.body.equations
            if equation.axes and not equation.calls and equation.primitive not in SILENT
        ]
    )


def _collective_line(scope: Scope, equation: Equation) -> str:
    over = ", ".join(filter(None, equation.axes)) or "the devices"
    given = [_atom_type(scope.body, atom) for atom in equation.operands]
    types = ", ".join(kind.short for kind in given)
    sizes = [kind.nbytes for kind in given]
    size = f", {bytes_text(sum(filter(None, sizes)))}" if sizes and None not in sizes else ""
    return f"{equation.primitive} over {over} in {title_of(scope)}: each device gives {types or 'nothing'}{size}."


def _unknown_lines(scopes: Iterable[Scope]) -> list[str]:
    lines = []
    for scope in scopes:
        if scope.body.wrapper and placement(scope) is None:
            continue  # JAX's own function around a pmap
        unknown = [
            scope.body.types[variable].short
            for position, variable in enumerate(scope.body.inputs)
            if is_captured(scope, position) is None
        ]
        if unknown:
            lines.append(
                f"Which of these inputs {title_of(scope)} captures: {', '.join(unknown)} "
                "(JAX keeps no names there)."
            )
    return _listed(lines)


def _atom_name(scope: Scope, atom: Atom) -> str:
    if isinstance(atom, Literal):
        return f"the number {atom.text}"
    name = scope.name(atom)
    if name is not None:
        return name
    origin = scope.origin(atom)
    for equation in origin.scope.body.equations:
        if origin.variable in equation.results:
            place = f" {equation.results.index(origin.variable) + 1}" if len(equation.results) > 1 else ""
            return f"the result{place} of {equation.name or equation.primitive}"
    return "an array"


def _type(body: Body, atom: Atom) -> str:
    return _atom_type(body, atom).short


def _atom_type(body: Body, atom: Atom) -> Type:
    return body.types[atom] if isinstance(atom, int) else atom.type


def _listed(lines: Sequence[str]) -> list[str]:
    """Each line once, in order, with how often it came; at most `_MOST` of them."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    kept = [f"  {line}" if count == 1 else f"  {line} ({count} times)" for line, count in counts.items()]
    return kept if len(kept) <= _MOST else [*kept[:_MOST], f"  … and {len(kept) - _MOST} more."]
