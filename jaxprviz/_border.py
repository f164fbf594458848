"""The border of an open scope: what enters, with a door for each, and what leaves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from jaxprviz import _style
from jaxprviz._asked import asked_rows
from jaxprviz._boxes import (
    counted,
    equation_tip,
    folded_label,
    framed,
    loop_result,
    source_text,
    stem,
    type_of,
)
from jaxprviz._canvas import Canvas
from jaxprviz._doors import Door, doors, exit_label, exit_warning, plain_door
from jaxprviz._equations import exchange_rows
from jaxprviz._facts import Crossing
from jaxprviz._fold import MAX_DOORS
from jaxprviz._graph import Cluster, Value, Values, Wire, box_id, read
from jaxprviz._label import bold, grey, plain, run, sized
from jaxprviz._scope import Scope, path_text
from jaxprviz._style import Line, Look
from jaxprviz._subject import Subject
from jaxprviz.program import Boundary, Equation, Role


class Border:
    """Draws what crosses the borders of open scopes."""

    def __init__(self, canvas: Canvas, subject: Subject) -> None:
        self._canvas, self._subject = canvas, subject

    def enter(self, scope: Scope, frame: Cluster, inputs: Sequence[Value]) -> list[Value]:
        """Draw the doors of a scope; what its inputs are inside."""
        said = list(doors(self._subject, scope, inputs))
        used = self._subject.used_by(scope)
        # Without its door a line would come in from the side, past the boxes of the first row.
        shown = [
            door or (plain_door(scope, variable) if isinstance(value, Wire) and variable in used else None)
            for door, variable, value in zip(said, scope.body.inputs, inputs, strict=True)
        ]
        if sum(door is not None for door in shown) > MAX_DOORS:
            return self._grouped_doors(scope, frame, inputs, shown)
        found: list[Value] = []
        for at, (value, door) in enumerate(zip(inputs, shown, strict=True)):
            if door is None:
                found.append(value)
                continue
            node = f"d_{box_id(scope.path)}_{at}"
            self._canvas.node(frame, node, door.look, {"label": door.label()}, door.tip)
            self._canvas.door(frame, node)
            captured = door.captured or self._subject.hands_on(scope, scope.body.inputs[at])
            self._canvas.read(value, node, frame, captured)
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
            node = f"d_{box_id(scope.path)}_{number}"
            first = doors[positions[0]]
            assert first is not None
            door = first if len(positions) == 1 else first.of_many(stem(first.name), len(positions))
            tip = ", ".join(doors[at].tip for at in positions)  # type: ignore[union-attr]
            self._canvas.node(frame, node, door.look, {"label": door.label()}, tip)
            self._canvas.door(frame, node)
            for at in positions:
                self._canvas.read(inputs[at], node, frame, door.captured)
                inner = first.inner if len(positions) == 1 else None
                found[at] = Wire(node, (node, at), door.name, inner, Look.DOOR, door.line)
        return found

    def shared_doors(
        self,
        scope: Scope,
        frame: Cluster,
        position: int,
        given: list[Value],
        captured: Collection[int | None],
    ) -> None:
        """Where the operands of several bodies enter the frame around them; one that is there twice has one door.

        Args:
            scope: the scope around.
            frame: the frame around the bodies.
            position: which equation holds them.
            given: the operands that enter a body; each becomes what it is inside.
            captured: which operands a body captures.
        """
        equation = scope.body.equations[position]
        fed = sorted({operand for call in equation.calls for operand in call.inputs if operand is not None})
        found: dict[tuple[object, bool], Value] = {}
        for operand in fed:
            value, atom = given[operand], equation.operands[operand]
            if not isinstance(value, Wire):
                continue
            place = (atom, operand in captured)
            if place not in found:
                name = scope.name(atom) if isinstance(atom, int) else None
                found[place] = self._shared_door(
                    frame, f"d_{box_id(scope.path, position)}_in_{operand}", value, name, place[1]
                )
            given[operand] = found[place]

    def _shared_door(self, frame: Cluster, node: str, value: Wire, name: str | None, captured: bool) -> Wire:
        label = bold(name) if name else grey(value.type.short if value.type else "several values")
        colour = {"color": _style.ORANGE} if captured else {}
        self._canvas.node(frame, node, Look.DOOR, {"label": f"<{label}>", **colour}, value.tip)
        self._canvas.door(frame, node)
        self._canvas.read(value, node, frame, captured)
        line = Line.CAPTURED if captured else value.line
        return replace(value, node=node, key=(node, 0), name=name, look=Look.DOOR, line=line, port=None)

    def hub(self, scope: Scope, cluster: Cluster, position: int, stray: Sequence[int], values: Values) -> str:
        """The box that reads the operands that reach none of the bodies: what a branch is chosen by."""
        equation = scope.body.equations[position]
        node = f"h_{box_id(scope.path, position)}"
        chosen = equation.boundary is Boundary.BRANCH
        text = "chooses the branch" if chosen else "use unknown"
        (first, *_) = equation.operands[stray[0] :]
        name = scope.name(first) if isinstance(first, int) else None
        words = run(bold(name) if name and chosen else None, plain(text))
        self._canvas.node(
            cluster,
            node,
            Look.JOIN if chosen else Look.UNKNOWN,
            {"label": f"<{words}>"},
            equation_tip(equation),
        )
        for number in stray:
            self._canvas.read(
                read(values, equation.operands[number]),
                node,
                cluster,
                line=None if chosen else Line.UNKNOWN,
            )
        return node

    def closed_body(self, scope: Scope, cluster: Cluster, inputs: Sequence[Value]) -> list[Value]:
        """Draw one folded body of an equation whose other bodies stand open."""
        node = f"s_{box_id(scope.path)}"
        call = scope.call
        assert call is not None
        rows = [
            run(plain(call.label), bold(scope.body.name) if scope.body.name else None),
            sized(
                grey(
                    f"{counted(len(scope.body.equations), 'equation')} inside, path {path_text(scope.path)}",
                    60,
                ),
                _style.SMALL,
            ),
            *(sized(row, _style.SMALL) for row in exchange_rows(self._subject.exchanged(scope.number))),
        ]
        self._canvas.node(
            cluster, node, Look.FOLDED, {"label": folded_label(rows, ())}, source_text(scope.body.source)
        )
        captured = {capture.position for capture in self._subject.captures(scope)}
        for number, value in enumerate(inputs):
            self._canvas.read(value, node, cluster, number in captured)
        return [
            Wire(node, (node, number), None, type_of(scope.body, atom))
            for number, atom in enumerate(scope.body.outputs)
        ]

    def leave(
        self,
        scope: Scope,
        cluster: Cluster,
        position: int,
        found: Sequence[Sequence[Value]],
        entered: Sequence[Value],
        values: Values,
    ) -> None:
        """Draw how the results of an open equation come about, and bind them.

        Args:
            scope: the scope around.
            cluster: the frame around.
            position: which equation it is.
            found: for each of its bodies what its outputs are.
            entered: what the inputs of its one body are inside; empty where it has several.
            values: what the variables of the scope around are.
        """
        equation = scope.body.equations[position]
        inner = cluster.clusters[-1] if len(equation.calls) == 1 else cluster
        left: dict[int, Crossing] = {}
        if equation.device is not None:
            placed = self._subject.placement(scope.child(position))
            left = {crossing.position: crossing for crossing in placed.leaving} if placed else {}
        contents = _contents(equation)
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
            if number in contents:
                if variable not in self._subject.used_by(scope):
                    continue
                values[variable] = self._content(scope, inner, position, number, entered[contents[number]])
                continue
            if not inside:
                unknown.append(number)
                continue
            name = scope.name(variable)
            type = scope.body.types[variable]
            node = f"x_{box_id(scope.path, position)}_{number}"
            label: str | None = None
            look = Look.TABLE
            if number in left:
                label = exit_label(
                    left[number],
                    inside[0],
                    stacked=equation.device is not None and equation.device.mapped,
                    warning=exit_warning(self._subject, scope, variable),
                )
            elif equation.out_shardings and (asked := equation.out_shardings[number]) is not None:
                label = framed(asked_rows(type, asked, "asked", _style.HUE_OUT), _style.HUE_OUT.line)
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
            self._canvas.node(inner, node, look, {"label": label}, name or "result")
            for value in inside:
                self._canvas.read(value, node, inner)
            values[variable] = Wire(node, (node, 0), name, type)
        self._loose(scope, inner, position, found, taken, unknown, values)

    def _content(self, scope: Scope, cluster: Cluster, position: int, number: int, ref: Value) -> Value:
        """Draw a result that is what a reference holds in the end."""
        equation = scope.body.equations[position]
        node = f"x_{box_id(scope.path, position)}_{number}"
        variable = equation.results[number]
        type = scope.body.types[variable]
        name = ref.name if isinstance(ref, Wire) and ref.name else "the reference"
        label = run(plain(f"what {name} holds in the end"), grey(type.short))
        self._canvas.node(cluster, node, Look.JOIN, {"label": f"<{label}>"}, f"{name} in the end")
        self._canvas.read(ref, node, cluster)
        above = [inner.lowest() for inner in cluster.clusters]
        for box in dict.fromkeys((*self._canvas.users(ref), *above)):
            if box != node:
                self._canvas.hide(box, node)
        return Wire(node, (node, 0), scope.name(variable), type)

    def _loose(
        self,
        scope: Scope,
        cluster: Cluster,
        position: int,
        found: Sequence[Sequence[Value]],
        taken: Sequence[set[int]],
        unknown: Sequence[int],
        values: Values,
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
            node = f"x_{box_id(scope.path, position)}_unknown"
            self._canvas.node(
                cluster,
                node,
                Look.UNKNOWN,
                {"label": f"<{plain('results, wiring unknown')}>"},
                equation_tip(equation),
            )
            if not loose:
                self._canvas.hide(cluster.nodes[-2][0], node)
            for _, value in loose:
                self._canvas.read(value, node, cluster, line=Line.UNKNOWN)
            for number in unknown:
                variable = equation.results[number]
                values[variable] = Wire(
                    node, (node, number), scope.name(variable), scope.body.types[variable], line=Line.UNKNOWN
                )
            return
        for number, (which, value) in enumerate(loose):
            if not isinstance(value, Wire):
                continue
            node = f"x_{box_id(scope.path, position)}_loose_{number}"
            goes_on = equation.boundary is Boundary.LOOP and equation.calls[which].label == "cond"
            text = (
                "next step if true" if goes_on else _BACK.get(equation.primitive, "output, not used outside")
            )
            inner = next(
                (c for c in cluster.clusters if c.id == f"s_{box_id((*scope.path, (position, which)))}"),
                cluster,
            )
            label = run(plain(text), grey(value.type.short) if value.type else None)
            self._canvas.node(inner, node, Look.JOIN, {"label": f"<{label}>"}, text)
            self._canvas.read(value, node, inner)


_BACK: dict[str, str] = {"custom_linear_solve": "goes back to the solver"}
"""Where the outputs of a body go that become no result of the equation."""

_STATEFUL = frozenset({"run_state"})
"""Primitives whose results are what the references hold in the end that their operands filled."""


def _contents(equation: Equation) -> dict[int, int]:
    """For each result that is what a reference holds in the end, the input of the body that is this reference."""
    if len(equation.calls) != 1:
        return {}
    (call,) = equation.calls
    refs = list(range(len(call.inputs))) if equation.primitive in _STATEFUL else []
    if equation.boundary is Boundary.KERNEL:
        refs = [at for at, role in enumerate(call.roles) if role is Role.OUTPUT]
    return dict(enumerate(refs)) if len(refs) == len(equation.results) else {}
