"""What stands in the boxes of a picture: the labels of doors, exits and folded boxes, and their words."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprviz import _label, _style
from jaxprviz._graph import Value, Wire
from jaxprviz._label import bold, grey, plain, run, sized
from jaxprviz._placement import own_mesh
from jaxprviz._scope import Scope
from jaxprviz._spelling import spelled
from jaxprviz._words import backward_text
from jaxprviz.program import Body, Boundary, Equation, Literal, Role, Source, Type

MAX_TYPES = 6
"""More results than this are counted, not listed."""

_COMMUTATIVE = frozenset({"add", "add_any", "mul", "max", "min", "and", "or", "xor", "eq", "ne"})


# Labels ------------------------------------------------------------------------------------------------------


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


def ported_label(head: str, types: Sequence[Type], note: str | None = None) -> str:
    """The label of an equation with several results: edges start at the one that they carry."""
    more = f"<TR><TD>{note}</TD></TR>" if note else ""
    return (
        '<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0">'
        f"<TR><TD>{head}</TD></TR>{more}<TR><TD>{_ports(types)}</TD></TR></TABLE>>"
    )


def framed(rows: Sequence[str], colour: str, width: float = 1) -> str:
    """The label of a box of several rows, with a frame of its own; a row that is a table is centred."""
    inner = "".join(
        f"<TR><TD>{row}</TD></TR>" if row.startswith("<TABLE") else f'<TR><TD ALIGN="LEFT">{row}</TD></TR>'
        for row in rows
    )
    return (
        f'<<TABLE BORDER="{width:g}" CELLBORDER="0" CELLSPACING="0" CELLPADDING="4" COLOR="{colour}" '
        f'BGCOLOR="white" STYLE="rounded">{inner}</TABLE>>'
    )


# Words ------------------------------------------------------------------------------------------------------


def scope_title(scope: Scope) -> str:
    """`pmap g  4 devices`: what the frame is, the function's name, and what is worth knowing of it."""
    equation, call = scope.equation, scope.call
    assert equation is not None and call is not None
    single = len(equation.calls) == 1
    kind = spelled(equation.primitive) if single else call.label
    name = (equation.name if single else None) or scope.body.name
    backward = backward_text(equation)
    head = run(plain(kind), bold(name) if name else None, grey(backward) if backward else None)
    if equation.device is not None:
        mesh = own_mesh(scope, equation.device)
        around = [f"{axis}={size}" for axis, size in equation.device.mesh.axes if axis not in dict(mesh.axes)]
        at_each = f", at each position of {' × '.join(around)}" if around else ""
        devices = grey(counted(mesh.size, "device"))
        named = [f"{axis}={size}" for axis, size in mesh.axes if axis]
        if not named:
            return run(head, devices)
        axes = sized(grey(f"{mesh.size} devices: {' × '.join(named)}{at_each}", 60), _style.SMALL)
        rows = f'<TR><TD ALIGN="LEFT">{head}</TD></TR><TR><TD ALIGN="LEFT">{axes}</TD></TR>'
        return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">{rows}</TABLE>'
    steps = dict(equation.params).get("length")
    unknown = "wiring unknown" if equation.boundary is Boundary.UNKNOWN else None
    grid = grid_text(equation)
    return run(
        head,
        grey(f"{steps} steps") if steps else None,
        grey(grid) if grid else None,
        grey(unknown) if unknown else None,
    )


def grid_text(equation: Equation) -> str | None:
    """`grid 4 × 2`: over which steps a kernel runs; None where it runs once, and for other equations."""
    if equation.kernel is None or not equation.kernel.grid:
        return None
    return f"grid {' × '.join(map(str, equation.kernel.grid))}"


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
    return name or (value and (value.name or (value.maker and spelled(value.maker)))) or "·"


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
    """The size of a hexagon for a label of one or two lines: Graphviz itself would make it far wider."""
    lines = 1 + label.count("<BR ") // 2
    return {
        "fixedsize": "true",
        "height": "0.36" if lines == 1 else "0.54",
        "width": f"{_label.width(label) / 54 + 0.45:.2f}",
    }
