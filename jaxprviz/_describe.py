"""The facts about a program as sentences: what is captured, what is baked in, how arrays lie on devices."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from jaxprviz._captures import captures, first_scopes, is_captured, readers
from jaxprviz._facts import Capture, Crossing, Ground, Layout, Place
from jaxprviz._flow import Flow, flow
from jaxprviz._placement import own_mesh, placement, places, sharding_free
from jaxprviz._running import running_lines
from jaxprviz._scope import Path, Scope
from jaxprviz._spelling import spelled
from jaxprviz._text import one_line
from jaxprviz._words import (
    SILENT,
    atom_name,
    axes_text,
    boundary_text,
    bytes_text,
    called,
    captured_number,
    devices_text,
    is_outermost_jit,
    layout_text,
    line_text,
    marked_title,
    mesh_text,
    origin_text,
    result_name,
    some_names,
    spread_text,
    title_of,
)
from jaxprviz.program import Atom, Body, Constant, Equation, Literal, Program, Type

_MOST_READERS = 3
"""Of the equations that read a captured variable so many are named."""

_MOST_LEAVES = 12
"""Of more arguments, or results, only the trees are named that they are the leaves of."""

_TREE = re.compile(r"result(\[\d+\])?|[^.\[]+")
"""What a leaf's name begins with: the argument, or which one of the results, that it is a part of."""

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
    spreads = flow(program)
    unknown = _unknown_lines(scopes)
    sections = [
        ("Captured variables", _capture_lines(scopes, known=not unknown)),
        ("Constants", _constant_lines(scopes)),
        ("How the inner programs run", _listed(running_lines(scopes))),
        *_placement_sections(scopes, spreads),
        _elsewhere_section(program, scopes),
        ("What the devices exchange", _collective_lines(scopes, spreads)),
        ("Not known", unknown),
    ]
    told = ["\n".join(map(one_line, [title, *lines])) for title, lines in sections if lines]
    heading = [*_heading_lines(program), *_spelling_lines(program, "\n".join(told))]
    return "\n\n".join(["\n".join(map(one_line, heading)), *told])


def _heading_lines(program: Program) -> list[str]:
    body = program.main
    arguments = _leaves_text(
        [
            (name or f"argument {position + 1}", body.types[variable])
            for position, (name, variable) in enumerate(zip(body.input_names, body.inputs, strict=True))
        ]
    )
    results = _leaves_text(
        [
            (name or "result", _atom_type(body, atom))
            for name, atom in zip(body.output_names, body.outputs, strict=True)
        ]
    )
    count = sum(len(body.equations) for body in program.bodies)
    equations = "1 equation" if count == 1 else f"{count:,} equations"
    title = body.name or "the program"
    return [
        f"{title}({arguments}) -> {results or 'nothing'}",
        f"{equations}{_pmap_note(program)}, traced by JAX {program.jax}.",
    ]


def _leaves_text(leaves: Sequence[tuple[str, Type]]) -> str:
    """Arguments or results with their types: `"w: f32[4], x: f32[2,4]"`; of many, each tree is told by its size."""
    if len(leaves) <= _MOST_LEAVES:
        return ", ".join(f"{name}: {kind.short}" for name, kind in leaves)
    trees: dict[str, list[tuple[str, Type]]] = {}
    for name, kind in leaves:
        found = _TREE.match(name)
        trees.setdefault(found.group() if found else name, []).append((name, kind))
    return ", ".join(
        f"{tree}: {len(held)} arrays, {bytes_text(sum(kind.nbytes or 0 for _, kind in held))}"
        if len(held) > 1
        else f"{held[0][0]}: {held[0][1].short}"
        for tree, held in trees.items()
    )


def _spelling_lines(program: Program, told: str) -> list[str]:
    """Which of the primitives that the sentences tell of have a name in the jaxpr that is not easily seen in theirs."""
    written: dict[str, list[str]] = {}
    for primitive in sorted({equation.primitive for body in program.bodies for equation in body.equations}):
        written.setdefault(spelled(primitive), []).append(primitive)
    differing = [
        f"{name} is {' or '.join(primitives)}"
        for name, primitives in sorted(written.items())
        if not all(name.replace(".", "_").endswith(primitive) for primitive in primitives)
        and re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", told)
    ]
    return [f"In the jaxpr, {', '.join(differing)}."] if differing else []


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
    used = _readers_text(scope, capture.variable)
    bound = "bound as" if capture.bound else "its value that of"
    return f"{title_of(scope)} captures {name}, {bound} {origin_text(origin)}; it enters {way}{used}."


def _readers_text(scope: Scope, variable: int) -> str:
    """The equations that a captured variable reaches in a scope: `", where mul and add read it"`."""
    names = [spelled(scope.body.equations[position].primitive) for position in readers(scope, variable)]
    if not names:
        return ""
    told = list(dict.fromkeys(names))
    shown = (
        told if len(told) <= _MOST_READERS else [*told[:_MOST_READERS], f"{len(told) - _MOST_READERS} more"]
    )
    listed = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    return f", where {listed} read{'s' if len(told) == 1 else ''} it"


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
        (atom.text, spelled(equation.primitive))
        for equation in scope.body.equations
        for atom in equation.operands
        if isinstance(atom, Literal)
    )
    if numbers:
        listed = ", ".join(f"{text} ({primitive})" for text, primitive in itertools.islice(numbers, 6))
        more = f" and {len(numbers) - 6} more" if len(numbers) > 6 else ""
        yield f"In {title_of(scope)}: numbers written into the equations: {listed}{more}."


def _placement_sections(scopes: Sequence[Scope], spreads: Flow) -> Iterator[tuple[str, list[str]]]:
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
        entering = [_entering_line(scope, crossing, spreads) for crossing in placed.entering]
        leaving = [_leaving_line(scope, crossing, spreads) for crossing in placed.leaving]
        inside = _inside_lines([inner for inner in scopes if _device_scope(inner) == scope.path], spreads)
        yield title, [*_listed([*entering, *leaving]), *inside]


def _device_scope(scope: Scope) -> Path | None:
    """The path of the device scope that a scope is directly in."""
    here: Scope | None = scope
    while here is not None:
        if here.equation is not None and here.equation.device is not None:
            return here.path
        here = here.parent
    return None


def _inside_lines(scopes: Sequence[Scope], spreads: Flow) -> list[str]:
    """How what a device scope computes differs over its devices; nothing where all of it does alike."""
    told: Counter[str] = Counter()
    typed: list[str] = []
    unknown: list[str] = []
    for scope in scopes:
        known, body, several = spreads.of(scope), scope.body, _axes_of_several(scope)
        for equation in body.equations:
            given = [known[atom] for atom in equation.operands if isinstance(atom, int)]
            for result in equation.results:
                spread, name = known[result], atom_name(scope, result)
                cast = equation.primitive in SILENT - {"axis_index"}
                if not cast:
                    told[spread_text(spread)] += 1
                if several & set(body.types[result].varying) & set(spread.same):
                    typed += _cast_names(scope, equation) if cast else [name]
                if spread.unknown and not any(one.unknown for one in given):
                    unknown.append(f"{name} in {title_of(scope)}")
    if len(told) < 2 and not unknown:
        return _typed_lines(typed)
    counted = "; ".join(f"{text} ({count:,})" for text, count in sorted(told.items()))
    lines = [f"  results of the equations inside: {counted}.", *_typed_lines(typed)]
    if unknown:
        lines.append(f"  not known whether it differs from device to device: {some_names(unknown)}.")
    return lines


def _axes_of_several(scope: Scope) -> set[str]:
    """The mesh axes of more than one device over which a scope runs once a device."""
    found: set[str] = set()
    here: Scope | None = scope
    while here is not None:
        if here.equation is not None and here.equation.device is not None:
            device = here.equation.device
            found |= {name for name, size in device.mesh.axes if size > 1 and name in device.manual}
        here = here.parent
    return found


def _typed_lines(typed: Sequence[str]) -> list[str]:
    return [f"  typed as varying, though the same on every device: {some_names(typed)}."] if typed else []


def _cast_names(scope: Scope, equation: Equation) -> list[str]:
    """The names of what an equation gives another type, and nothing else; numbers are left out."""
    return [atom_name(scope, atom) for atom in equation.operands if isinstance(atom, int)]


def _elsewhere_section(program: Program, scopes: Sequence[Scope]) -> tuple[str, list[str]]:
    """What is said of arrays outside of the device scopes, of a program that speaks of devices at all."""
    held = [scope for scope in scopes if placement(scope) is not None]
    lying = places(program)
    root = lying.of(Scope.root(program))
    if not held and not any(root):
        return "", []
    entering: set[int] = set()
    leaving: set[str | None] = set()
    for scope in held:
        parent, equation = scope.parent, scope.equation
        assert parent is not None and equation is not None
        entering |= {found for atom in equation.operands if (found := _argument(parent, atom)) is not None}
        leaving |= {result_name(parent, result) for result in equation.results}
    body = program.main
    enters, comes = ("enters none of them as it is", "comes from none of them as it is") if held else ("", "")
    asked = {
        atom
        for equation in body.equations
        for atom, sharding in zip(equation.operands, equation.in_shardings, strict=False)
        if sharding is not None
    }
    lines = [
        _elsewhere_line(
            f"argument {name or position + 1}", body.types[variable], root[variable], enters, arriving=True
        )
        for position, (name, variable) in enumerate(zip(body.input_names, body.inputs, strict=True))
        if variable not in entering and not (variable in asked and _is_undecided(root[variable]))
    ]
    for scope in scopes:
        lines += _asked_lines(scope, lying.of(scope))
    lines += [
        _elsewhere_line(
            name or "result", _atom_type(body, atom), root[atom] if isinstance(atom, int) else None, comes
        )
        for name, atom in zip(body.output_names, body.outputs, strict=True)
        if name not in leaving
    ]
    return "Outside of the device scopes" if held else "How arrays lie over the devices", _listed(lines)


def _elsewhere_line(name: str, kind: Type, place: Place | None, verb: str, *, arriving: bool = False) -> str:
    size = f", {bytes_text(kind.nbytes)}" if kind.nbytes is not None else ""
    head = f"{name} {kind.short}{size}: "
    if place is not None and place.layout is not None and place.ground is not Ground.COMPILER:
        return f"{head}{_GROUNDS[place.ground]}, {'; '.join(_block_words(place.layout))}."
    decides = (
        "the caller and the compiler decide its place" if arriving or verb else "decided by the compiler"
    )
    return f"{head}{verb + '; ' if verb else ''}{decides}."


_GROUNDS = {
    Ground.TYPE: "by its type",
    Ground.GIVEN: "as it arrives",
    Ground.ASKED: "as the program asks",
}


def _is_undecided(place: Place | None) -> bool:
    return place is None or place.ground is Ground.COMPILER


def _asked_lines(scope: Scope, known: Sequence[Place | None]) -> Iterator[str]:
    """What the equations of a scope ask for: constraints, and the shardings of jitted functions."""
    for equation in scope.body.equations:
        line = line_text(scope, equation)
        for atom, asked in zip(equation.operands, equation.in_shardings, strict=False):
            if asked is not None:
                layout = Layout(_atom_type(scope.body, atom), asked.mesh, asked.spec, sharding_free(asked))
                into = f"on its way into {one_line(called(equation))}{line}"
                yield _asked_line(f"{atom_name(scope, atom)} {layout.type.short}, {into}", layout)
        for result, asked in zip(equation.results, equation.out_shardings, strict=False):
            place, name = known[result], scope.name(result)
            returned = result_name(scope, result) in scope.program.main.output_names
            number = not scope.body.types[result].shape  # JAX reshards numbers of its own accord
            if (
                asked is not None
                and place is not None
                and place.layout is not None
                and not (returned or number)
            ):
                by = f"made by {one_line(called(equation))} in {title_of(scope)}{line}"
                head = f"{name or 'an array'} {scope.body.types[result].short}, {by}"
                yield _asked_line(head, place.layout)


def _asked_line(head: str, layout: Layout) -> str:
    return f"{head}: {_GROUNDS[Ground.ASKED]}, {'; '.join(_block_words(layout))}."


def _block_words(layout: Layout) -> list[str]:
    """How an array lies, what one device holds of it, and how much that is in all."""
    words = [layout_text(layout)]
    local = layout.local
    if not layout.divides:
        words.append("which cannot be cut into equal parts")
    if local is None or layout.copies is None or layout.mesh.size == 1:
        return words
    if 0 in layout.type.shape:
        return [*words, "it has no elements"]
    block = f"[{','.join(map(str, local))}]"
    words.append(
        f"one device holds {layout.type.short.split('[')[0]}{block}"
        + (f", {bytes_text(layout.local_nbytes)}" if layout.local_nbytes is not None else "")
    )
    if layout.total_nbytes is not None:
        whole = "1 copy" if layout.copies == 1 else f"{layout.copies} copies"
        words.append(f"{whole}, {bytes_text(layout.total_nbytes)} in all")
    return words


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


def _entering_line(scope: Scope, crossing: Crossing, spreads: Flow) -> str:
    equation, parent = scope.equation, scope.parent
    assert equation is not None
    assert parent is not None
    atom = equation.operands[crossing.position]
    outer = atom_name(parent, atom)
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
    arrives = _arrival_words(parent, atom, crossing.layout)
    unequal = isinstance(atom, int) and spreads.of(parent)[atom].unequal
    copies = "; the copies may differ" if unequal else ""
    return f"{outer} {crossing.layout.type.short}{kind}: {arrives}{_layout_words(scope, crossing)}{copies}."


def _arrival_words(parent: Scope, atom: Atom, layout: Layout) -> str:
    """How an actual argument lay, where the device scope that it enters wants it otherwise."""
    variable, given = _argument(parent, atom), parent.program.shardings
    main = parent.program.main
    sharding = given[main.inputs.index(variable)] if given and variable in main.inputs else None
    if sharding is None or layout.spec is None:
        return ""
    arrived = Layout(layout.type, sharding.mesh, sharding.spec, sharding_free(sharding))
    if layout_text(arrived) == layout_text(layout) and arrived.mesh.ids == layout.mesh.ids:
        return ""
    if layout.free or (arrived.mesh.size, arrived.parts) == (layout.mesh.size, layout.parts):
        return f"as it arrives, {layout_text(arrived)}; here "
    made = "made whole" if any(arrived.spec or ()) and not any(layout.spec) else "laid out anew"
    return f"as it arrives, {layout_text(arrived)}; then {made}: "


def _leaving_line(scope: Scope, crossing: Crossing, spreads: Flow) -> str:
    equation, parent = scope.equation, scope.parent
    assert equation is not None
    assert parent is not None
    assert equation.device is not None
    result = equation.results[crossing.position]
    name = result_name(parent, result) or atom_name(parent, result)
    taken = _copies_words(scope, crossing, spreads) if not equation.device.checked else ""
    return f"{name} {crossing.layout.type.short}: {_layout_words(scope, crossing, seen='makes')}{taken}."


def _copies_words(scope: Scope, crossing: Crossing, spreads: Flow) -> str:
    """Whether the copies that leave an unchecked device scope are equal."""
    equation, call, layout = scope.equation, scope.call, crossing.layout
    if equation is None or equation.device is None or call is None or layout.spec is None:
        return ""
    split = {name for names in layout.spec for name in names}
    copied = {name for name in equation.device.manual if layout.mesh.length(name) > 1} - split
    if not copied:
        return ""
    output = call.outputs[crossing.position]
    atom = None if output is None else scope.body.outputs[output]
    if isinstance(atom, Literal) or (atom is not None and copied <= set(spreads.of(scope)[atom].same)):
        return "; the copies are equal"
    return "; the copies are taken to be equal, nothing checks it"


def _layout_words(scope: Scope, crossing: Crossing, seen: str = "sees") -> str:
    layout = crossing.layout
    words, local = _block_words(layout), layout.local
    if local is None:
        return "; ".join(words)
    if layout.copies is None:
        words.append(f"{title_of(scope)} {seen} {crossing.inner.short}")
    elif crossing.inner.shape != local and crossing.inner.kind == layout.type.kind:
        gone = " (the split axis is gone)" if len(crossing.inner.shape) == len(local) - 1 else ""
        words.append(f"{title_of(scope)} {seen} {crossing.inner.short}{gone}")
    return "; ".join(words)


def _collective_lines(scopes: Iterable[Scope], spreads: Flow) -> list[str]:
    return _listed(
        [
            _collective_line(scope, equation, spreads)
            for scope in scopes
            for equation in scope.body.equations
            if equation.axes and not equation.calls and equation.primitive not in SILENT
        ]
    )


def _collective_line(scope: Scope, equation: Equation, spreads: Flow) -> str:
    over = ", ".join(filter(None, equation.axes)) or "the devices"
    given = [_atom_type(scope.body, atom) for atom in equation.operands]
    types = ", ".join(kind.short for kind in given)
    sizes = [kind.nbytes for kind in given]
    size = f", {bytes_text(sum(filter(None, sizes)))}" if sizes and None not in sizes else ""
    what = f"{spelled(equation.primitive)} over {over} in {marked_title(scope)}"
    head = f"{what}: each device gives {types or 'nothing'}{size}"
    known = spreads.of(scope)
    results = dict.fromkeys(text for result in equation.results if (text := spread_text(known[result])))
    return (
        f"{head}; {'the result' if len(equation.results) == 1 else 'each result'}: {' or '.join(results)}."
        if results
        else f"{head}."
    )


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


def _atom_type(body: Body, atom: Atom) -> Type:
    return body.types[atom] if isinstance(atom, int) else atom.type


def _listed(lines: Sequence[str]) -> list[str]:
    """Each line once, in order, with how often it came; at most `_MOST` of them."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    kept = [f"  {line}" if count == 1 else f"  {line} ({count} times)" for line, count in counts.items()]
    return kept if len(kept) <= _MOST else [*kept[:_MOST], f"  … and {len(kept) - _MOST} more."]
