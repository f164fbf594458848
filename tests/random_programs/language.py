"""A small language of nested JAX programs: plain data, written out as the Python that a user would write.

A `Generated` program is a function `main` with the functions defined in it, the arrays and meshes of its module, and
the example arguments.  `build` makes a real module of the text, with source lines that Python can find.
"""

from __future__ import annotations

import functools
import hashlib
import linecache
import math
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

Shape = tuple[int, ...]


class Sort(Enum):
    """What a variable is when the program is traced: a traced value, an array that is baked in, or a number."""

    TRACED = auto()
    BAKED = auto()
    NUMBER = auto()


@dataclass(frozen=True)
class Value:
    """A variable.

    Attributes:
        number: tells it from all others.
        name: how the code calls it: `w`, `params['w']`, `self.w`.
        shape: its shape as the code sees it.
        sort: what it is when the program is traced.
        varying: the mesh axes along which JAX's types let it differ from device to device.
        whole: whether it is a whole number.
    """

    number: int
    name: str
    shape: Shape
    sort: Sort = Sort.TRACED
    varying: frozenset[str] = frozenset()
    whole: bool = False

    @property
    def root(self) -> str:
        """The name that Python looks up."""
        return self.name.split("[")[0].split(".")[0]


@dataclass(frozen=True)
class Expression:
    """Python text with `{0}`, `{1}`, ... for the variables that it reads."""

    form: str
    reads: tuple[Value, ...] = ()

    def text(self) -> str:
        # Braces of dicts would be taken for places: they are written as ⟨ and ⟩.
        return self.form.format(*(value.name for value in self.reads)).replace("⟨", "{").replace("⟩", "}")


@dataclass(frozen=True)
class Assign:
    """One line: `targets = value`.

    Attributes:
        targets: what it binds.
        value: what it computes.
        same: pairs (target, value): the target is that very value, handed through.
        pattern: how the targets are written; empty: with commas.
    """

    targets: tuple[Value, ...]
    value: Expression
    same: tuple[tuple[Value, Value], ...] = ()
    pattern: str = ""


@dataclass(frozen=True)
class Parameter:
    """An argument of a function: one variable, or a dict of several."""

    name: str
    leaves: tuple[Value, ...]


class Style(Enum):
    """How a function is written."""

    DEF = auto()
    LAMBDA = auto()
    METHOD = auto()
    PARTIAL = auto()
    DEFAULT = auto()


@dataclass(frozen=True)
class Function:
    """A function defined inside another one.

    Attributes:
        name: its name, unlike that of any other function.
        parameters: its own arguments.
        statements: its lines.
        result: what it returns.
        border: the primitive that holds it in the jaxpr (`"jit"`, `"scan"`, ...); None when it is traced into
            the function that calls it.
        style: how it is written.
        bound: pairs (inside, outside): variables that a partial, a default or an object hands to it.
        passed: (parameter, argument, same) of a function that can be traced into its caller, and of a branch: what it
            is called with, and whether that is the same to JAX (a plain call) or another (what vmap maps, what
            grad differentiates).
        derived: whether differentiation changes it: JAX keeps no names then.
        decorators: lines in front of it.
        after: lines behind it.
        specs: of a device scope the spec of each of its own arguments.
    """

    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    result: Expression
    border: str | None = None
    style: Style = Style.DEF
    bound: tuple[tuple[Value, Value], ...] = ()
    passed: tuple[tuple[Value, Value, bool], ...] = ()
    derived: bool = False
    decorators: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    specs: tuple[Spec, ...] | None = None

    @property
    def leaves(self) -> tuple[Value, ...]:
        return tuple(leaf for parameter in self.parameters for leaf in parameter.leaves)


Spec = tuple[tuple[str, ...], ...]
Statement = Assign | Function


@dataclass(frozen=True)
class MeshText:
    """A mesh of the module."""

    name: str
    axes: tuple[tuple[str, int], ...]
    order: tuple[int, ...]

    def text(self) -> str:
        sizes = tuple(size for _, size in self.axes)
        names = tuple(name for name, _ in self.axes)
        return (
            f"{self.name} = Mesh(np.array(jax.devices())[{list(self.order)}].reshape({sizes}), {names}, "
            f"axis_types=(AxisType.Auto,) * {len(sizes)})"
        )


@dataclass(frozen=True, repr=False)
class Generated:
    """A program.

    Attributes:
        main: its outermost function.
        constants: lines of the module that make arrays and numbers.
        meshes: the meshes of the module.
        jitted: whether `main` is jitted.
        run: whether it is to be run, too.
        drawn: whether it is to be rendered, too.
        pieces: what it is made of.
    """

    main: Function
    constants: tuple[Assign, ...]
    meshes: tuple[MeshText, ...]
    jitted: bool
    run: bool = False
    drawn: bool = False
    pieces: tuple[str, ...] = field(default=(), compare=False)

    def source(self) -> str:
        """The module's text."""
        lines = [mesh.text() for mesh in self.meshes]
        for constant in self.constants:
            lines += _assign(constant)
        lines += _function(self.main)
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        shapes = ", ".join(f"{leaf.name}: {leaf.shape}" for leaf in self.main.leaves)
        return f"\n{self.source()}# {'jit of ' if self.jitted else ''}main with {shapes}\n"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis prints it: as the program that it is."""
        del cycle
        printer.text(repr(self))

    def build(self) -> tuple[Any, tuple[Any, ...]]:
        """The function and its arguments."""
        text = self.source()
        file = f"random_{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        module = dict(_MODULE)
        exec(compile(text, file, "exec"), module)
        fn = module["main"]
        return (jax.jit(fn) if self.jitted else fn), self.arguments()

    def arguments(self) -> tuple[Any, ...]:
        """Example arguments: different numbers in each element."""
        found, start = [], 1
        for parameter in self.main.parameters:
            arrays = []
            for leaf in parameter.leaves:
                size = math.prod(leaf.shape)
                array = np.sin(np.arange(start, start + size, dtype=np.float32)).reshape(leaf.shape)
                arrays.append(array.astype(np.float32))
                start += size
            found.append(
                arrays[0]
                if parameter.leaves[0].name == parameter.name
                else {
                    leaf.name.split("'")[1]: array
                    for leaf, array in zip(parameter.leaves, arrays, strict=True)
                }
            )
        return tuple(found)


def _assign(line: Assign) -> list[str]:
    targets = ", ".join(target.name for target in line.targets)
    return [f"{line.pattern or targets} = {line.value.text()}"]


def _function(function: Function) -> list[str]:
    names = [parameter.name for parameter in function.parameters]
    body = [text for statement in function.statements for text in _statement(statement)]
    body.append(f"return {function.result.text()}")
    match function.style:
        case Style.LAMBDA:
            return [f"{function.name} = lambda {', '.join(names)}: ({function.result.text()})"]
        case Style.METHOD:
            attributes = [inside.name.removeprefix("self.") for inside, _ in function.bound]
            model = f"Of{function.name.capitalize()}"
            given = ", ".join(outside.name for _, outside in function.bound)
            return [
                f"class {model}:",
                *_indented([f"def __init__(self, {', '.join(attributes)}):"]),
                *_indented(_indented([f"self.{name} = {name}" for name in attributes])),
                *_indented([f"def {function.name}(self, {', '.join(names)}):", *_indented(body)]),
                f"of_{function.name} = {model}({given})",
            ]
        case Style.PARTIAL:
            names = [*(inside.name for inside, _ in function.bound), *names]
        case Style.DEFAULT:
            names += [f"{inside.name}={outside.name}" for inside, outside in function.bound]
        case Style.DEF:
            pass
    return [
        *function.decorators,
        f"def {function.name}({', '.join(names)}):",
        *_indented(body),
        *function.after,
    ]


def _statement(statement: Statement) -> list[str]:
    return _assign(statement) if isinstance(statement, Assign) else _function(statement)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def callable_text(function: Function) -> str:
    """What stands for a function where it is given to a transformation."""
    if function.style is Style.METHOD:
        return f"of_{function.name}.{function.name}"
    if function.style is Style.PARTIAL:
        return (
            f"functools.partial({function.name}, {', '.join(outside.name for _, outside in function.bound)})"
        )
    return function.name


def vary(value: Any, axes: tuple[str, ...]) -> Any:
    """A value typed as one that may differ along some mesh axes."""
    kind: Any = jax.typeof(value)
    have = kind.mat.varying if hasattr(kind, "mat") else kind.vma
    missing = tuple(axis for axis in axes if axis not in have)
    if not missing:
        return value
    if hasattr(lax, "pcast"):
        return lax.pcast(value, missing, to="varying")
    return lax.pvary(value, missing)  # pyright: ignore[reportAttributeAccessIssue]


_MODULE = {
    "jax": jax,
    "jnp": jnp,
    "np": np,
    "lax": lax,
    "functools": functools,
    "P": PartitionSpec,
    "Mesh": jax.sharding.Mesh,
    "AxisType": jax.sharding.AxisType,
    "vary": vary,
}
