"""The facts about a program as sentences: what is captured, what is baked in, how arrays lie on devices."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from jaxprviz._captures import captures, first_scopes, is_captured
from jaxprviz._describe_placement import collective_lines, elsewhere_section, placement_sections
from jaxprviz._facts import Capture
from jaxprviz._flow import flow
from jaxprviz._placement import placement
from jaxprviz._running import running_lines
from jaxprviz._scope import Scope
from jaxprviz._spelling import spelled
from jaxprviz._text import listed, one_line
from jaxprviz._trees import MOST_LEAVES, arrays_text, grouped, leaves_text, tree_of
from jaxprviz._words import (
    CASTS,
    CASTS_OF_NUMBERS,
    boundary_text,
    bytes_text,
    captured_number,
    is_outermost_jit,
    origin_text,
    title_of,
    type_of,
)
from jaxprviz.program import Constant, Equation, Literal, Program

_MOST_READERS = 3
"""Of the equations that read a captured variable so many are named."""


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
        ("How the inner programs run", listed(running_lines(scopes))),
        *placement_sections(scopes, spreads),
        elsewhere_section(program, scopes),
        ("What the devices exchange", collective_lines(scopes, spreads)),
        ("Not known", unknown),
    ]
    told = ["\n".join(map(one_line, [title, *lines])) for title, lines in sections if lines]
    heading = [*_heading_lines(program), *_spelling_lines(program, "\n".join(told))]
    return "\n\n".join(["\n".join(map(one_line, heading)), *told])


def _heading_lines(program: Program) -> list[str]:
    body = program.main
    arguments = leaves_text(
        [
            (name or f"argument {position + 1}", body.types[variable])
            for position, (name, variable) in enumerate(zip(body.input_names, body.inputs, strict=True))
        ]
    )
    results = leaves_text(
        [
            (name or "result", type_of(body, atom))
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
    lines = (
        [_capture_line(capture) for capture in found]
        if len(found) <= MOST_LEAVES
        else [
            _capture_line(held[0]) if len(held) == 1 else _line_of_captures(held)
            for held in grouped(found, _capture_key)
        ]
    )
    return listed(lines) or [f"  {none}"]


def _capture_line(capture: Capture) -> str:
    scope, origin = capture.scope, capture.origin
    kind = scope.body.types[capture.variable].short
    what = "a constant array" if capture.constant else "a variable"
    number = captured_number(origin)
    if number is not None:
        what = f"the number {number.text}"
    name = f"{capture.name} {kind}" if capture.name else f"{what} {kind}"
    read = _readers_text([capture])
    bound = "bound as" if capture.bound else "its value that of"
    return f"{title_of(scope)} captures {name}, {bound} {origin_text(origin)}; it enters {_way_text(capture)}{read}."


def _capture_key(capture: Capture) -> Hashable:
    """What is the same of captures that one sentence tells of: all but which leaf of an argument's tree it is."""
    origin = capture.origin
    argument = origin.variable in origin.scope.body.inputs and captured_number(origin) is None
    if capture.name is None or not argument:
        return (capture.scope.path, capture.position)
    return (capture.scope.path, tree_of(capture.name), capture.bound, origin.scope.path, _way_text(capture))


def _line_of_captures(held: Sequence[Capture]) -> str:
    first = held[0]
    names = [capture.name or "" for capture in held]
    kinds = [capture.scope.body.types[capture.variable] for capture in held]
    what = f"{arrays_text(kinds)}, of {tree_of(names[0])}"
    bound = "bound as" if first.bound else "their values those of"
    where = f"{bound} arguments of {title_of(first.origin.scope)}"
    way = f"they enter {_way_text(first)}{_readers_text(held, several=True)}"
    return f"{title_of(first.scope)} captures {what}, {where}; {way}."


def _way_text(capture: Capture) -> str:
    """The boundaries that a capture crosses: `"pmap g, then jit h"`."""
    origin = capture.origin
    through = origin.through if captured_number(origin) is None else (origin.scope, *origin.through)
    crossed = [step for step in through if not is_outermost_jit(step)]
    steps = [(text, len(list(same))) for text, same in itertools.groupby(map(boundary_text, crossed))]
    return ", then ".join(text if count == 1 else f"{text} ({count} levels)" for text, count in steps)


def _readers_text(held: Sequence[Capture], *, several: bool = False) -> str:
    """The equations that captured variables reach in their scope: `", where mul and add read it"`."""
    scope = held[0].scope
    read_by = _readers_of(scope)
    told = list(
        dict.fromkeys(
            spelled(use.primitive)
            for capture in held
            for equation in read_by.get(capture.variable, ())
            for use in _uses(equation, read_by, CASTS)
            if not use.calls
        )
    )
    if not told:
        return ""
    shown = (
        told if len(told) <= _MOST_READERS else [*told[:_MOST_READERS], f"{len(told) - _MOST_READERS} more"]
    )
    together = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    return f", where {together} read{'s' if len(told) == 1 else ''} {'them' if several else 'it'}"


def _readers_of(scope: Scope) -> dict[int, list[Equation]]:
    """The equations that read each variable of a scope."""
    found: dict[int, list[Equation]] = {}
    for equation in scope.body.equations:
        for variable in dict.fromkeys(atom for atom in equation.operands if isinstance(atom, int)):
            found.setdefault(variable, []).append(equation)
    return found


def _uses(
    equation: Equation, read_by: Mapping[int, Sequence[Equation]], casts: frozenset[str]
) -> Iterator[Equation]:
    """An equation; in the place of one that only casts what it is given, those that read its result."""
    following = [one for result in equation.results for one in read_by.get(result, ())]
    if equation.primitive not in casts or not following:
        yield equation
        return
    for one in following:
        yield from _uses(one, read_by, casts)


def _constant_lines(scopes: Iterable[Scope]) -> list[str]:
    places = {scope.number: scope for scope in reversed(list(scopes))}  # the first place of each body
    arrays, numbers = [], []
    for scope in reversed(places.values()):
        arrays += [_array_line(scope, constant) for constant in scope.body.constants]
        numbers += _number_lines(scope)
    return listed([*arrays, *numbers])


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
    read_by = _readers_of(scope)
    numbers = dict.fromkeys(
        (atom.text, _with_name(use))
        for equation in scope.body.equations
        for atom in equation.operands
        if isinstance(atom, Literal)
        for use in _uses(equation, read_by, CASTS_OF_NUMBERS)
    )
    if numbers:
        some = ", ".join(f"{text} ({reader})" for text, reader in itertools.islice(numbers, 6))
        more = f" and {len(numbers) - 6} more" if len(numbers) > 6 else ""
        yield f"In {title_of(scope)}: numbers written into the equations: {some}{more}."


def _with_name(equation: Equation) -> str:
    """A primitive; with the function's name where it calls one."""
    primitive = spelled(equation.primitive)
    return f"{primitive} {one_line(equation.name)}" if equation.calls and equation.name else primitive


def _unknown_lines(scopes: Iterable[Scope]) -> list[str]:
    lines = []
    for scope in scopes:
        if scope.body.wrapper and placement(scope) is None:
            continue  # JAX's own function around a pmap
        unknown = Counter(
            scope.body.types[variable].short
            for position, variable in enumerate(scope.body.inputs)
            if is_captured(scope, position) is None
        )
        if unknown:
            inputs = ", ".join(_times(*one) for one in unknown.items())
            lines.append(
                f"Which of these inputs {title_of(scope)} captures: {inputs} (JAX keeps no names there)."
            )
    return listed(lines)


def _times(text: str, count: int) -> str:
    return text if count == 1 else f"{count} of {text}"
