"""A program as DOT text: frames for open scopes, boxes for equations, doors where something crosses a frame.

The text is the same for the same program, whatever the process.  Boxes are named by where they stand
(`e_0_2_1`), never by a name of the program.  All edges stand after all frames: an edge inside a frame would
pull boxes into it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from jaxprviz import _label, _strip, _style
from jaxprviz._boxes import (
    LOOP_WORDS,
    MAX_TYPES,
    Door,
    bytes_text,
    counted,
    equation_tip,
    exit_label,
    folded_label,
    hexagon,
    loop_result,
    operand_word,
    order_matters,
    plain_door,
    ported_label,
    said,
    scope_title,
    source_text,
    stem,
    told_apart,
    type_of,
    types_text,
)
from jaxprviz._facts import Capture, Crossing, Placement
from jaxprviz._fold import MAX_DOORS, Fold, Item, census
from jaxprviz._graph import Cluster, Use, Value, Wire
from jaxprviz._label import bold, coloured, grey, lines, plain, run, sized
from jaxprviz._scope import Path, Scope, path_text
from jaxprviz._style import Frame, Line, Look
from jaxprviz._text import one_line
from jaxprviz._words import SILENT
from jaxprviz.program import Body, Boundary, Constant, Equation, Literal, Program, Role, Type

WIDE = 5
"""A value with more uses than this is drawn again beside each of them."""

LARGE = 1000
"""Constants of at least so many bytes tell their size."""

_MAX_ARGUMENTS = 16
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
    return _Drawing(program, fold, captures, placement).text()


class _Drawing:
    """One picture while it is drawn: frames, boxes, and who reads what."""

    def __init__(
        self,
        program: Program,
        fold: Fold,
        captures: Callable[[Scope], tuple[Capture, ...]],
        placement: Callable[[Scope], Placement | None],
    ) -> None:
        self._fold, self._captures, self._placement = fold, captures, placement
        self._items = dict(fold.items)
        self._uses: list[Use] = []
        self._hidden: list[str] = []
        self._last: list[str] = []
        self._nested: list[tuple[Cluster, Cluster, bool]] = []
        self._used: dict[int, frozenset[int]] = {}
        self._top = Cluster("top", {})
        self._main(Scope.root(program))

    # The outermost scope ------------------------------------------------------------------------------------

    def _main(self, scope: Scope) -> None:
        """Draw the outermost function with its arguments and results.

        The program of a jitted function is one call of it: then the frame is that of the call.
        """
        body = scope.body
        if not _only_wraps(body):
            cluster = self._frame(self._top, "s", Frame.MAIN)
            self._title(cluster, run(bold(scope.title())), source_text(body.source))
            self._results(scope, cluster, self._body(scope, cluster, self._arguments(scope, cluster)))
            return
        child = scope.child(0)
        equation = body.equations[0]
        if not _is_plain_call(equation) or not self._fold.is_open(child):
            cluster = self._frame(self._top, "s", Frame.NONE)
            self._title(cluster, "", "")
            self._results(scope, cluster, self._body(scope, cluster, self._arguments(scope, cluster)))
            return
        (call,) = equation.calls
        cluster = self._frame(self._top, f"s_{_id(child.path)}", Frame.MAIN)
        self._title(cluster, scope_title(child), equation_tip(equation))
        values = dict(zip(body.inputs, self._arguments(scope, cluster), strict=True))
        inputs = [self._value(values, equation.operands[at]) for at in call.inputs if at is not None]
        outputs = self._body(child, cluster, inputs)
        for variable, output in zip(equation.results, call.outputs, strict=True):
            if output is not None:
                values[variable] = outputs[output]
        self._results(scope, cluster, [self._value(values, atom) for atom in body.outputs])

    def _arguments(self, scope: Scope, cluster: Cluster) -> list[Value]:
        body = scope.body
        used = self._used_by(scope)
        found: list[Value] = [None] * len(body.inputs)
        groups = _groups(body.input_names, _MAX_ARGUMENTS)
        for number, (name, positions) in enumerate(groups):
            node = f"a_{number}"
            dead = not any(body.inputs[at] in used for at in positions)
            look = Look.UNUSED if dead else Look.ARGUMENT
            types = [body.types[body.inputs[at]] for at in positions]
            if len(positions) == 1:
                label = run(
                    bold(name) if name else None, grey(types[0].short), grey("unused") if dead else None
                )
                tip = f"argument {positions[0]}: {name or ''} {types[0].short}"
            else:
                label = run(bold(name or "arguments"), grey(f"{len(positions)} arrays"))
                tip = ", ".join(filter(None, (body.input_names[at] for at in positions)))
            self._node(cluster, node, look, {"label": f"<{label}>"}, tip)
            if len(groups) <= _MAX_ROW or number == 0:
                self._door(cluster, node)
            for at, type in zip(positions, types, strict=True):
                found[at] = Wire(node, ("a", at), name, type if len(positions) == 1 else None, look)
        return found

    def _results(self, scope: Scope, cluster: Cluster, outputs: list[Value]) -> None:
        body = scope.body
        names = [name or "result" for name in body.output_names]
        for number, (name, positions) in enumerate(_groups(names, _MAX_ARGUMENTS)):
            node = f"r_{number}"
            value = outputs[positions[0]]
            if len(positions) == 1:
                type = type_of(body, body.outputs[positions[0]])
                number_text = bold(value.text) if isinstance(value, Literal) else None
                label = run(
                    bold(name or "result"), "=" if number_text else None, number_text, grey(type.short)
                )
                tip = f"result {positions[0]}: {name} {type.short}"
            else:
                label = run(bold(name or "results"), grey(f"{len(positions)} arrays"))
                tip = ", ".join(names[at] for at in positions)
            self._node(cluster, node, Look.RESULT, {"label": f"<{label}>"}, tip)
            cluster.last.append(node)
            self._last.append(node)
            for at in positions:
                self._read(outputs[at], node, cluster)

    # Bodies and equations -----------------------------------------------------------------------------------

    def _body(self, scope: Scope, cluster: Cluster, inputs: Sequence[Value]) -> list[Value]:
        """Draw the inside of an open scope; what its outputs are."""
        body = scope.body
        values: dict[int, Value] = dict(zip(body.inputs, inputs, strict=True))
        for constant in body.constants:
            values[constant.variable] = self._constant(scope, cluster, constant)
        last_effect: str | None = None
        for start, end in self._items[scope.path]:
            if end - start > 1:
                self._run(scope, cluster, (start, end), values)
                continue
            equation = body.equations[start]
            if any(self._fold.is_open(scope.child(start, call)) for call in range(len(equation.calls))):
                self._opened(scope, cluster, start, values)
            else:
                node = self._box(scope, cluster, start, values)
                if cluster.title is not None and not cluster.row:
                    self._door(cluster, node)
                if not equation.results:
                    if last_effect:
                        self._hide(last_effect, node)
                    last_effect = node
        return [self._value(values, atom) for atom in body.outputs]

    @staticmethod
    def _value(values: dict[int, Value], atom: int | Literal) -> Value:
        return values.get(atom) if isinstance(atom, int) else atom

    def _constant(self, scope: Scope, cluster: Cluster, constant: Constant) -> Wire | None:
        if constant.variable not in self._used_by(scope):
            return None
        node = f"c_{_id(scope.path)}_{constant.variable}"
        type = scope.body.types[constant.variable]
        word = "leaked tracer" if constant.leaked else "constant"
        size = type.nbytes
        label = run(
            bold(constant.name) if constant.name else None,
            grey(type.short),
            coloured(word, _style.PURPLE, strong=True),
            grey(bytes_text(size)) if size is not None and size >= LARGE else None,
        )
        self._node(cluster, node, Look.CONSTANT, {"label": f"<{label}>"}, f"{word}: {constant.text}")
        if len(scope.body.constants) <= _MAX_ROW:
            self._door(cluster, node)
        return Wire(node, (node, 0), constant.name, type, Look.CONSTANT)

    def _box(self, scope: Scope, cluster: Cluster, position: int, values: dict[int, Value]) -> str:
        """Draw an equation whose inside is not shown."""
        body = scope.body
        equation = body.equations[position]
        node = f"e_{_id(scope.path, position)}"
        types = [body.types[variable] for variable in equation.results]
        captured: frozenset[int] = frozenset()
        if equation.calls:
            attributes, captured = self._folded_label(scope, position, types)
            look = Look.FOLDED
        else:
            attributes = {"label": self._equation_label(scope, equation, values, types)}
            look = Look.EQUATION if equation.results else Look.EFFECT
            if equation.axes and equation.primitive not in SILENT:
                look = Look.COLLECTIVE
                attributes |= hexagon(attributes["label"])
        self._node(cluster, node, look, attributes, equation_tip(equation))
        given = [self._value(values, atom) for atom in equation.operands]
        numbered = (
            not equation.calls and order_matters(equation, given) and not told_apart(scope, equation, given)
        )
        for number, atom in enumerate(equation.operands):
            note = str(number + 1) if numbered and len(equation.operands) <= 4 else ""
            self._read(self._value(values, atom), node, cluster, number in captured, note)
        self._bind(scope, equation, node, values)
        return node

    def _equation_label(
        self, scope: Scope, equation: Equation, values: dict[int, Value], types: Sequence[Type]
    ) -> str:
        name = scope.name(equation.results[0]) if len(equation.results) == 1 else None
        over = ", ".join(filter(None, equation.axes)) or "the devices"
        head = run(
            f"{bold(name)} =" if name else None,
            bold(equation.primitive) + self._operands(scope, equation, values),
            plain(f"over {over}") if equation.axes else None,
        )
        if len(types) > 1:
            return ported_label(head, types)
        return lines(run(head, types_text(types) if types else None))

    def _operands(self, scope: Scope, equation: Equation, values: dict[int, Value]) -> str:
        """The operands in brackets, where one is a number or where their order matters and can be told."""
        given = [self._value(values, atom) for atom in equation.operands]
        shown = order_matters(equation, given) and told_apart(scope, equation, given)
        if not shown and not any(isinstance(value, Literal) for value in given):
            return ""
        words = [
            plain(operand_word(scope, atom, value), 16)
            for atom, value in zip(equation.operands, given, strict=True)
        ]
        if len(words) > 4:
            words = [*words[:3], "…"]
        return f"({', '.join(words)})"

    def _folded_label(
        self, scope: Scope, position: int, types: Sequence[Type]
    ) -> tuple[dict[str, str], frozenset[int]]:
        equation = scope.body.equations[position]
        captured: dict[int, str] = {}
        inside = 0
        title = equation.name
        for number, call in enumerate(equation.calls):
            child = scope.child(position, number)
            inside += len(child.body.equations)
            title = title or child.body.name
            for capture in self._captures(child):
                operand = call.inputs[capture.position]
                if operand is not None:
                    captured[operand] = capture.name or "a value"
        devices = f"{equation.device.mesh.size} devices" if equation.device else None
        head = run(
            plain(equation.primitive), bold(title) if title else None, grey(devices) if devices else None
        )
        names = list(dict.fromkeys(captured.values()))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        rows = [
            head,
            sized(grey(counted(inside, "equation") + " inside"), _style.SMALL),
            sized(
                coloured(f"captured: {', '.join(names[:3])}{more}", _style.ORANGE, strong=True), _style.SMALL
            )
            if names
            else None,
        ]
        return {"label": folded_label([row for row in rows if row], types)}, frozenset(captured)

    def _run(self, scope: Scope, cluster: Cluster, item: Item, values: dict[int, Value]) -> None:
        """Draw consecutive equations as one box."""
        start, end = item
        body = scope.body
        equations = body.equations[start:end]
        node = f"e_{_id(scope.path, start)}_to_{end - 1}"
        counts = census(equations)
        words = [f"{name} × {count}" if count > 1 else name for name, count in counts[:4]]
        more = counted(len(counts) - 4, "other primitive") if len(counts) > 4 else None
        rows = [
            bold(counted(len(equations), "equation")),
            *(grey(word) for word in words),
            grey(more) if more else None,
        ]
        last = equations[-1]
        tip = f"equations {start} to {end - 1}: " + ", ".join(f"{name} x {count}" for name, count in counts)
        label = folded_label([row for row in rows if row], ())
        self._node(cluster, node, Look.FOLDED, {"label": label}, f"{tip}. {source_text(last.source)}")
        seen: set[tuple[str, int]] = set()
        for equation in equations:
            for atom in equation.operands:
                value = self._value(values, atom)
                if isinstance(value, Wire) and value.node != node and value.key not in seen:
                    seen.add(value.key)
                    self._read(value, node, cluster)
            for variable in equation.results:
                values[variable] = Wire(node, (node, variable), None, body.types[variable])

    def _bind(self, scope: Scope, equation: Equation, node: str, values: dict[int, Value]) -> None:
        ported = 1 < len(equation.results) <= MAX_TYPES
        for number, variable in enumerate(equation.results):
            port = f"o{number}" if ported else None
            name = scope.name(variable)
            values[variable] = Wire(
                node, (node, number), name, scope.body.types[variable], port=port, maker=equation.primitive
            )

    # Open scopes --------------------------------------------------------------------------------------------

    def _opened(self, scope: Scope, cluster: Cluster, position: int, values: dict[int, Value]) -> None:
        """Draw an equation of which at least one body stands open."""
        equation = scope.body.equations[position]
        single = len(equation.calls) == 1
        outer = cluster
        if not single:
            outer = self._frame(cluster, f"g_{_id(scope.path, position)}", Frame.GROUP)
            self._title(
                outer,
                run(plain(equation.primitive), bold(equation.name) if equation.name else None),
                equation_tip(equation),
            )
        captured = {
            call.inputs[capture.position]
            for number, call in enumerate(equation.calls)
            for capture in self._captures(scope.child(position, number))
        }
        fed = {operand for call in equation.calls for operand in call.inputs if operand is not None}
        stray = [number for number in range(len(equation.operands)) if number not in fed]
        if stray and not single:
            self._door(outer, self._hub(scope, outer, position, stray, values))
        given = [self._value(values, atom) for atom in equation.operands]
        if not single:
            for operand in sorted(fed):
                given[operand] = self._shared_door(
                    scope, outer, (position, operand), given[operand], operand in captured
                )
        found: list[list[Value]] = []
        for number in range(len(equation.calls)):
            child = scope.child(position, number)
            inputs = [None if at is None else given[at] for at in equation.calls[number].inputs]
            if self._fold.is_open(child):
                found.append(self._inside(child, outer, inputs, stray if single else [], values))
            else:
                found.append(self._closed_body(child, outer, inputs))
        self._leave(scope, outer, position, found, values)

    def _shared_door(
        self, scope: Scope, frame: Cluster, place: tuple[int, int], value: Value, captured: bool
    ) -> Value:
        """Where an operand enters the frame around several bodies, on its way to them."""
        if not isinstance(value, Wire):
            return value
        node = f"d_{_id(scope.path, place[0])}_in_{place[1]}"
        atom = scope.body.equations[place[0]].operands[place[1]]
        name = scope.name(atom) if isinstance(atom, int) else None
        label = bold(name) if name else grey(value.type.short if value.type else "several values")
        colour = {"color": _style.ORANGE} if captured else {}
        self._node(frame, node, Look.DOOR, {"label": f"<{label}>", **colour}, value.tip)
        self._door(frame, node)
        self._read(value, node, frame, captured)
        line = Line.CAPTURED if captured else value.line
        return replace(value, node=node, key=(node, 0), name=name, look=Look.DOOR, line=line, port=None)

    def _hub(
        self, scope: Scope, cluster: Cluster, position: int, stray: Sequence[int], values: dict[int, Value]
    ) -> str:
        """The box that reads the operands that reach none of the bodies: what a branch is chosen by."""
        equation = scope.body.equations[position]
        node = f"h_{_id(scope.path, position)}"
        chosen = equation.boundary is Boundary.BRANCH
        text = "chooses the branch" if chosen else "use unknown"
        self._node(
            cluster,
            node,
            Look.JOIN if chosen else Look.UNKNOWN,
            {"label": f"<{plain(text)}>"},
            equation_tip(equation),
        )
        for number in stray:
            self._read(
                self._value(values, equation.operands[number]),
                node,
                cluster,
                line=None if chosen else Line.UNKNOWN,
            )
        return node

    def _closed_body(self, scope: Scope, cluster: Cluster, inputs: Sequence[Value]) -> list[Value]:
        """Draw one folded body of an equation whose other bodies stand open."""
        node = f"s_{_id(scope.path)}"
        call = scope.call
        assert call is not None
        rows = [
            run(plain(call.label), bold(scope.body.name) if scope.body.name else None),
            sized(grey(counted(len(scope.body.equations), "equation") + " inside"), _style.SMALL),
        ]
        self._node(
            cluster, node, Look.FOLDED, {"label": folded_label(rows, ())}, source_text(scope.body.source)
        )
        captured = {capture.position for capture in self._captures(scope)}
        for number, value in enumerate(inputs):
            self._read(value, node, cluster, number in captured)
        return [
            Wire(node, (node, number), None, type_of(scope.body, atom))
            for number, atom in enumerate(scope.body.outputs)
        ]

    def _inside(
        self,
        scope: Scope,
        cluster: Cluster,
        inputs: Sequence[Value],
        stray: Sequence[int],
        values: dict[int, Value],
    ) -> list[Value]:
        """Draw an open scope: its frame, its doors, its body."""
        equation, call = scope.equation, scope.call
        assert equation is not None and call is not None and scope.parent is not None
        frame = self._frame(cluster, f"s_{_id(scope.path)}", _FRAMES.get(equation.boundary, Frame.CALL))
        self._title(frame, scope_title(scope), equation_tip(equation))
        assert frame.title is not None
        for number in stray:
            self._read(
                self._value(values, equation.operands[number]),
                frame.title,
                frame,
                line=Line.UNKNOWN,
            )
        return self._body(scope, frame, self._enter(scope, frame, inputs))

    def _enter(self, scope: Scope, frame: Cluster, inputs: Sequence[Value]) -> list[Value]:
        """Draw the doors of a scope; what its inputs are inside."""
        doors = list(self._doors(scope, inputs))
        used = self._used_by(scope)
        # Without its door a line would come in from the side, past the boxes of the first row.
        doors = [
            door or (plain_door(scope, variable) if isinstance(value, Wire) and variable in used else None)
            for door, variable, value in zip(doors, scope.body.inputs, inputs, strict=True)
        ]
        if sum(door is not None for door in doors) > MAX_DOORS:
            return self._grouped_doors(scope, frame, inputs, doors)
        found: list[Value] = []
        for at, (value, door) in enumerate(zip(inputs, doors, strict=True)):
            if door is None:
                found.append(value)
                continue
            node = f"d_{_id(scope.path)}_{at}"
            self._node(frame, node, door.look, {"label": door.label()}, door.tip)
            self._door(frame, node)
            self._read(value, node, frame, door.captured)
            found.append(Wire(node, (node, 0), door.name, door.inner, Look.DOOR, door.line))
        return found

    def _grouped_doors(
        self, scope: Scope, frame: Cluster, inputs: Sequence[Value], doors: Sequence[Door | None]
    ) -> list[Value]:
        """Doors that say the same of variables of one tree share one."""
        found = list(inputs)
        groups: dict[tuple[object, ...], list[int]] = {}
        for at, door in enumerate(doors):
            if door is not None:
                groups.setdefault((stem(door.name), *door.sort), []).append(at)
        for number, positions in enumerate(groups.values()):
            node = f"d_{_id(scope.path)}_{number}"
            first = doors[positions[0]]
            assert first is not None
            door = first if len(positions) == 1 else first.of_many(stem(first.name), len(positions))
            tip = ", ".join(doors[at].tip for at in positions)  # type: ignore[union-attr]
            self._node(frame, node, door.look, {"label": door.label()}, tip)
            self._door(frame, node)
            for at in positions:
                self._read(inputs[at], node, frame, door.captured)
                inner = first.inner if len(positions) == 1 else None
                found[at] = Wire(node, (node, at), door.name, inner, Look.DOOR, door.line)
        return found

    def _doors(self, scope: Scope, inputs: Sequence[Value]) -> Iterator[Door | None]:
        """For each input of a scope what its door says; None where its edge goes straight in."""
        equation, call, body = scope.equation, scope.call, scope.body
        assert equation is not None and call is not None and scope.parent is not None
        captured = {capture.position: capture for capture in self._captures(scope)}
        placed = self._placement(scope) if equation.device else None
        crossings = {crossing.position: crossing for crossing in placed.entering} if placed else {}
        used = self._used_by(scope)
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

    def _leave(
        self,
        scope: Scope,
        cluster: Cluster,
        position: int,
        found: Sequence[Sequence[Value]],
        values: dict[int, Value],
    ) -> None:
        """Draw how the results of an open equation come about, and bind them."""
        equation = scope.body.equations[position]
        inner = cluster.clusters[-1] if len(equation.calls) == 1 else cluster
        left: dict[int, Crossing] = {}
        if equation.device is not None:
            placed = self._placement(scope.child(position))
            left = {crossing.position: crossing for crossing in placed.leaving} if placed else {}
        unknown: list[int] = []
        taken: list[set[int]] = [set() for _ in equation.calls]
        for number, variable in enumerate(equation.results):
            sources = [
                (which, call.outputs[number])
                for which, call in enumerate(equation.calls)
                if number < len(call.outputs) and call.outputs[number] is not None
            ]
            for which, output in sources:
                taken[which].add(output)  # type: ignore[arg-type]
            inside = [found[which][output] for which, output in sources]  # type: ignore[index]
            if not inside:
                unknown.append(number)
                continue
            name = scope.name(variable)
            type = scope.body.types[variable]
            node = f"x_{_id(scope.path, position)}_{number}"
            label: str | None = None
            look = Look.TABLE
            if number in left:
                label = exit_label(
                    left[number], inside[0], stacked=equation.device is not None and equation.device.mapped
                )
            elif equation.boundary is Boundary.LOOP:
                text = loop_result(equation, sources[0])
                look, label = Look.JOIN, f"<{run(plain(text), grey(type.short))}>"
            elif len(inside) > 1:
                word = (
                    "from the branch taken" if equation.boundary is Boundary.BRANCH else "from one of these"
                )
                look, label = Look.JOIN, f"<{run(plain(word), grey(type.short))}>"
            if label is None:
                value = inside[0]
                values[variable] = (
                    replace(value, name=name or value.name) if isinstance(value, Wire) else value
                )
                continue
            self._node(inner, node, look, {"label": label}, name or "result")
            for value in inside:
                self._read(value, node, inner)
            values[variable] = Wire(node, (node, 0), name, type)
        self._loose(scope, inner, position, found, taken, unknown, values)

    def _loose(
        self,
        scope: Scope,
        cluster: Cluster,
        position: int,
        found: Sequence[Sequence[Value]],
        taken: Sequence[set[int]],
        unknown: Sequence[int],
        values: dict[int, Value],
    ) -> None:
        """Draw outputs that become no result, and results that come from no known output."""
        equation = scope.body.equations[position]
        loose = [
            (which, value)
            for which, outputs in enumerate(found)
            for output, value in enumerate(outputs)
            if output not in taken[which]
        ]
        if unknown:
            node = f"x_{_id(scope.path, position)}_unknown"
            self._node(
                cluster,
                node,
                Look.UNKNOWN,
                {"label": f"<{plain('results, wiring unknown')}>"},
                equation_tip(equation),
            )
            if not loose:
                self._hide(cluster.nodes[-2][0], node)
            for _, value in loose:
                self._read(value, node, cluster, line=Line.UNKNOWN)
            for number in unknown:
                variable = equation.results[number]
                values[variable] = Wire(
                    node, (node, number), scope.name(variable), scope.body.types[variable], line=Line.UNKNOWN
                )
            return
        for number, (which, value) in enumerate(loose):
            if not isinstance(value, Wire):
                continue
            node = f"x_{_id(scope.path, position)}_loose_{number}"
            goes_on = equation.boundary is Boundary.LOOP and equation.calls[which].label == "cond"
            text = "next step if true" if goes_on else "output, not used outside"
            inner = next(
                (c for c in cluster.clusters if c.id == f"s_{_id((*scope.path, (position, which)))}"), cluster
            )
            label = run(plain(text), grey(value.type.short) if value.type else None)
            self._node(inner, node, Look.JOIN, {"label": f"<{label}>"}, text)
            self._read(value, node, inner)

    # Pieces -------------------------------------------------------------------------------------------------

    def _used_by(self, scope: Scope) -> frozenset[int]:
        """The variables of a body that an equation reads or that it returns."""
        number = scope.number
        if number not in self._used:
            body = scope.body
            atoms = [*body.outputs, *(atom for equation in body.equations for atom in equation.operands)]
            self._used[number] = frozenset(atom for atom in atoms if isinstance(atom, int))
        return self._used[number]

    def _frame(self, parent: Cluster, name: str, frame: Frame) -> Cluster:
        # Side by side, any of several bodies may come to stand left.
        leftmost = bool(not parent.clusters and parent.column and not parent.group)
        cluster = Cluster(
            name,
            {"id": name, "label": "", "tooltip": " ", "margin": "9", **_style.frame(frame, parent.depth)},
            column=parent.column if leftmost else name,
            depth=parent.depth + 1,
            double=frame is Frame.DEVICE,
            group=frame is Frame.GROUP,
            title=f"t{name}",
        )
        self._nested.append((parent, cluster, leftmost))
        parent.clusters.append(cluster)
        return cluster

    def _title(self, cluster: Cluster, label: str, tip: str) -> None:
        assert cluster.title is not None
        self._node(cluster, cluster.title, Look.TITLE, {"label": f"<{label}>", "group": cluster.column}, tip)
        cluster.title_width = _label.width(f"<{label}>", 12)
        self._node(cluster, cluster.wall, Look.WALL, {"group": cluster.column})
        self._hide(cluster.title, cluster.wall, aligned=True)

    def _node(
        self, cluster: Cluster, name: str, look: Look, attributes: dict[str, str], tip: str = ""
    ) -> None:
        drawn = {"id": name, **_style.NODES[look], **attributes}
        if look is not Look.WALL:
            drawn["tooltip"] = _label.shorten(one_line(tip), _label.TIP_LENGTH) or " "
        cluster.nodes.append((name, drawn))

    def _door(self, cluster: Cluster, node: str) -> None:
        """Put a box into the first row of a frame."""
        cluster.row.append(node)
        (label,) = (drawn["label"] for name, drawn in cluster.nodes if name == node)
        cluster.row_width = min(cluster.row_width, _label.width(label))

    def _hide(self, tail: str, head: str, weight: int = 1, aligned: bool = False) -> None:
        """Hold one box above another without a line; aligned ones begin at the same left edge."""
        ports = (":w", ":w") if aligned else ("", "")
        self._hidden.append(f"{tail}{ports[0]} -> {head}{ports[1]} [style=invis weight={weight}]")

    def _read(
        self,
        value: Value,
        node: str,
        cluster: Cluster,
        captured: bool = False,
        note: str = "",
        line: Line | None = None,
    ) -> None:
        if isinstance(value, Wire):
            self._uses.append(
                Use(value, node, cluster, Line.CAPTURED if captured else line or value.line, note)
            )

    # Writing ------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The DOT text."""
        edges = list(self._edges())
        if self._top.clusters and self._last:
            read = {use.wire.node for use in self._uses}
            for use in self._uses:
                if use.node not in read and use.node not in self._last:
                    self._hide(use.node, self._last[0], weight=2)
                    read.add(use.node)
        for cluster in (self._top, *(cluster for _, cluster, _ in self._nested)):
            if cluster.title is not None:
                for node in cluster.row:
                    self._hide(cluster.wall, node)
        for parent, cluster, leftmost in self._nested:
            if parent.title is None or cluster.title is None:
                continue
            if leftmost or not cluster.row:
                above = parent.wall if parent.row else parent.title
                self._hide(above, cluster.title, aligned=leftmost)
        head = [
            "digraph {",
            f"  graph [{_label.attributes(_style.GRAPH)}]",
            f"  node [{_label.attributes(_style.NODE)}]",
            f"  edge [{_label.attributes(_style.EDGE)}]",
        ]
        return "\n".join(
            [*head, *self._top.write(), *(f"  {edge}" for edge in (*self._hidden, *edges)), "}", ""]
        )

    def _edges(self) -> Iterator[str]:
        """The edges; values with many uses are drawn again beside all uses but the first."""
        readers = Counter(key for key in {(use.wire.key, use.wire.node, use.node) for use in self._uses})
        uses = Counter(key for key, _, _ in readers)
        copied: set[tuple[tuple[str, int], str]] = set()
        first: set[tuple[str, int]] = set()
        drawn: Counter[tuple[object, ...]] = Counter()
        kept: dict[tuple[object, ...], Use] = {}
        for use in self._uses:
            wire = use.wire
            if uses[wire.key] > WIDE and wire.name is not None:
                if wire.key in first and (wire.key, use.node) not in copied:
                    copied.add((wire.key, use.node))
                first.add(wire.key)
                if (wire.key, use.node) in copied:
                    use = replace(use, wire=self._copy(wire, use))
            edge = (use.wire.node, use.wire.port, use.node, use.line, use.note)
            drawn[(*edge, use.wire.key)] += 1
            kept.setdefault(edge, use)
        doors = {node for _, cluster, _ in self._nested for node in (*cluster.row, *cluster.last)}
        entries = {node for _, cluster, _ in self._nested for node in cluster.row}
        for edge, use in kept.items():
            attributes = dict(_style.EDGES[use.line])
            if use.node in doors:
                attributes |= (
                    {"weight": str(_ENTRY_WEIGHT), "minlen": "2"} if use.node in entries else {"weight": "6"}
                )
            times = drawn[(*edge, use.wire.key)]
            if times > 1:
                attributes["label"] = f"<{_label.GAP}×{times}>"
            if use.note:
                attributes |= {"headlabel": f"<{sized(grey(use.note), _style.TINY)}>", "labeldistance": "1.3"}
            attributes["tooltip"] = _label.shorten(one_line(use.wire.tip), _label.TIP_LENGTH)
            tail = f"{use.wire.node}:{use.wire.port}:s" if use.wire.port else use.wire.node
            yield f"{tail} -> {use.node} [{_label.attributes(attributes)}]"

    def _copy(self, wire: Wire, use: Use) -> Wire:
        """The same value once more, small, beside the box that reads it."""
        node = f"k_{wire.node}_{wire.key[1]}_{use.node}"
        if all(name != node for name, _ in use.cluster.nodes):
            look = wire.look
            colour = {"color": _style.ORANGE} if wire.line is Line.CAPTURED else {}
            label = f"<{sized(bold(wire.name or ''), _style.TINY)}>"
            self._node(
                use.cluster,
                node,
                look,
                {**colour, "label": label, "margin": "0.05,0.02", "penwidth": "1"},
                wire.tip,
            )
        return replace(wire, node=node, port=None)


# Between boxes of one group Graphviz takes a hundred times the weight, and an edge into a frame counts ten times for
# the rank.  So this keeps a frame below the boxes that feed it: a hidden edge between titles, which has a weight of
# 1 and a group, gives way to it.
_ENTRY_WEIGHT = 12

_FRAMES: dict[Boundary | None, Frame] = {
    Boundary.CALL: Frame.CALL,
    Boundary.DEVICE: Frame.DEVICE,
    Boundary.UNKNOWN: Frame.UNKNOWN,
}


def _is_plain_call(equation: Equation) -> bool:
    """Whether an equation calls one body as it is."""
    return (
        equation.boundary is Boundary.CALL
        and len(equation.calls) == 1
        and None not in equation.calls[0].inputs
    )


def _only_wraps(body: Body) -> bool:
    """Whether a body is nothing but one call of a function of the same name, as `jit`'s is."""
    if len(body.equations) != 1 or body.constants:
        return False
    (equation,) = body.equations
    return bool(equation.calls) and (body.name is None or equation.name == body.name)


def _id(path: Path, *more: int) -> str:
    steps = path_text(path).replace("/", "_").replace(".", "c")
    return "_".join(filter(None, (steps, *map(str, more))))


def _groups(names: Sequence[str | None], limit: int) -> list[tuple[str | None, list[int]]]:
    """Each position on its own, or, where they are many, together by the tree that they are leaves of."""
    if len(names) <= limit:
        return [(name, [at]) for at, name in enumerate(names)]
    groups: dict[str | None, list[int]] = {}
    for at, name in enumerate(names):
        groups.setdefault(stem(name), []).append(at)
    found = list(groups.items())
    kept, rest = found[: limit - 1], found[limit - 1 :]
    if len(rest) > 1:
        together = sorted(at for _, positions in rest for at in positions)
        kept.append((None, together))
        return kept
    return found
