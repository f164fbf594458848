"""A view of a program in which each `jax.named_scope` is a scope of its own.

JAX keeps named scopes as words at the equations.  Here consecutive equations that share such a word become one
equation that holds them: each equation is there once, and reads what it read before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from jaxprviz._renumber import renumbered
from jaxprviz.program import Body, Boundary, Call, Equation, Program, Role

NAMED = "named_scope"
"""What stands in the place of the primitive of an equation that this view made."""

_Key = tuple[str, bool]
"""The name of a scope, and whether it is what transposition made of it."""


def name_scopes(program: Program) -> Program:
    """The program with an equation of `Boundary.NAME` around each run of equations of one named scope.

    The inputs of the bodies that this makes are operands, never captures; nested scopes are nested.  What
    differentiation made of a scope backwards is a scope beside it, of the same name and told as transposed.

    Args:
        program: with or without its pmaps folded.
    """
    view = _View()
    for body in program.bodies:
        view.add(body)
    return replace(program, bodies=tuple(view.bodies), root=view.numbers[program.root])


class _View:
    """The bodies of the view so far; those that are the same are one."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []
        self.numbers: list[int] = []
        self._known: dict[Body, int] = {}

    def add(self, body: Body) -> None:
        """Add the view of the next body of the program."""
        equations = [
            replace(
                equation,
                calls=tuple(replace(call, body=self.numbers[call.body]) for call in equation.calls),
            )
            for equation in body.equations
        ]
        grouped = replace(body, equations=tuple(self._grouped(body, equations, 0, body.outputs)))
        self.numbers.append(self._number(renumbered(grouped)))

    def _number(self, body: Body) -> int:
        if body not in self._known:
            self._known[body] = len(self.bodies)
            self.bodies.append(body)
        return self._known[body]

    def _grouped(
        self, body: Body, equations: Sequence[Equation], depth: int, outputs: Iterable[object]
    ) -> list[Equation]:
        """Equations with those of one scope together, from the scope at `depth` inwards."""
        runs = [
            (key, list(run))
            for key, run in itertools.groupby(equations, lambda equation: _key(equation, depth))
        ]
        # What is read after each run: by those that follow, or by what holds them all.
        after: set[object] = set(outputs)
        later: list[set[object]] = []
        for _, run in reversed(runs):
            later.append(set(after))
            after.update(atom for equation in run for atom in equation.operands)
        found: list[Equation] = []
        for (key, run), read in zip(runs, reversed(later), strict=True):
            found += run if key is None else [self._group(body, key, run, depth, read)]
        return found

    def _group(
        self, body: Body, key: _Key, run: Sequence[Equation], depth: int, read: set[object]
    ) -> Equation:
        """One equation that holds those of a scope."""
        name, backward = key
        made = [result for equation in run for result in equation.results]
        bound = set(made)
        inputs = tuple(
            dict.fromkeys(
                atom
                for equation in run
                for atom in equation.operands
                if isinstance(atom, int) and atom not in bound
            )
        )
        results = tuple(result for result in made if result in read)
        inner = Body(
            name=name,
            types=body.types,
            constants=(),
            inputs=inputs,
            input_names=(None,) * len(inputs),
            equations=tuple(self._grouped(body, run, depth + 1, results)),
            outputs=results,
            output_names=(None,) * len(results),
        )
        count = len(inputs)
        call = Call(
            self._number(renumbered(inner)),
            "",
            tuple(range(count)),
            tuple(range(len(results))),
            (False,) * count,
            (Role.OPERAND,) * count,
        )
        return Equation(
            NAMED,
            inputs,
            results,
            name=name,
            calls=(call,),
            boundary=Boundary.NAME,
            source=run[0].source,
            scopes=run[0].scopes[:depth],
            effects=tuple(sorted({effect for equation in run for effect in equation.effects})),
            transforms=("transpose",) if backward else (),
        )


def _key(equation: Equation, depth: int) -> _Key | None:
    """The scope of an equation at a depth; None where it is in no scope so deep."""
    if depth >= len(equation.scopes):
        return None
    return equation.scopes[depth], "transpose" in equation.transforms
