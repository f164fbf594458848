"""The legend as DOT text: samples of everything that pictures are made of, drawn from the same tables."""

from __future__ import annotations

from collections.abc import Iterator

from jaxprviz import _label, _strip, _style
from jaxprviz._asked import asked_rows
from jaxprviz._boxes import folded_label, framed, hexagon, ported_label
from jaxprviz._doors import Door, exit_label
from jaxprviz._facts import Crossing, Layout
from jaxprviz._label import bold, coloured, grey, lines, plain, run, sized
from jaxprviz._style import Frame, Line, Look
from jaxprviz.program import Mesh, Sharding, Type

_WHOLE = Type("float32", (2, 3), 4)
_SPLIT = Type("float32", (4, 2, 3), 4)
_MESH = Mesh((("", 4),))
_GRID = Mesh((("data", 2), ("model", 2)))

_ASKED = Sharding(Mesh((("data", 4),)), (("data",), ()))

_Row = tuple[Look, str, str]
"""How a sample looks, its label, and what it means."""


def legend_dot() -> str:
    """The legend as DOT text."""
    return "\n".join(
        [
            "digraph {",
            f"  graph [{_label.attributes({**_style.GRAPH, 'ranksep': '0.16'})}]",
            f"  node [{_label.attributes(_style.NODE)}]",
            f"  edge [{_label.attributes(_style.EDGE)}]",
            *_rows(),
            "}",
            "",
        ]
    )


def _samples() -> list[_Row]:
    typed = grey(_WHOLE.short)
    captured = Door("w", _WHOLE, _WHOLE, True, "captured", None, (), False, None)
    return [
        (Look.ARGUMENT, f"<{run(bold('w'), typed)}>", "an argument: its name and type"),
        (Look.RESULT, f"<{run(bold('result'), typed)}>", "a result"),
        (Look.UNUSED, f"<{run(bold('y'), typed, grey('unused'))}>", "an argument that nothing reads"),
        (
            Look.CONSTANT,
            f"<{run(bold('TABLE'), typed, coloured('constant', _style.PURPLE, strong=True))}>",
            "an array that was baked in when the function was traced",
        ),
        (
            Look.EQUATION,
            f"<{run(bold('h') + ' =', bold('mul') + '(w, 2.0)', typed)}>",
            "an equation: h = w * 2.0",
        ),
        (Look.EQUATION, ported_label(bold("split"), (_WHOLE, _WHOLE)), "an equation with two results"),
        (
            Look.COLLECTIVE,
            f"<{run(bold('psum'), plain('over data'))}>",
            "a collective: the devices exchange data",
        ),
        (
            Look.COLLECTIVE,
            lines(
                run(bold("psum"), plain("over data")), sized(plain("the same on all of data"), _style.SMALL)
            ),
            "a line says what becomes the same, or different, from device to device",
        ),
        (
            Look.HOST,
            f"<{run(plain('io_callback'), bold('save'), grey('on the host, in order'))}>",
            "a Python function that runs on the host",
        ),
        (
            Look.FOREIGN,
            f"<{run(plain('ffi_call'), bold('my_norm'))}>",
            "code that JAX knows nothing of",
        ),
        (
            Look.EQUATION,
            f"<{run(bold('writes'), plain('total[0, :]'))}>",
            "a part of a reference is written: its line has two heads",
        ),
        (
            Look.TABLE,
            framed(
                [
                    run(bold("with_sharding_constraint"), grey("f32[8,6]")),
                    *asked_rows(Type("float32", (8, 6), 4), _ASKED, "asked", _style.HUE_IN),
                ],
                _style.GREY,
            ),
            "how an array is asked to lie over the devices",
        ),
        (
            Look.FOLDED,
            folded_label([run(plain("scan"), bold("step")), grey("14 equations inside, path 0/2")], ()),
            'something that is folded: a scope, or equations in a row;\ndraw(f, x, open="0/2") opens this one',
        ),
        (Look.DOOR, f"<{bold('x')}>", "a door: x enters a frame, and is called x inside"),
        (
            captured.look,
            captured.label(),
            "a captured variable enters: the frame's function uses it,\nbut does not take it as an argument",
        ),
        (*_entering(_WHOLE, _MESH, ()), "each of 4 devices holds all of w"),
        (
            *_entering(_SPLIT, _MESH, (("",),)),
            "each device holds one part, and sees it without the split axis",
        ),
        (
            *_entering(Type("float32", (8, 6), 4), _GRID, (("data",),)),
            "a mesh of two axes: devices in a row hold the same part",
        ),
        (Look.TABLE, _leaving(), "the devices' results become one array"),
    ]


def _entering(whole: Type, mesh: Mesh, spec: tuple[tuple[str, ...], ...]) -> tuple[Look, str]:
    layout = Layout(whole, mesh, spec)
    name = "x" if spec else "w"
    strip = _strip.strip(layout, _style.HUE_IN)
    door = Door(name, whole, whole, False, "", strip, (", ".join(_strip.entering(layout)),), False, None)
    return door.look, door.label()


def _leaving() -> str:
    crossing = Crossing(0, Layout(_SPLIT, _MESH, (("",),)), _WHOLE, None)
    return exit_label(crossing, None, stacked=True)


_LINES: tuple[tuple[Line, str], ...] = (
    (Line.WIRE, "a value goes from where it is made to where it is read"),
    (Line.CAPTURED, "a captured variable, all the way from where it is bound"),
    (Line.UNKNOWN, "how a value reaches what is inside is not known"),
)

_FRAMES: tuple[tuple[Frame, str, str], ...] = (
    (Frame.CALL, run(plain("jit"), bold("g")), "the inside of a function, a loop or a branch"),
    (
        Frame.DEVICE,
        run(plain("pmap"), bold("g"), grey("4 devices")),
        "double: the inside runs once on every device",
    ),
)


def _rows() -> Iterator[str]:
    """From top to bottom: a sample on the left, its meaning on the right."""
    samples = _samples()
    for number, (look, label, meaning) in enumerate(samples):
        sample = {**_style.NODES[look], "label": label}
        yield _node(f"s{number}", {**sample, **hexagon(label)} if look is Look.COLLECTIVE else sample)
        yield from _row(number, f"s{number}", meaning)
    for number, (line, meaning) in enumerate(_LINES, len(samples)):
        end = {**_style.NODES[Look.DOOR], "label": "<&#160;>"}
        yield _node(f"s{number}", end)
        yield _node(f"e{number}", end)
        yield from _row(number, f"e{number}", meaning)
        yield f"  {{rank=same s{number} e{number}}}"
        yield f"  s{number} -> e{number} [{_label.attributes({**_style.EDGES[line], 'minlen': '2'})}]"
    for number, (frame, title, meaning) in enumerate(_FRAMES, len(samples) + len(_LINES)):
        yield from _frame(number, frame, title, meaning)


def _row(number: int, last: str, meaning: str) -> Iterator[str]:
    """The meaning beside a sample, both below those of the row before."""
    rows = [plain(row, 90) for row in meaning.split("\n")]
    yield _node(f"m{number}", {**_style.NODES[Look.TABLE], "label": _label.lines(*rows)})
    yield f"  {{rank=same {last} m{number}}}"
    yield f"  {last} -> m{number} [style=invis]"
    if number:
        yield f"  s{number - 1}:w -> s{number}:w [style=invis weight=50]"
        yield f"  m{number - 1}:w -> m{number}:w [style=invis weight=50]"


def _frame(number: int, frame: Frame, title: str, meaning: str) -> Iterator[str]:
    inner = {"label": "", "tooltip": " ", "margin": "9", **_style.frame(frame, 0)}
    double = frame is Frame.DEVICE
    for depth, attributes in enumerate([{**inner, "margin": "3"}, inner] if double else [inner]):
        yield f"  subgraph cluster_{number}_{depth} {{"
        yield f"  {_label.attributes(attributes)}"
    yield _node(
        f"s{number}",
        {**_style.NODES[Look.TITLE], "label": f"<{title + _label.GAP * 3 + plain(meaning, 90)}>"},
    )
    yield "  }" * (2 if double else 1)
    yield f"  s{number - 1}:w -> s{number}:w [style=invis weight=50]"


def _node(name: str, attributes: dict[str, str]) -> str:
    return f"  {name} [{_label.attributes({**attributes, 'tooltip': ' '})}]"
