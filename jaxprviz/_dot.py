"""A program as DOT text: frames for open scopes, boxes for equations, doors where something crosses a frame.

The text is the same for the same program, whatever the process.  Boxes are named by where they stand
(`e_0_2_1`), never by a name of the program.  All edges stand after all frames: an edge inside a frame would
pull boxes into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprviz import _style
from jaxprviz._border import Border
from jaxprviz._boxes import (
    MAX_TYPES,
    bytes_text,
    equation_tip,
    scope_title,
    source_text,
)
from jaxprviz._canvas import Canvas
from jaxprviz._ends import Ends
from jaxprviz._equations import box, run_label, writes
from jaxprviz._facts import Capture, Placement
from jaxprviz._fold import Fold, Item, census, is_plain_call, only_wraps
from jaxprviz._graph import Cluster, Value, Values, Wire, box_id, read
from jaxprviz._label import bold, coloured, grey, plain, run
from jaxprviz._order import Order, ordered
from jaxprviz._scope import Scope
from jaxprviz._spelling import spelled
from jaxprviz._style import Frame, Line, Look
from jaxprviz._subject import Subject
from jaxprviz.program import Boundary, Constant, Equation, Program

LARGE = 1000
"""Constants of at least so many bytes tell their size."""

_MAX_ROW = 8


def dot(
    program: Program,
    fold: Fold,
    captures: Callable[[Scope], tuple[Capture, ...]],
    placement: Callable[[Scope], Placement | None],
) -> str:
    """The picture of a program as DOT text.

    Args:
        program: what to draw.
        fold: which scopes stand open.
        captures: the captured inputs of one scope.
        placement: how the variables of a device scope lie over its devices; None for any other scope.
    """
    canvas, subject = Canvas(), Subject(program, fold, captures, placement)
    _Drawing(canvas, subject).main(subject.root)
    return canvas.text()


class _Drawing:
    """The walk through a program: each open scope is drawn inside its frame."""

    def __init__(self, canvas: Canvas, subject: Subject) -> None:
        self._canvas, self._subject = canvas, subject
        self._border = Border(canvas, subject)
        self._ends = Ends(canvas, subject)

    def main(self, scope: Scope) -> None:
        """Draw the outermost function with its arguments and results.

        The program of a jitted function is one call of it: then the frame is that of the call.
        """
        body = scope.body
        if not only_wraps(body):
            cluster = self._canvas.frame(self._canvas.top, "s", Frame.MAIN)
            self._canvas.title(cluster, run(bold(scope.title())), source_text(body.source))
            self._ends.results(
                scope, cluster, self._body(scope, cluster, self._ends.arguments(scope, cluster))
            )
            return
        child = scope.child(0)
        equation = body.equations[0]
        if not is_plain_call(equation) or not self._subject.is_open(child):
            cluster = self._canvas.frame(self._canvas.top, "s", Frame.NONE)
            self._canvas.title(cluster, "", "")
            self._ends.results(
                scope, cluster, self._body(scope, cluster, self._ends.arguments(scope, cluster))
            )
            return
        self._subject.merges = True
        (call,) = equation.calls
        cluster = self._canvas.frame(self._canvas.top, f"s_{box_id(child.path)}", Frame.MAIN)
        self._canvas.title(cluster, scope_title(child), equation_tip(equation))
        values = dict(zip(body.inputs, self._ends.arguments(scope, cluster), strict=True))
        inputs = [read(values, equation.operands[at]) for at in call.inputs if at is not None]
        outputs = self._body(child, cluster, inputs)
        for variable, output in zip(equation.results, call.outputs, strict=True):
            if output is not None:
                values[variable] = outputs[output]
        self._ends.results(scope, cluster, [read(values, atom) for atom in body.outputs])

    def _body(self, scope: Scope, cluster: Cluster, inputs: Sequence[Value]) -> list[Value]:
        """Draw the inside of an open scope; what its outputs are."""
        body = scope.body
        values: Values = dict(zip(body.inputs, inputs, strict=True))
        for constant in body.constants:
            values[constant.variable] = self._constant(scope, cluster, constant)
        order = Order(self._canvas)
        for start, end in self._subject.items(scope):
            if end - start > 1:
                self._run(scope, cluster, (start, end), values)
                continue
            equation = body.equations[start]
            marks = ordered(scope, equation, values)
            if any(self._subject.is_open(scope.child(start, call)) for call in range(len(equation.calls))):
                self._opened(scope, cluster, start, values)
                frame = cluster.clusters[-1]
                order.add(marks, frame.title or frame.id, frame.lowest())
            else:
                node = self._box(scope, cluster, start, values)
                if cluster.title is not None and not cluster.row:
                    self._canvas.door(cluster, node)
                elif not any(isinstance(read(values, atom), Wire) for atom in equation.operands):
                    self._canvas.below_title(cluster, node)
                order.add(marks, node, node)
        return [read(values, atom) for atom in body.outputs]

    def _constant(self, scope: Scope, cluster: Cluster, constant: Constant) -> Wire | None:
        if constant.variable not in self._subject.used_by(scope):
            return None
        node = f"c_{box_id(scope.path)}_{constant.variable}"
        type = scope.body.types[constant.variable]
        word = "leaked tracer" if constant.leaked else "constant"
        size = type.nbytes
        label = run(
            bold(constant.name) if constant.name else None,
            grey(type.short),
            coloured(word, _style.PURPLE, strong=True),
            grey(bytes_text(size)) if size is not None and size >= LARGE else None,
        )
        self._canvas.node(cluster, node, Look.CONSTANT, {"label": f"<{label}>"}, f"{word}: {constant.text}")
        if len(scope.body.constants) <= _MAX_ROW:
            self._canvas.door(cluster, node)
        return Wire(node, (node, 0), constant.name, type, Look.CONSTANT)

    def _box(self, scope: Scope, cluster: Cluster, position: int, values: Values) -> str:
        """Draw an equation whose inside is not shown."""
        body = scope.body
        equation = body.equations[position]
        node = f"e_{box_id(scope.path, position)}"
        made = box(self._subject, scope, position, values)
        self._canvas.node(cluster, node, made.look, made.attributes, equation_tip(equation))
        for number, atom in enumerate(equation.operands):
            note = str(number + 1) if made.numbered else ""
            self._canvas.read(
                read(values, atom),
                node,
                cluster,
                number in made.captured,
                note,
                both=writes(scope, equation, number),
            )
        self._bind(scope, equation, node, values)
        return node

    def _run(self, scope: Scope, cluster: Cluster, item: Item, values: Values) -> None:
        """Draw consecutive equations as one box."""
        start, end = item
        body = scope.body
        equations = body.equations[start:end]
        node = f"e_{box_id(scope.path, start)}_to_{end - 1}"
        counts = ", ".join(f"{name} x {count}" for name, count in census(equations))
        tip = f"equations {start} to {end - 1}: {counts}. {source_text(equations[-1].source)}"
        self._canvas.node(cluster, node, Look.FOLDED, {"label": run_label(equations)}, tip)
        seen: set[tuple[str, int]] = set()
        for equation in equations:
            for atom in equation.operands:
                value = read(values, atom)
                if isinstance(value, Wire) and value.node != node and value.key not in seen:
                    seen.add(value.key)
                    self._canvas.read(value, node, cluster)
            for variable in equation.results:
                values[variable] = Wire(node, (node, variable), None, body.types[variable])

    def _bind(self, scope: Scope, equation: Equation, node: str, values: Values) -> None:
        ported = 1 < len(equation.results) <= MAX_TYPES
        for number, variable in enumerate(equation.results):
            port = f"o{number}" if ported else None
            name = scope.name(variable)
            values[variable] = Wire(
                node,
                (node, number),
                name,
                scope.body.types[variable],
                port=port,
                maker=_MADE_BY.get(equation.primitive, equation.primitive),
            )

    def _opened(self, scope: Scope, cluster: Cluster, position: int, values: Values) -> None:
        """Draw an equation of which at least one body stands open."""
        equation = scope.body.equations[position]
        single = len(equation.calls) == 1
        outer = cluster
        if not single:
            outer = self._canvas.frame(cluster, f"g_{box_id(scope.path, position)}", Frame.GROUP)
            self._canvas.title(
                outer,
                run(plain(spelled(equation.primitive)), bold(equation.name) if equation.name else None),
                equation_tip(equation),
            )
        captured = {
            call.inputs[capture.position]
            for number, call in enumerate(equation.calls)
            for capture in self._subject.captures(scope.child(position, number))
        }
        fed = {operand for call in equation.calls for operand in call.inputs if operand is not None}
        stray = [number for number in range(len(equation.operands)) if number not in fed]
        if stray and not single:
            self._canvas.door(outer, self._border.hub(scope, outer, position, stray, values))
        given = [read(values, atom) for atom in equation.operands]
        if not single:
            self._border.shared_doors(scope, outer, position, given, captured)
        found: list[list[Value]] = []
        entered: list[Value] = []
        for number in range(len(equation.calls)):
            child = scope.child(position, number)
            inputs = [None if at is None else given[at] for at in equation.calls[number].inputs]
            if self._subject.is_open(child):
                frame = self._inside(child, outer, stray if single else [], values)
                entered = self._border.enter(child, frame, inputs)
                found.append(self._body(child, frame, entered))
            else:
                found.append(self._border.closed_body(child, outer, inputs))
        self._border.leave(scope, outer, position, found, entered if single else [], values)

    def _inside(
        self,
        scope: Scope,
        cluster: Cluster,
        stray: Sequence[int],
        values: Values,
    ) -> Cluster:
        """Draw the frame of an open scope."""
        equation, call = scope.equation, scope.call
        assert equation is not None and call is not None and scope.parent is not None
        frame = self._canvas.frame(
            cluster, f"s_{box_id(scope.path)}", _FRAMES.get(equation.boundary, Frame.CALL)
        )
        self._canvas.title(frame, scope_title(scope), equation_tip(equation))
        assert frame.title is not None
        for number in stray:
            self._canvas.read(
                read(values, equation.operands[number]),
                frame.title,
                frame,
                line=Line.UNKNOWN,
            )
        return frame


_MADE_BY: dict[str, str] = {"get": "read"}
"""What is said of a value without a name that one of these primitives makes."""

_FRAMES: dict[Boundary | None, Frame] = {
    Boundary.CALL: Frame.CALL,
    Boundary.DEVICE: Frame.DEVICE,
    Boundary.UNKNOWN: Frame.UNKNOWN,
    Boundary.NAME: Frame.NAME,
}
