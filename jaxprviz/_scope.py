"""A body at one place of a program: who holds it, and what its variables are outside.

Bodies are shared between the equations that hold them; a `Scope` is one of the places where a body stands.
Its path names it: the steps from the outermost body inwards, each the position of an equation and of one of
the bodies that this equation holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from jaxprviz._spelling import spelled
from jaxprviz.program import Body, Call, Equation, Literal, Program, Role

Path = tuple[tuple[int, int], ...]
"""The steps inwards from the outermost body: (equation, which of its bodies)."""

Site = tuple[int, int, int]
"""Where a body is held, whatever the path to it: (number of the holding body, equation, which of its bodies)."""


def path_text(path: Path) -> str:
    """A path as text: `"0/2.1"` is body 0 of equation 0, therein body 1 of equation 2; the outermost is `""`."""
    return "/".join(str(equation) if call == 0 else f"{equation}.{call}" for equation, call in path)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a variable is bound, found by following it outwards through the boundaries that it crosses.

    Attributes:
        scope: the scope that binds it.
        variable: its number there.
        through: the scopes that it enters on its way inwards, the outermost first; empty when it is bound where
            it is used.
    """

    scope: Scope
    variable: int
    through: tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """One place where a body stands.

    Attributes:
        program: the program that it is part of.
        number: the number of its body.
        path: the steps to it; empty for the outermost.
        parent: the scope around it; None for the outermost.
    """

    program: Program
    number: int
    path: Path = ()
    parent: Scope | None = None

    @classmethod
    def root(cls, program: Program) -> Scope:
        """The outermost scope of a program."""
        return cls(program, program.root)

    @property
    def body(self) -> Body:
        return self.program.bodies[self.number]

    @property
    def site(self) -> Site | None:
        """Where it is held; None for the outermost scope."""
        if self.parent is None:
            return None
        return (self.parent.number, *self.path[-1])

    @property
    def equation(self) -> Equation | None:
        """The equation that holds it; None for the outermost scope."""
        return None if self.parent is None else self.parent.body.equations[self.path[-1][0]]

    @property
    def call(self) -> Call | None:
        """How that equation holds it; None for the outermost scope."""
        equation = self.equation
        return None if equation is None else equation.calls[self.path[-1][1]]

    def child(self, equation: int, call: int = 0) -> Scope:
        """The scope of one of the bodies that an equation of this scope holds."""
        held = self.body.equations[equation].calls[call]
        return Scope(self.program, held.body, (*self.path, (equation, call)), self)

    def children(self) -> Iterator[Scope]:
        """The scopes directly inside this one, in order."""
        for position, equation in enumerate(self.body.equations):
            for call in range(len(equation.calls)):
                yield self.child(position, call)

    def at(self, path: Path) -> Scope:
        """The scope that lies `path` further in."""
        scope = self
        for step in path:
            scope = scope.child(*step)
        return scope

    def outside(self, variable: int) -> int | Literal | None:
        """What feeds an input of this scope: a variable or a literal of the scope around it.

        None when `variable` is no input of this scope, or when the wiring is not known.
        """
        equation, call = self.equation, self.call
        if equation is None or call is None or variable not in self.body.inputs:
            return None
        operand = call.inputs[self.body.inputs.index(variable)]
        return None if operand is None else equation.operands[operand]

    def origin(self, variable: int) -> Origin:
        """Where a variable of this scope is bound: by an equation, as a constant, or as an argument.

        It is followed outwards through the inputs that have no name of their own: those that are captured, and
        those of which JAX keeps none.  What a loop carries or slices is bound by the loop's body: it is
        another value in each step.
        """
        scope, through = self, []
        while scope.parent is not None and not scope.binds(variable):
            outer = scope.outside(variable)
            if not isinstance(outer, int):
                break
            through.insert(0, scope)
            scope, variable = scope.parent, outer
        return Origin(scope, variable, tuple(through))

    def binds(self, variable: int) -> bool:
        """Whether a variable is an argument of this scope's function, and not only what is so called outside."""
        call, body, equation = self.call, self.body, self.equation
        if variable not in body.inputs:
            return False
        position = body.inputs.index(variable)
        if call is not None and call.captured[position]:
            return False  # it can have a name here too, where a rule tells that it is captured
        on_devices = equation is not None and equation.device is not None
        if call is not None and on_devices and call.captured[position] is False:
            return True  # an argument on each device, though a pmap may have lost its name
        return body.input_names[position] is not None or (
            call is not None and call.roles[position] in (Role.CARRY, Role.SLICED)
        )

    def name(self, variable: int) -> str | None:
        """The Python name of a variable of this scope, as the code of this scope would call it.

        An input has the name of the argument; a captured one, the name that it has where it was bound; a
        constant and a result, the name that they were assigned to, where the source says it.  None where no
        name is known.
        """
        body = self.body
        if variable in body.inputs:
            name = body.input_names[body.inputs.index(variable)]
            if self.parent is None or self.binds(variable):
                return name
            outer = self.outside(variable)
            return self.parent.name(outer) if isinstance(outer, int) else name
        for constant in body.constants:
            if constant.variable == variable:
                return constant.name
        return _assigned(body, variable)

    def title(self) -> str:
        """The name of this scope's function, or what else it can be called by."""
        equation, call = self.equation, self.call
        if equation is None or call is None:
            return self.body.name or "the program"
        name = equation.name or self.body.name
        return name if name is not None else " ".join(filter(None, (spelled(equation.primitive), call.label)))


def _assigned(body: Body, variable: int) -> str | None:
    """The name that a result was assigned to: that of the statement whose last equation bound it."""
    position = _binders(_TheBody(body)).get(variable)
    if position is None:
        return None
    equation = body.equations[position]
    source = equation.source
    if source is None or source.statement is None or len(source.assigned) != len(equation.results):
        return None
    following = body.equations[position + 1 : position + 2]
    if any(
        after.source is not None
        and (after.source.function, after.source.statement) == (source.function, source.statement)
        for after in following
    ):
        return None
    return source.assigned[equation.results.index(variable)] or None


class _TheBody:
    """A body as the key of a cache: itself, not one that is equal, which would take long to tell."""

    __slots__ = ("body",)

    def __init__(self, body: Body) -> None:
        self.body = body

    def __hash__(self) -> int:
        return id(self.body)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TheBody) and self.body is other.body


@lru_cache(maxsize=64)
def _binders(key: _TheBody) -> dict[int, int]:
    """For each result in a body the position of the equation that binds it."""
    equations = key.body.equations
    return {result: position for position, equation in enumerate(equations) for result in equation.results}
