"""What stands in the boxes of a picture: the labels of doors, exits and folded boxes, and their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxprviz import _label, _strip, _style
from jaxprviz._facts import Crossing
from jaxprviz._graph import Value, Wire
from jaxprviz._label import bold, coloured, grey, plain, run, sized
from jaxprviz._scope import Scope
from jaxprviz._style import Line, Look
from jaxprviz.program import Body, Boundary, Equation, Literal, Role, Source, Type

MAX_TYPES = 6
"""More results than this are counted, not listed."""

_COMMUTATIVE = frozenset({"add", "add_any", "mul", "max", "min", "and", "or", "xor", "eq", "ne"})


# Doors ------------------------------------------------------------------------------------------------------


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


def folded_label(rows: Sequence[str], types: Sequence[Type]) -> str:
    """The label of a box that something is folded into."""
    inner = "".join(f'<TR><TD ALIGN="LEFT">{row}</TD></TR>' for row in rows)
    if len(types) == 1:
        inner += f'<TR><TD ALIGN="LEFT">{sized(types_text(types), _style.SMALL)}</TD></TR>'
    elif types:
        inner += f"<TR><TD>{_ports(types)}</TD></TR>"
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">{inner}</TABLE>>'


def _ports(types: Sequence[Type]) -> str:
    cells = "".join(
        f'<TD PORT="o{number}" BORDER="1" COLOR="#BBBBBB">{sized(grey(type.short), _style.SMALL)}</TD>'
        for number, type in enumerate(types[:MAX_TYPES])
    )
    if len(types) > MAX_TYPES:
        cells = f"<TD>{sized(grey(counted(len(types), 'result')), _style.SMALL)}</TD>"
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="2" CELLPADDING="2"><TR>{cells}</TR></TABLE>'


def ported_label(head: str, types: Sequence[Type]) -> str:
    """The label of an equation with several results: edges start at the one that they carry."""
    return (
        '<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0">'
        f"<TR><TD>{head}</TD></TR><TR><TD>{_ports(types)}</TD></TR></TABLE>>"
    )


# Words ------------------------------------------------------------------------------------------------------

LOOP_WORDS: dict[Role, tuple[str, str]] = {
    Role.CONST: ("", "the same each step"),
    Role.CARRY: ("carry", ""),
    Role.SLICED: ("sliced", ""),
}


def scope_title(scope: Scope) -> str:
    """`pmap g  4 devices`: what the frame is, the function's name, and what is worth knowing of it."""
    equation, call = scope.equation, scope.call
    assert equation is not None and call is not None
    single = len(equation.calls) == 1
    kind = equation.primitive if single else call.label
    name = (equation.name if single else None) or scope.body.name
    head = run(plain(kind), bold(name) if name else None)
    if equation.device is not None:
        mesh = equation.device.mesh
        devices = grey(counted(mesh.size, "device"))
        named = [f"{axis}={size}" for axis, size in mesh.axes if axis]
        if not named:
            return run(head, devices)
        axes = sized(grey(f"{mesh.size} devices: {' × '.join(named)}", 60), _style.SMALL)
        rows = f'<TR><TD ALIGN="LEFT">{head}</TD></TR><TR><TD ALIGN="LEFT">{axes}</TD></TR>'
        return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">{rows}</TABLE>'
    steps = dict(equation.params).get("length")
    unknown = "wiring unknown" if equation.boundary is Boundary.UNKNOWN else None
    return run(head, grey(f"{steps} steps") if steps else None, grey(unknown) if unknown else None)


def loop_result(equation: Equation, source: tuple[int, int | None]) -> str:
    which, output = source
    call = equation.calls[which]
    carries = sum(role is Role.CARRY for role in call.roles)
    if output is not None and output < carries:
        return "carry after the last step"
    steps = dict(equation.params).get("length")
    return f"stacked over {steps} steps" if steps else "stacked over the steps"


def operand_word(scope: Scope, atom: int | Literal, value: Value) -> str:
    """An operand in the brackets of an equation: a number, a name, or the primitive that it comes from."""
    if isinstance(value, Literal):
        return value.text
    name = scope.name(atom) if isinstance(atom, int) else None
    return name or (value and (value.name or value.maker)) or "·"


def order_matters(equation: Equation, given: Sequence[Value]) -> bool:
    wires = {value.key for value in given if isinstance(value, Wire)}
    return equation.primitive not in _COMMUTATIVE and len(wires) > 1


def told_apart(scope: Scope, equation: Equation, given: Sequence[Value]) -> bool:
    """Whether the operands' words tell them apart."""
    words: dict[str, object] = {}
    for atom, value in zip(equation.operands, given, strict=True):
        if isinstance(value, Wire):
            word = operand_word(scope, atom, value)
            if word == "·" or words.setdefault(word, value.key) != value.key:
                return False
    return True


def types_text(types: Sequence[Type]) -> str:
    if len(types) > MAX_TYPES:
        return grey(counted(len(types), "result"))
    return grey(", ".join(type.short for type in types), 60)


def type_of(body: Body, atom: int | Literal) -> Type:
    return body.types[atom] if isinstance(atom, int) else atom.type


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def bytes_text(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


def source_text(source: Source | None) -> str:
    if source is None:
        return ""
    file = f"{source.file}, " if source.file else ""
    return f"{file}line {source.line} in {source.function}"


def equation_tip(equation: Equation) -> str:
    """The source line and the parameters."""
    params = ", ".join(f"{key}={value}" for key, value in equation.params)
    head = " ".join(filter(None, (equation.primitive, equation.name)))
    return "; ".join(filter(None, (head, source_text(equation.source), params)))


def stem(name: str | None) -> str | None:
    """`params` of `params['w']`."""
    if name is None:
        return None
    cut = min((at for at in (name.find("["), name.find(".")) if at > 0), default=len(name))
    return name[:cut]


def hexagon(label: str) -> dict[str, str]:
    """The size of a hexagon for a one-line label: Graphviz itself would make it far wider."""
    return {"fixedsize": "true", "height": "0.36", "width": f"{_label.width(label) / 54 + 0.45:.2f}"}
