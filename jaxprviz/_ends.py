"""Both ends of a picture: the arguments of the outermost function, and its results."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from jaxprviz import _style
from jaxprviz._asked import asked_clauses, asked_layout, asked_rows
from jaxprviz._boxes import framed, type_of
from jaxprviz._canvas import Canvas
from jaxprviz._graph import Cluster, Value, Wire
from jaxprviz._label import bold, grey, lines, plain, run, sized
from jaxprviz._scope import Scope
from jaxprviz._style import Look
from jaxprviz._subject import Subject
from jaxprviz.program import Body, Equation, Literal, Sharding, Type

_MOST = 8
"""More arguments than this stand together by the trees that they are leaves of."""

_MOST_BOXES = 16
_MAX_ROW = 8

_LISTED = 8
"""So many leaves are named in the box of a tree."""

_STEP = re.compile(r"\.?[^.\[]+|\[[^\]]*\]?|\.")

_Asked = tuple[Sharding, str] | None
"""How an array lies, and whether it arrives so or is asked to."""


class Ends:
    """Draws the arguments and the results of the outermost scope."""

    def __init__(self, canvas: Canvas, subject: Subject) -> None:
        self._canvas, self._subject = canvas, subject

    def arguments(self, scope: Scope, cluster: Cluster) -> list[Value]:
        """Draw the arguments; what they are in the picture."""
        body = scope.body
        used = self._subject.used_by(scope)
        found: list[Value] = [None] * len(body.inputs)
        asked = _asked_of_arguments(self._subject, body)
        groups = _groups(body.input_names)
        for number, (name, positions) in enumerate(groups):
            node = f"a_{number}"
            dead = not any(body.inputs[at] in used for at in positions)
            look = Look.UNUSED if dead else Look.ARGUMENT
            leaves = [(body.input_names[at], body.types[body.inputs[at]]) for at in positions]
            if len(positions) > 1:
                label = _tree_label(name, "arguments", leaves)
                tip = ", ".join(filter(None, (leaf for leaf, _ in leaves)))
            else:
                ((_, type),) = leaves
                head = run(bold(name) if name else None, grey(type.short), grey("unused") if dead else None)
                tip = f"argument {positions[0]}: {name or ''} {type.short}"
                label = f"<{head}>"
                lies = asked[positions[0]]
                if lies is not None:
                    label = framed([head, *asked_rows(type, *lies, _style.HUE_IN)], _style.BLUE, 2)
                    tip = "; ".join((tip, *asked_clauses(asked_layout(type, lies[0]), lies[1])))
                    look = Look.TABLE
            self._canvas.node(cluster, node, look, {"label": label}, tip)
            if len(groups) <= _MAX_ROW or number == 0:
                self._canvas.door(cluster, node)
            for at, (leaf, type) in zip(positions, leaves, strict=True):
                found[at] = Wire(node, ("a", at), leaf, type, Look.UNUSED if dead else Look.ARGUMENT)
        return found

    def results(self, scope: Scope, cluster: Cluster, outputs: Sequence[Value]) -> None:
        """Draw the results.

        Args:
            scope: the outermost scope.
            cluster: its frame.
            outputs: what its outputs are in the picture.
        """
        body = scope.body
        names = [name or "result" for name in body.output_names]
        asked = _asked_of_results(self._subject, body)
        for number, (name, positions) in enumerate(_groups(names)):
            node = f"r_{number}"
            look = Look.RESULT
            leaves = [(names[at], type_of(body, body.outputs[at])) for at in positions]
            if len(positions) > 1:
                label = _tree_label(name, "results", leaves)
                tip = ", ".join(leaf for leaf, _ in leaves)
            else:
                value = outputs[positions[0]]
                ((_, type),) = leaves
                text = bold(value.text) if isinstance(value, Literal) else None
                head = run(bold(name or "result"), "=" if text else None, text, grey(type.short))
                tip = f"result {positions[0]}: {name} {type.short}"
                label = f"<{head}>"
                lies = asked[positions[0]]
                if lies is not None:
                    label = framed([head, *asked_rows(type, *lies, _style.HUE_OUT)], _style.GREEN, 2)
                    tip = "; ".join((tip, *asked_clauses(asked_layout(type, lies[0]), lies[1])))
                    look = Look.TABLE
            self._canvas.node(cluster, node, look, {"label": label}, tip)
            self._canvas.last(cluster, node)
            for at in positions:
                self._canvas.read(outputs[at], node, cluster)


def _tree_label(name: str | None, word: str, leaves: Sequence[tuple[str | None, Type]]) -> str:
    """The label of a box for the leaves of one tree: its name, and a line for each leaf."""
    shown = leaves if len(leaves) <= _LISTED else leaves[: _LISTED - 1]
    start = len(name or "")
    rows = [
        sized(run(plain((leaf or "")[start:] or "·", 44), grey(type.short)), _style.SMALL)
        for leaf, type in shown
    ]
    if len(leaves) > len(shown):
        rows.append(sized(grey(f"and {len(leaves) - len(shown)} more"), _style.SMALL))
    return lines(run(bold(name or word), grey(f"{len(leaves)} arrays")), *rows)


def _asked_of_arguments(subject: Subject, body: Body) -> list[_Asked]:
    """How each argument arrives, or how the jit that is the whole program asks for it."""
    found: list[_Asked] = [
        None if sharding is None else (sharding, "arrives")
        for sharding in subject.program.shardings or (None,) * len(body.inputs)
    ]
    equation = _whole(subject, body)
    for atom, sharding in zip(equation.operands, equation.in_shardings, strict=True) if equation else ():
        if sharding is not None and isinstance(atom, int) and atom in body.inputs:
            at = body.inputs.index(atom)
            found[at] = found[at] or (sharding, "asked")
    return found


def _asked_of_results(subject: Subject, body: Body) -> list[_Asked]:
    """How the jit that is the whole program asks for its results."""
    equation = _whole(subject, body)
    if equation is None or not equation.out_shardings:
        return [None] * len(body.outputs)
    by_variable = dict(zip(equation.results, equation.out_shardings, strict=True))
    shardings = [by_variable.get(atom) if isinstance(atom, int) else None for atom in body.outputs]
    return [None if sharding is None else (sharding, "asked") for sharding in shardings]


def _whole(subject: Subject, body: Body) -> Equation | None:
    """The one equation of a program that is nothing but a jit, where that is drawn as the program itself."""
    if len(body.equations) != 1 or not subject.merges:
        return None
    (equation,) = body.equations
    return equation if equation.in_shardings or equation.out_shardings else None


def _groups(names: Sequence[str | None]) -> list[tuple[str | None, list[int]]]:
    """Each position on its own, or, where they are many, together by the tree that they are leaves of."""
    if len(names) <= _MOST:
        return [(name, [at]) for at, name in enumerate(names)]
    found = _by_steps(names, 1)
    if len(found) == 1:
        found = _by_steps(names, 2)
    if len(found) > _MOST_BOXES:
        kept, rest = found[: _MOST_BOXES - 1], found[_MOST_BOXES - 1 :]
        found = [*kept, (None, sorted(at for _, positions in rest for at in positions))]
    return [(names[at[0]] if len(at) == 1 else name, at) for name, at in found]


def _by_steps(names: Sequence[str | None], steps: int) -> list[tuple[str | None, list[int]]]:
    """Positions by the first steps of their names: `params` of `params['w']`, with two of them all of it."""
    groups: dict[str | None, list[int]] = {}
    for at, name in enumerate(names):
        first = None if name is None else "".join(itertools.islice(_STEP.findall(name), steps))
        groups.setdefault(first, []).append(at)
    return list(groups.items())
