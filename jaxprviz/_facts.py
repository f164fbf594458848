"""What is found out about a program: which variables are captured, and how variables lie over the devices."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from enum import StrEnum

from jaxprviz._scope import Origin, Scope
from jaxprviz.program import Mesh, Spec, Type


@dataclass(frozen=True, slots=True)
class Capture:
    """One captured variable of one scope.

    Attributes:
        scope: the scope whose function captures it.
        position: which of the scope's inputs it is.
        name: its Python name; None when that is not known.
        origin: where it is bound, and the boundaries that it crosses on its way here.
        constant: True when what is captured is an array baked in, not a traced variable.
        bound: True when its Python variable is bound at the origin.  False: its value is from there, and on the
            way is a function that takes it as an argument, or of which that is not known.
    """

    scope: Scope
    position: int
    name: str | None
    origin: Origin
    constant: bool
    bound: bool = True

    @property
    def variable(self) -> int:
        """Its number in the scope that captures it."""
        return self.scope.body.inputs[self.position]


@dataclass(frozen=True, slots=True)
class Layout:
    """How one array lies over the devices of a mesh.

    Attributes:
        type: the type of the whole array, as the caller holds it.
        mesh: the devices.
        spec: for each axis of the array the mesh axes that split it; None when that is not known.
        free: the mesh axes over which the compiler decides.
    """

    type: Type
    mesh: Mesh
    spec: Spec | None
    free: tuple[str, ...] = ()

    @property
    def manual(self) -> Layout:
        """How it lies over the axes that the program decides on; the compiler may split those parts further."""
        return Layout(self.type, self.mesh.without(self.free), self.spec)

    @property
    def parts(self) -> tuple[int, ...] | None:
        """Into how many parts each axis is split."""
        if self.spec is None:
            return None
        return tuple(math.prod(self.mesh.length(name) for name in names) for names in self._full)

    @property
    def copies(self) -> int | None:
        """How many devices hold each element; None where the compiler has a say in it."""
        parts = self.parts
        if parts is None or self.free or not self.divides:
            return None
        return self.mesh.size // math.prod((*parts, *(self.mesh.length(name) for name in self.unreduced)))

    @property
    def unreduced(self) -> tuple[str, ...]:
        """The mesh axes along which each device holds a part of a sum that was not made yet, not a copy."""
        return tuple(name for name, _ in self.mesh.axes if name in self.type.unreduced)

    @property
    def divides(self) -> bool:
        """Whether each axis can be cut into as many equal parts as are asked for; not known: True."""
        sizes = zip(self.type.shape, self.parts or (), strict=False)
        return all(isinstance(size, str) or size % part == 0 for size, part in sizes)

    @property
    def local(self) -> tuple[int | str, ...] | None:
        """The shape of the block that one device holds; None where the parts would not be equal."""
        parts = self.parts
        if parts is None or not self.divides:
            return None
        return tuple(
            size if part == 1 else (size // part if isinstance(size, int) else f"{size}/{part}")
            for size, part in zip(self.type.shape, parts, strict=True)
        )

    @property
    def local_nbytes(self) -> int | None:
        """Bytes that one device holds."""
        whole, parts = self.type.nbytes, self.parts
        if whole is None or parts is None or self.free or not self.divides:
            return None
        return whole // math.prod(parts)

    @property
    def total_nbytes(self) -> int | None:
        """Bytes that all devices hold together."""
        one = self.local_nbytes
        return None if one is None else one * self.mesh.size

    @property
    def _full(self) -> Spec:
        """The spec with an entry for every axis of the array."""
        spec = self.spec or ()
        return (*spec, *((),) * (len(self.type.shape) - len(spec)))

    def block(self, device: tuple[int, ...]) -> tuple[int | None, ...] | None:
        """Which part of each axis a device holds, counted from 0; None for an axis that is not split.

        Args:
            device: its position along each axis of the mesh.
        """
        if self.spec is None:
            return None
        where = dict(zip((name for name, _ in self.mesh.axes), device, strict=True))
        found: list[int | None] = []
        for names in self._full:
            index = 0
            for name in names:
                index = index * self.mesh.length(name) + where[name]
            found.append(index if names else None)
        return tuple(found)

    def blocks(self) -> tuple[tuple[int | None, ...], ...] | None:
        """`block` of every device, in the mesh's own order."""
        devices = itertools.product(*(range(size) for _, size in self.mesh.axes))
        found = [self.block(device) for device in devices]
        return None if self.spec is None else tuple(block for block in found if block is not None)


class Ground(StrEnum):
    """On what ground it is said how an array lies.

    TYPE is JAX's own type, on a mesh with Explicit axes; GIVEN how the actual argument lay; ASKED what the program
    asks for, by a constraint, by the shardings of a jit, or by the specs of a device scope; COMPILER that nobody
    said it, so that the compiler decides.
    """

    TYPE = "type"
    GIVEN = "given"
    ASKED = "asked"
    COMPILER = "compiler"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array lies that several devices hold together, outside of what runs once a device.

    Attributes:
        ground: on what ground that is said.
        layout: how it lies; None where the compiler decides and the program speaks of several meshes.
    """

    ground: Ground
    layout: Layout | None


@dataclass(frozen=True, slots=True)
class Crossing:
    """A variable that enters or leaves a device scope.

    Attributes:
        position: which operand (or result) of the equation it is.
        layout: what the caller holds and how it lies over the devices.
        inner: the type that the body sees on one device.
        inside: its number in the body; None when it is a literal there, or when the wiring is not known.
    """

    position: int
    layout: Layout
    inner: Type
    inside: int | None


@dataclass(frozen=True, slots=True)
class Placement:
    """How the variables of one device scope lie over its devices.

    Attributes:
        entering: one an operand of the equation.
        leaving: one a result.
    """

    entering: tuple[Crossing, ...]
    leaving: tuple[Crossing, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """How the value of one variable differs over the devices that run its scope.

    An axis of one device is in none of the sets: there is nothing to differ from.

    Attributes:
        axes: the mesh axes over which the scope runs once a device, those of the outermost device scope first;
            empty outside of device scopes.
        varying: the axes along which the value may differ from device to device.
        unknown: the axes along which nothing is known: a host's answer, or wiring that is not known.
        unequal: of a variable that left a device scope, the axes along which it is taken to be copied, while
            the copies may differ; of another the axes along which it was made of such a variable.
    """

    axes: tuple[str, ...] = ()
    varying: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    unequal: frozenset[str] = frozenset()

    @property
    def same(self) -> tuple[str, ...]:
        """The axes along which the value is surely the same on every device, in the order of `axes`."""
        return tuple(name for name in self.axes if name not in self.varying and name not in self.unknown)
