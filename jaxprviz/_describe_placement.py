"""How arrays lie on the devices, and what the devices exchange, as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jaxprviz._captures import is_captured
from jaxprviz._facts import Crossing, Ground, Layout, Place
from jaxprviz._flow import Flow
from jaxprviz._placement import own_mesh, placement, places, sharding_free
from jaxprviz._scope import Path, Scope
from jaxprviz._spelling import spelled
from jaxprviz._text import listed, one_line
from jaxprviz._trees import MOST_LEAVES, grouped, part_text, sum_text, tree_of
from jaxprviz._words import (
    CASTS,
    CASTS_OF_NUMBERS,
    SILENT,
    atom_name,
    axes_text,
    boundary_text,
    bytes_text,
    called,
    devices_text,
    layout_text,
    line_text,
    marked_title,
    mesh_text,
    result_name,
    some_names,
    spread_text,
    title_of,
    type_of,
)
from jaxprviz.program import Atom, Equation, Literal, Program, Type


def placement_sections(scopes: Sequence[Scope], spreads: Flow) -> Iterator[tuple[str, list[str]]]:
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
        entering = _lines([_entering(scope, crossing, spreads) for crossing in placed.entering])
        leaving = _lines([_leaving(scope, crossing, spreads) for crossing in placed.leaving])
        inside = _inside_lines([inner for inner in scopes if _device_scope(inner) == scope.path], spreads)
        yield title, [*listed([*entering, *leaving]), *inside]


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
        numbers: set[int] = set()
        for equation in body.equations:
            read = [atom for atom in equation.operands if isinstance(atom, int)]
            if equation.primitive in CASTS_OF_NUMBERS and numbers.issuperset(read):
                numbers.update(equation.results)
                continue
            given = [known[atom] for atom in read]
            for result in equation.results:
                spread, name = known[result], atom_name(scope, result)
                cast = equation.primitive in CASTS
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


def elsewhere_section(program: Program, scopes: Sequence[Scope]) -> tuple[str, list[str]]:
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
    enters, comes = (_ENTERS, _COMES) if held else (_NOTHING, _NOTHING)
    asked = {
        atom
        for equation in body.equations
        for atom, sharding in zip(equation.operands, equation.in_shardings, strict=False)
        if sharding is not None
    }
    arguments = [
        _elsewhere(f"{name or position + 1}", body.types[variable], root[variable], enters, arriving=True)
        for position, (name, variable) in enumerate(zip(body.input_names, body.inputs, strict=True))
        if variable not in entering and not (variable in asked and _is_undecided(root[variable]))
    ]
    lines = [f"argument {line}" for line in _lines(arguments)]
    for scope in scopes:
        lines += _asked_lines(scope, lying.of(scope))
    results = [
        _elsewhere(
            name or "result", type_of(body, atom), root[atom] if isinstance(atom, int) else None, comes
        )
        for name, atom in zip(body.output_names, body.outputs, strict=True)
        if name not in leaving
    ]
    lines += _lines(results)
    return "Outside of the device scopes" if held else "How arrays lie over the devices", listed(lines)


@dataclass(frozen=True, slots=True)
class _Number:
    """Words for one array, and for several."""

    one: str
    several: str


_NOTHING = _Number("", "")
_ENTERS = _Number("enters none of them as it is; ", "enter none of them as they are; ")
_COMES = _Number("comes from none of them as it is; ", "come from none of them as they are; ")
_DECIDED = _Number("decided by the compiler", "decided by the compiler")
_PLACED = _Number(
    "the caller and the compiler decide its place", "the caller and the compiler decide their places"
)
_ARRIVES = _Number("as it arrives", "as they arrive")
_GROUNDS = {
    Ground.TYPE: _Number("by its type", "by their types"),
    Ground.GIVEN: _ARRIVES,
    Ground.ASKED: _Number("as the program asks", "as the program asks"),
}


@dataclass(frozen=True, slots=True)
class _Said:
    """What is said of one array, so that what is the same of many can be said of all of them.

    Attributes:
        name: what it is called.
        type: its type.
        line: the sentence about it alone.
        mark: what stands behind the name: `" (captured)"`.
        before: what is said before how it lies.
        layout: how it lies; None where that is not said.
        after: what is said behind that.
    """

    name: str
    type: Type
    line: str
    mark: str
    before: _Number
    layout: Layout | None
    after: str = ""

    @property
    def alike(self) -> tuple[str, ...]:
        """What has to be the same of all that one sentence tells of."""
        how = (layout_text(self.layout), str(self.layout.divides)) if self.layout is not None else ()
        return (tree_of(self.name), self.mark, self.before.one, self.after, *how)


def _lines(all_said: Sequence[_Said]) -> list[str]:
    """A sentence for each array; of many arrays one for all that lie alike in a tree."""
    if len(all_said) <= MOST_LEAVES:
        return [said.line for said in all_said]
    whole = Counter(tree_of(said.name) for said in all_said)
    return [
        held[0].line if len(held) == 1 else _line_of_several(held, whole[tree_of(held[0].name)])
        for held in grouped(all_said, lambda said: said.alike)
    ]


def _line_of_several(held: Sequence[_Said], whole: int) -> str:
    first = held[0]
    head = part_text([said.name for said in held], [said.type for said in held], whole)
    words = [layout_text(first.layout)] if first.layout is not None else []
    layouts = [said.layout for said in held if said.layout is not None]
    if not all(layout.divides for layout in layouts):
        words.append("which cannot be cut into equal parts")
    elif layouts and layouts[0].copies is not None and layouts[0].mesh.size > 1:
        words.append(sum_text("one device holds ", [layout.local_nbytes for layout in layouts]))
        words.append(sum_text("in all ", [layout.total_nbytes for layout in layouts]))
    return f"{head}{first.mark}: {first.before.several}{'; '.join(filter(None, words))}{first.after}."


def _elsewhere(name: str, kind: Type, place: Place | None, verb: _Number, *, arriving: bool = False) -> _Said:
    size = f", {bytes_text(kind.nbytes)}" if kind.nbytes is not None else ""
    layout = None
    if place is not None and place.layout is not None and place.ground is not Ground.COMPILER:
        ground, layout = _GROUNDS[place.ground], place.layout
        before = _Number(f"{ground.one}, ", f"{ground.several}, ")
    else:
        decides = _PLACED if arriving or verb.one else _DECIDED
        before = _Number(verb.one + decides.one, verb.several + decides.several)
    how = "; ".join(_block_words(layout)) if layout is not None else ""
    return _Said(name, kind, f"{name} {kind.short}{size}: {before.one}{how}.", "", before, layout)


def _is_undecided(place: Place | None) -> bool:
    return place is None or place.ground is Ground.COMPILER


def _asked_lines(scope: Scope, known: Sequence[Place | None]) -> Iterator[str]:
    """What the equations of a scope ask for: constraints, and the shardings of jitted functions."""
    for equation in scope.body.equations:
        line = line_text(scope, equation)
        for atom, asked in zip(equation.operands, equation.in_shardings, strict=False):
            if asked is not None:
                layout = Layout(type_of(scope.body, atom), asked.mesh, asked.spec, sharding_free(asked))
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
    return f"{head}: {_GROUNDS[Ground.ASKED].one}, {'; '.join(_block_words(layout))}."


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


def _entering(scope: Scope, crossing: Crossing, spreads: Flow) -> _Said:
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
    layout = crossing.layout
    line = f"{outer} {layout.type.short}{kind}: {arrives.one}{_layout_words(scope, crossing)}{copies}."
    mark = " (captured)" if captured else ""
    return _Said(outer, layout.type, line, mark, arrives, layout, _gone_words(scope, crossing) + copies)


def _arrival_words(parent: Scope, atom: Atom, layout: Layout) -> _Number:
    """How an actual argument lay, where the device scope that it enters wants it otherwise."""
    variable, given = _argument(parent, atom), parent.program.shardings
    main = parent.program.main
    sharding = given[main.inputs.index(variable)] if given and variable in main.inputs else None
    if sharding is None or layout.spec is None:
        return _NOTHING
    arrived = Layout(layout.type, sharding.mesh, sharding.spec, sharding_free(sharding))
    if layout_text(arrived) == layout_text(layout) and arrived.mesh.ids == layout.mesh.ids:
        return _NOTHING
    if layout.free or (arrived.mesh.size, arrived.parts) == (layout.mesh.size, layout.parts):
        return _Number(
            *(f"{words}, {layout_text(arrived)}; here " for words in (_ARRIVES.one, _ARRIVES.several))
        )
    made = "made whole" if any(arrived.spec or ()) and not any(layout.spec) else "laid out anew"
    again = f"then {made}"
    return _Number(
        *(f"{words}, {layout_text(arrived)}; {again}: " for words in (_ARRIVES.one, _ARRIVES.several))
    )


def _leaving(scope: Scope, crossing: Crossing, spreads: Flow) -> _Said:
    equation, parent = scope.equation, scope.parent
    assert equation is not None
    assert parent is not None
    assert equation.device is not None
    result = equation.results[crossing.position]
    name = result_name(parent, result) or atom_name(parent, result)
    taken = _copies_words(scope, crossing, spreads) if not equation.device.checked else ""
    layout = crossing.layout
    line = f"{name} {layout.type.short}: {_layout_words(scope, crossing, seen='makes')}{taken}."
    after = _gone_words(scope, crossing, seen="makes") + taken
    return _Said(name, layout.type, line, "", _NOTHING, layout, after)


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


def _gone_words(scope: Scope, crossing: Crossing, seen: str = "sees") -> str:
    """Of several arrays: that the body does not see the axis that they are split on."""
    local = crossing.layout.local
    if local is None or len(crossing.inner.shape) != len(local) - 1:
        return ""
    return f"; {title_of(scope)} {seen} them without the split axis"


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


def collective_lines(scopes: Iterable[Scope], spreads: Flow) -> list[str]:
    return listed(
        [
            _collective_line(scope, equation, spreads)
            for scope in scopes
            for equation in scope.body.equations
            if equation.axes and not equation.calls and equation.primitive not in SILENT
        ]
    )


def _collective_line(scope: Scope, equation: Equation, spreads: Flow) -> str:
    over = ", ".join(filter(None, equation.axes)) or "the devices"
    given = [type_of(scope.body, atom) for atom in equation.operands]
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
