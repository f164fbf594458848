"""Doors: what stands at the border of a scope about what enters and what leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jaxprviz import _strip, _style
from jaxprviz._asked import asked_clauses, asked_layout
from jaxprviz._boxes import framed, type_of
from jaxprviz._captures import is_residual
from jaxprviz._facts import Crossing
from jaxprviz._graph import Value
from jaxprviz._label import bold, coloured, grey, plain, run, sized
from jaxprviz._scope import Scope
from jaxprviz._style import Hue, Line, Look
from jaxprviz._subject import Subject
from jaxprviz.program import Boundary, Call, Equation, Literal, Role, Type


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
        rows = [sized(plain(row, 60), _style.SMALL) for row in self.rows]
        return framed([head, *([self.strip] if self.strip else []), *rows], colour)


def plain_door(scope: Scope, variable: int) -> Door:
    """The door of an ordinary operand: its name alone."""
    type = scope.body.types[variable]
    return Door(scope.name(variable), type, type, False, "", None, (), False, None)


def said(clauses: Sequence[str], end: str) -> tuple[str, ...]:
    """Clauses and what one device holds: on one line where they are short."""
    if len(clauses) == 1:
        return (f"{clauses[0]}: {end}",)
    return (*clauses, end)


def exit_label(crossing: Crossing, inside: Value, *, stacked: bool, warning: str = "") -> str:
    """What stands where a result leaves a device scope."""
    clauses = _strip.leaving(crossing.layout, stacked=stacked)
    number = f"= {inside.text}" if isinstance(inside, Literal) else None
    texts = [*said(clauses, crossing.layout.type.short), *([warning] if warning else [])]
    rows = [
        _strip.strip(crossing.layout, _style.HUE_OUT),
        *(sized(plain(t, 60), _style.SMALL) for t in texts),
    ]
    if number:
        rows.insert(0, sized(plain(number), _style.SMALL))
    return framed(rows, _style.HUE_OUT.line)


def exit_warning(subject: Subject, scope: Scope, variable: int) -> str:
    """What is to be known of a result of which one device's copy is taken: that the copies may differ."""
    unequal = sorted(filter(None, subject.unequal(scope, variable)))
    if not subject.unequal(scope, variable):
        return ""
    return f"the copies may differ over {', '.join(unequal)}" if unequal else "the copies may differ"


# What the doors of a scope say ------------------------------------------------------------------------------

_Told = tuple[str, str | None, tuple[str, ...]]
"""A word, a strip and rows of text."""

_ROLES: dict[Role, str] = {
    Role.CARRY: "carry",
    Role.SLICED: "sliced",
    Role.RESIDUAL: "residual",
    Role.INDEX: "scalar prefetch",
    Role.OUTPUT: "output",
    Role.SCRATCH: "scratch",
}
"""The word for an input that is no plain operand."""

_HANDED: dict[str, str] = {"custom_linear_solve": "handed in by the solver"}
"""Where the inputs come from that the equation itself makes."""


def doors(subject: Subject, scope: Scope, inputs: Sequence[Value]) -> Iterator[Door | None]:
    """For each input of a scope what its door says; None where there is nothing to say but its name."""
    equation, call, body = scope.equation, scope.call, scope.body
    assert equation is not None and call is not None and scope.parent is not None
    captured = {capture.position: capture for capture in subject.captures(scope)}
    placed = subject.placement(scope) if equation.device else None
    crossings = {crossing.position: crossing for crossing in placed.entering} if placed else {}
    used = subject.used_by(scope)
    for at, variable in enumerate(body.inputs):
        operand, value, inner, capture = call.inputs[at], inputs[at], body.types[variable], captured.get(at)
        outer = inner if operand is None else type_of(scope.parent.body, equation.operands[operand])
        hue = _style.HUE_CAPTURED if capture else _style.HUE_IN
        if operand is not None and operand in crossings:
            word, strip, rows = _crossing(subject, scope, crossings[operand], variable, hue)
        else:
            word, strip, rows = _input(scope, at, outer, hue)
        if capture is not None:
            word = "captured constant" if capture.constant else "captured"
        elif not word and is_residual(scope, at):
            word = "residual"
        read_elsewhere = equation.boundary is Boundary.BRANCH and not (word or strip or rows)
        unused = variable not in used and not read_elsewhere and call.roles[at] is not Role.INDEX
        if not (word or strip or rows or unused):
            yield None
            continue
        name = capture.name if capture is not None else scope.name(variable)
        number = value.text if isinstance(value, Literal) else None
        yield Door(name, outer, inner, capture is not None, word, strip, rows, unused, number)


def _crossing(subject: Subject, scope: Scope, crossing: Crossing, variable: int, hue: Hue) -> _Told:
    """What is said where a variable enters a device scope."""
    seen = "{} in the body" if crossing.layout.free else "{} on each"
    rows = said(_strip.entering(crossing.layout), seen.format(crossing.inner.short))
    spec = crossing.layout.spec
    if spec is not None:
        beside = subject.beside(scope, variable, [name for names in spec for name in names])
        rows = (*rows, beside) if beside else rows
    return "", _strip.strip(crossing.layout, hue), rows


def _input(scope: Scope, at: int, outer: Type, hue: Hue) -> _Told:
    """What is said where a variable enters any other scope."""
    equation, call, body = scope.equation, scope.call, scope.body
    assert equation is not None and call is not None
    role, operand, inner = call.roles[at], call.inputs[at], body.types[body.inputs[at]]
    word = _ROLES.get(role, "")
    asked = equation.in_shardings[operand] if operand is not None and equation.in_shardings else None
    if asked is not None:
        layout = asked_layout(outer, asked)
        return word, _strip.strip(layout, hue), asked_clauses(layout, "asked")
    if equation.kernel is not None:
        return word, None, _block_rows(equation, call, at)
    if operand is None and not word:
        made = _HANDED.get(equation.primitive)
        return word, None, (made or "where it comes from is unknown",)
    if equation.boundary is Boundary.LOOP and role is Role.CONST:
        return word, None, ("the same each step",)
    if role is Role.SLICED:
        return word, None, (f"{inner.short} each step",)
    return word, None, ()


def _block_rows(equation: Equation, call: Call, at: int) -> tuple[str, ...]:
    """Which block of an array one step of a kernel's grid works on."""
    kernel, role, operand = equation.kernel, call.roles[at], call.inputs[at]
    assert kernel is not None
    if role is Role.SCRATCH:
        return ("working memory",)
    if role is Role.INDEX:
        return ("given to the block indices, too",)
    if role is Role.OUTPUT:
        operand = len(equation.operands) + call.roles[:at].count(Role.OUTPUT)
    if operand is None:
        return ("where it comes from is unknown",)
    block = kernel.blocks[operand] if operand < len(kernel.blocks) else None
    if block is None:
        return ("all of it in each step",) if kernel.grid else ()
    shape = f"({', '.join(map(str, block.shape))}{',' if len(block.shape) == 1 else ''})"
    where = f"at {block.index}" if block.index is not None else "at an index that is not known"
    return (" ".join(filter(None, ("block", shape, where, f"in {block.space}" if block.space else ""))),)
