"""Doors: what stands at the border of a scope about what enters and what leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jaxprviz import _strip, _style
from jaxprviz._boxes import LOOP_WORDS, type_of
from jaxprviz._facts import Crossing
from jaxprviz._graph import Value
from jaxprviz._label import bold, coloured, grey, plain, run, sized
from jaxprviz._scope import Scope
from jaxprviz._style import Line, Look
from jaxprviz._subject import Subject
from jaxprviz.program import Boundary, Literal, Role, Type


@dataclass(frozen=True, slots=True)
class Door:
    """What stands at the boundary of a scope about one of its inputs.

    Attributes:
        name: its Python name.
        outer: its type outside.
        inner: its type inside.
        captured: whether the scope captures it.
        word: what it is, in a word or two.
        strip: which device holds what, as a table.
        rows: what the boundary does to it.
        unused: True when nothing inside reads it.
        number: its value where it is a number.
        many: how many variables the door stands for.
    """

    name: str | None
    outer: Type
    inner: Type
    captured: bool
    word: str
    strip: str | None
    rows: tuple[str, ...]
    unused: bool
    number: str | None
    many: int = 1

    @property
    def ordinary(self) -> bool:
        """Whether there is nothing to say of it but its name."""
        return not (self.captured or self.word or self.strip or self.rows or self.unused or self.number)

    @property
    def look(self) -> Look:
        return Look.DOOR if self.ordinary and self.many == 1 else Look.TABLE

    @property
    def line(self) -> Line:
        return Line.CAPTURED if self.captured else Line.WIRE

    @property
    def tip(self) -> str:
        said = f"{self.name or 'input'} {self.outer.short}"
        return " ".join(filter(None, (said, self.word, "; ".join(self.rows))))

    @property
    def sort(self) -> tuple[object, ...]:
        """What doors that share one box have in common."""
        return (self.captured, self.word, self.strip, self.unused)

    def of_many(self, name: str | None, many: int) -> Door:
        """One door for several variables that say the same."""
        rows = tuple(row.split(":")[0] for row in self.rows[:1])
        return replace(self, name=name, many=many, rows=rows, number=None)

    def label(self) -> str:
        colour = _style.ORANGE if self.captured else "#AAAAAA" if self.unused else _style.GREY
        what = grey(f"{self.many} arrays") if self.many > 1 else grey(self.outer.short)
        if self.ordinary and self.many == 1:
            return f"<{bold(self.name) if self.name else what}>"
        head = run(
            bold(self.name) if self.name else None,
            f"= {bold(self.number)}" if self.number else None,
            what,
            coloured(self.word, colour if self.captured else _style.GREY, strong=self.captured)
            if self.word
            else None,
            grey("unused") if self.unused else None,
        )
        return _framed(
            [_row(head), *([_strip_row(self.strip)] if self.strip else []), *map(_small_row, self.rows)],
            colour,
        )


def plain_door(scope: Scope, variable: int) -> Door:
    """The door of an ordinary operand: its name alone."""
    type = scope.body.types[variable]
    return Door(scope.name(variable), type, type, False, "", None, (), False, None)


def said(clauses: Sequence[str], end: str) -> tuple[str, ...]:
    """Clauses and what one device holds: on one line where they are short."""
    if len(clauses) == 1:
        return (f"{clauses[0]}: {end}",)
    return (*clauses, end)


def _row(html: str) -> str:
    return f'<TR><TD ALIGN="LEFT">{html}</TD></TR>'


def _small_row(text: str) -> str:
    return _row(sized(plain(text, 60), _style.SMALL))


def _strip_row(strip: str) -> str:
    return f"<TR><TD>{strip}</TD></TR>"


def _framed(rows: Sequence[str], colour: str) -> str:
    return (
        f'<<TABLE BORDER="1" CELLBORDER="0" CELLSPACING="0" CELLPADDING="4" COLOR="{colour}" '
        f'BGCOLOR="white" STYLE="rounded">{"".join(rows)}</TABLE>>'
    )


def exit_label(crossing: Crossing, inside: Value, *, stacked: bool) -> str:
    """What stands where a result leaves a device scope."""
    clauses = _strip.leaving(crossing.layout, stacked=stacked)
    number = f"= {inside.text}" if isinstance(inside, Literal) else None
    texts = said(clauses, crossing.layout.type.short)
    rows = [_strip_row(_strip.strip(crossing.layout, _style.HUE_OUT)), *map(_small_row, texts)]
    if number:
        rows.insert(0, _small_row(number))
    return _framed(rows, _style.HUE_OUT.line)


def doors(subject: Subject, scope: Scope, inputs: Sequence[Value]) -> Iterator[Door | None]:
    """For each input of a scope what its door says; None where its edge goes straight in."""
    equation, call, body = scope.equation, scope.call, scope.body
    assert equation is not None and call is not None and scope.parent is not None
    captured = {capture.position: capture for capture in subject.captures(scope)}
    placed = subject.placement(scope) if equation.device else None
    crossings = {crossing.position: crossing for crossing in placed.entering} if placed else {}
    used = subject.used_by(scope)
    for at, variable in enumerate(body.inputs):
        operand = call.inputs[at]
        value = inputs[at]
        name = scope.name(variable)
        inner = body.types[variable]
        outer = None
        if operand is not None:
            outer = type_of(scope.parent.body, equation.operands[operand])
        capture = captured.get(at)
        if capture is not None:
            name = capture.name or name
        crossing = None if operand is None else crossings.get(operand)
        rows: tuple[str, ...] = ()
        strip: str | None = None
        word = ""
        role = call.roles[at]
        unused = variable not in used
        if crossing is not None:
            hue = _style.HUE_CAPTURED if capture else _style.HUE_IN
            strip = _strip.strip(crossing.layout, hue)
            seen = "{} in the body" if crossing.layout.free else "{} on each"
            rows = said(_strip.entering(crossing.layout), seen.format(crossing.inner.short))
        elif operand is None:
            rows = ("where it comes from is unknown",)
        elif equation.boundary is Boundary.LOOP and role in LOOP_WORDS:
            word, text = LOOP_WORDS[role]
            if role is Role.SLICED:
                rows = (f"{inner.short} each step",)
            elif text:
                rows = (text,)
        elif capture is None and not (unused and equation.boundary is not Boundary.BRANCH):
            yield None
            continue
        if capture is not None:
            word = "captured constant" if capture.constant else "captured"
        number = value.text if isinstance(value, Literal) else None
        yield Door(name, outer or inner, inner, capture is not None, word, strip, rows, unused, number)
