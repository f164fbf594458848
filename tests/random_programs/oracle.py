"""What is known of a generated program by the way it was made: what each of its functions captures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from random_programs.language import Assign, Function, Generated, Sort, Value


@dataclass(frozen=True)
class Expected:
    """What one function captures.

    Attributes:
        function: it.
        surely: for each traced variable that it captures for sure the names that it goes by.
        perhaps: the names of all that it may capture.
        most: how many traced variables it captures at most.
        baked: the names of the arrays that are baked in and that it, or a function in it, reads.
        shapes: the shape of a traced variable, by name, where only one has that name.
    """

    function: Function
    surely: tuple[frozenset[str], ...]
    perhaps: frozenset[str]
    most: int
    baked: frozenset[str]
    shapes: dict[str, frozenset[tuple[int, ...]]]

    def __str__(self) -> str:
        surely = [sorted(names) for names in self.surely]
        return f"surely {surely}, perhaps {sorted(self.perhaps)} ({self.most}), baked {sorted(self.baked)}"


def expected(program: Generated) -> dict[str, Expected]:
    """What each function that JAX keeps as a body captures, by the function's name."""
    return _Analysis(program).found()


class _Analysis:
    def __init__(self, program: Generated) -> None:
        self._main = program.main
        self._surely_same: dict[int, Value] = {}
        self._named_after: dict[int, Value] = {}
        for function in _functions(program.main):
            for inside, outside in function.bound:
                self._surely_same[inside.number] = outside
            for parameter, argument, same in function.passed:
                (self._surely_same if same else self._named_after)[parameter.number] = argument
            for statement in function.statements:
                if isinstance(statement, Assign):
                    for target, value in statement.same:
                        self._named_after[target.number] = value

    def found(self) -> dict[str, Expected]:
        return {
            function.name: self._expected(function)
            for function in _functions(self._main)
            if function.border is not None
        }

    def _expected(self, function: Function) -> Expected:
        own = _bound_inside(function)
        sure = {
            value.number: value
            for value in map(self._followed, _reads(function, surely=True))
            if value.number not in own
        }
        every = {
            value.number: value
            for value in map(self._followed, _reads(function, surely=False))
            if value.number not in own
        }
        # A variable that may be another one handed through counts once, or twice.
        classes: dict[int, set[str]] = {}
        for value in sure.values():
            if value.sort is Sort.TRACED:
                classes.setdefault(self._origin(value, own).number, set()).update(self._names(value))
        traced = [value for value in every.values() if value.sort is Sort.TRACED]
        shapes: dict[str, set[tuple[int, ...]]] = {}
        for value in traced:
            for alias in self._chain(value):
                shapes.setdefault(alias.name, set()).add(alias.shape)
        return Expected(
            function,
            tuple(frozenset(names) for names in classes.values()),
            frozenset(name for value in traced for name in self._names(value)),
            len(traced),
            frozenset(value.name for value in every.values() if value.sort is Sort.BAKED),
            {name: frozenset(found) for name, found in shapes.items()},
        )

    def _followed(self, value: Value) -> Value:
        while value.number in self._surely_same:
            value = self._surely_same[value.number]
        return value

    def _origin(self, value: Value, own: set[int]) -> Value:
        chain = [one for one in self._chain(value) if one.number not in own]
        return chain[-1]

    def _chain(self, value: Value) -> Iterator[Value]:
        """A variable and those that it is made of without being changed, so that it can go by their names."""
        while True:
            yield value
            after = self._surely_same.get(value.number) or self._named_after.get(value.number)
            if after is None:
                return
            value = after

    def _names(self, value: Value) -> set[str]:
        names = {one.name for one in self._chain(value)}
        inside = {
            number
            for number in self._surely_same
            if self._followed(self._surely_same[number]).number == value.number
        }
        return names | {one.name for one in _all_values(self._main) if one.number in inside}


def _functions(function: Function) -> Iterator[Function]:
    yield function
    for statement in function.statements:
        if isinstance(statement, Function):
            yield from _functions(statement)


def _all_values(function: Function) -> Iterator[Value]:
    for inner in _functions(function):
        yield from (inside for inside, _ in inner.bound)
        yield from inner.leaves


def _bound_inside(function: Function) -> set[int]:
    """The numbers of what a function, or a function in it, binds; what others hand to it is not its own."""
    found = {leaf.number for leaf in function.leaves}
    for statement in function.statements:
        if isinstance(statement, Assign):
            found |= {target.number for target in statement.targets}
        else:
            found |= _bound_inside(statement)
    return found


def _reads(function: Function, surely: bool) -> Iterator[Value]:
    """What a function, or a function in it, reads.

    What is handed to a function that is traced into its caller is read only where that function reads it; what
    differentiation passes over, perhaps not at all.
    """
    inline = {
        statement.name: statement
        for statement in function.statements
        if isinstance(statement, Function) and statement.border is None
    }
    for statement in function.statements:
        if isinstance(statement, Function):
            if not (surely and statement.derived and not function.derived):
                yield from _reads(statement, surely)
        elif not surely or not _is_of_inline(statement.value.form, inline):
            yield from statement.value.reads
    yield from function.result.reads


def _is_of_inline(form: str, inline: dict[str, Function]) -> bool:
    """Whether a line calls a function that is traced into its caller, or a derivative of one."""
    return any(f"{name}" in form for name in inline) or form.startswith(("linear", "pull"))
