"""What JAX traced, as plain data: no JAX object inside, so it can be stored, compared and drawn anywhere.

A `Program` is a table of `Body` values (one a distinct jaxpr) and the number of the outermost one.  Equations
refer to the bodies they hold by number, so a jitted function that is called a thousand times is stored once.
Inside a body, variables are numbered from 0: first the constants, then the inputs, then the results of the
equations, in the order in which they stand.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

_SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}

Spec = tuple[tuple[str, ...], ...]
"""For each axis of an array the mesh axes that split it, major first: `P("data", None)` is `(("data",), ())`."""


class Kind(StrEnum):
    """What sort of value a variable is."""

    ARRAY = "array"
    REF = "ref"
    OTHER = "other"


class Boundary(StrEnum):
    """What sort of border an equation draws around the bodies that it holds."""

    CALL = "call"
    LOOP = "loop"
    BRANCH = "branch"
    DEVICE = "device"
    DIFFERENTIATION = "differentiation"
    KERNEL = "kernel"
    NAME = "name"
    UNKNOWN = "unknown"


class Role(StrEnum):
    """What an input of a body is to the equation that holds the body.

    OPERAND is a plain one; CONST the same in each step of a loop; CARRY what a loop hands on; SLICED one slice a
    step; PREDICATE what decides which branch runs; RESIDUAL what differentiation saved, or sends back; INDEX a
    number that chooses a kernel's blocks; OUTPUT a reference that a kernel writes; SCRATCH its working memory.
    """

    OPERAND = "operand"
    CONST = "const"
    CARRY = "carry"
    SLICED = "sliced"
    PREDICATE = "predicate"
    RESIDUAL = "residual"
    INDEX = "index"
    OUTPUT = "output"
    SCRATCH = "scratch"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Mesh:
    """The devices of a device scope, as named axes.

    Attributes:
        axes: name and size of each axis, in the mesh's own order.  The one axis of a pmap without `axis_name`
            has the empty name.
        ids: JAX's numbers of the devices, the last axis fastest; empty where they count up from 0, and where
            the mesh has no devices yet.
        kinds: JAX's type of each axis: `"auto"` (the compiler decides), `"explicit"` (the types say it) or
            `"manual"` (the program runs once a device); empty where it is not known.
    """

    axes: tuple[tuple[str, int], ...]
    ids: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(size for _, size in self.axes)

    def without(self, names: Collection[str]) -> Mesh:
        """The mesh of one position along each of these axes."""
        left = tuple(axis for axis in self.axes if axis[0] not in names)
        return self if left == self.axes else Mesh(left)

    def length(self, name: str) -> int:
        """The size of one axis.  Raises KeyError when the mesh has no such axis."""
        return dict(self.axes)[name]


@dataclass(frozen=True, slots=True)
class Sharding:
    """How an array is asked to lie over the devices: JAX's `NamedSharding`.

    Attributes:
        mesh: the devices.
        spec: for each axis of the array the mesh axes that split it.
        free: the axes of the array that are left to the compiler (`PartitionSpec.UNCONSTRAINED`).
    """

    mesh: Mesh
    spec: Spec
    free: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Type:
    """The type of one variable, as JAX's abstract value gives it.

    Attributes:
        dtype: NumPy's name of the element type (`"float32"`), or JAX's for extended ones (`"key<fry>"`).  For a
            variable that is no array, the text that JAX prints for its type.
        shape: one entry an axis; a symbolic size is its text.
        itemsize: bytes of one element; None where an element has no fixed size.
        weak: whether it is weakly typed, as a Python number is.
        varying: the mesh axes along which JAX's own types say that the value differs from device to device
            (`vma`); empty where they say nothing.
        spec: how an Explicit mesh's type splits each axis; None where the type has no sharding.
        mesh: the mesh that `spec` speaks of; None where there is no spec.
        unreduced: the mesh axes over which the value is a sum that was not made yet; empty where JAX's own
            types say nothing of it.
        kind: array, mutable reference, or anything else.
    """

    dtype: str
    shape: tuple[int | str, ...] = ()
    itemsize: int | None = None
    weak: bool = False
    varying: tuple[str, ...] = ()
    spec: Spec | None = None
    kind: Kind = Kind.ARRAY
    mesh: Mesh | None = None
    unreduced: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The type as JAX prints it, without markers: `f32[2,3]`."""
        if self.kind is Kind.OTHER:
            return self.dtype
        letters = self.dtype.rstrip("0123456789")
        digits = self.dtype[len(letters) :]
        name = _SHORT[letters] + digits if letters in _SHORT and digits not in ("", "0") else self.dtype
        dims = []
        for axis, size in enumerate(self.shape):
            split = self.spec[axis] if self.spec and axis < len(self.spec) else ()
            dims.append(f"{size}@{'+'.join(split)}" if split else str(size))
        return f"{'Ref ' if self.kind is Kind.REF else ''}{name}[{','.join(dims)}]"

    @property
    def nbytes(self) -> int | None:
        """Bytes of the whole array; None where a size or the element's size is not a number."""
        if self.itemsize is None or any(isinstance(size, str) for size in self.shape):
            return None
        return self.itemsize * math.prod(int(size) for size in self.shape)


@dataclass(frozen=True, slots=True)
class Literal:
    """A value written into the equation itself.

    Attributes:
        text: the value, shortened, as text.
        type: its type.
    """

    text: str
    type: Type


Atom = int | Literal
"""What an equation reads: a variable's number, or a literal."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where in the user's code something was written.

    Attributes:
        function: the name of the function that the line is in.
        line: its line number, from 1.
        file: the file's name without folders; None for a notebook cell or a string.
        statement: the line at which the statement begins that `line` belongs to; None when it was not found.
        assigned: the names that this statement gives to the results of the equation, one a result: `"a"`, or
            `"a[0]"` for a part of what is so named; an empty one where it has none.  Empty when they are not known.
    """

    function: str
    line: int
    file: str | None = None
    statement: int | None = None
    assigned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceScope:
    """What a `shard_map` or a `pmap` says about devices.

    Attributes:
        mesh: all axes of the mesh.
        manual: the axes over which the body runs once a device; the others are left to the compiler.
        in_specs: one an operand; None where it is not known.
        out_specs: one a result; None where it is not known.
        mapped: True for a pmap: the body does not see the split axis at all; False for a shard_map: it sees
            the axis, shortened.
        checked: whether JAX checked what varies over the devices (`check_vma`).
    """

    mesh: Mesh
    manual: tuple[str, ...]
    in_specs: tuple[Spec | None, ...]
    out_specs: tuple[Spec | None, ...]
    mapped: bool = False
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """The part of one array that one step of a kernel's grid works on.

    Attributes:
        shape: its size along each axis of the array; None where the axis is taken away.
        index: which block each step takes, as text in the grid's letters: `"(i, 0)"`; None where it is not known.
        space: the memory that it is in; None where the program does not say.
    """

    shape: tuple[int | None, ...]
    index: str | None = None
    space: str | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a `pallas_call` says about its grid.

    Attributes:
        grid: the number of steps along each axis; a symbolic one is its text.  Empty: one step.
        blocks: one an operand and then one a result of the kernel; None where the whole array is there.
    """

    grid: tuple[int | str, ...]
    blocks: tuple[Block | None, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """How an equation holds one body.

    Attributes:
        body: the body's number in `Program.bodies`.
        label: which of the equation's bodies it is (`"body"`, `"cond"`, `"branch 0"`); empty when it is the only
            one and needs no word.
        inputs: for each input of the body the position of the equation's operand that feeds it; None where
            that is not known, or where the equation makes the value itself.
        outputs: for each result of the equation the position of the body's output that it comes from; None
            where that is not known.
        captured: for each input whether it is a captured variable; None where JAX does not say.
        roles: for each input what it is to the equation.
    """

    body: int
    label: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    captured: tuple[bool | None, ...]
    roles: tuple[Role, ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """One equation of a jaxpr.

    Attributes:
        primitive: JAX's name of the primitive; `"pmap"` for a pmap however JAX spells it.
        operands: what it reads.
        results: the variables that it binds, by number.
        name: the name of the function that it calls, where it has one; of a callback, the host's function.
        params: its parameters as text, sorted by name; bodies, meshes and specs left out.
        calls: the bodies that it holds.
        boundary: what sort of border it is; None when it holds no body.
        device: what it says about devices; None when it is no device scope.
        axes: the mesh axes that a collective works along.
        source: where it was written; None when that is not known.
        scopes: the names of the `jax.named_scope`s around it, outermost first.
        effects: the names of its effects, sorted.
        transforms: what JAX made it by, outermost first: `"jvp"`, `"transpose"`, `"vmap"`; empty for an equation as the
            program wrote it.
        in_shardings: how its operands are asked to lie over devices, one an operand (None: nothing is said); empty
            where it says nothing of any.
        out_shardings: the same of its results.
        kernel: what it says about a kernel's grid; None when it is no kernel.
    """

    primitive: str
    operands: tuple[Atom, ...]
    results: tuple[int, ...]
    name: str | None = None
    params: tuple[tuple[str, str], ...] = ()
    calls: tuple[Call, ...] = ()
    boundary: Boundary | None = None
    device: DeviceScope | None = None
    axes: tuple[str, ...] = ()
    source: Source | None = None
    scopes: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    transforms: tuple[str, ...] = ()
    in_shardings: tuple[Sharding | None, ...] = ()
    out_shardings: tuple[Sharding | None, ...] = ()
    kernel: Kernel | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """An array that was baked into a body when it was traced.

    Attributes:
        variable: the number under which the body's equations read it.
        name: the Python name that held it, where it could be found.
        text: its value, shortened.
        leaked: True when it is no value but a tracer that leaked out of another trace.
    """

    variable: int
    name: str | None
    text: str
    leaked: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """One jaxpr.

    Attributes:
        name: the function's name; None when JAX keeps none.
        types: the type of each variable, by number.
        constants: the arrays baked into it.
        inputs: its input variables.
        input_names: their Python names (`"w"`, `"params['w']"`); None where JAX keeps none.  Captured variables
            have None here: `Call.captured` tells them.
        equations: its equations, in order.
        outputs: what it returns.
        output_names: where in the returned value each output stands (`"result[0]"`); None where not known.
        closure: the names that the function's code takes from the functions around it (`co_freevars`): an
            upper bound on what it can capture by closure; None where the code was not found.
        globals: the names that it looks up in its module, attributes included (`co_names`).
        parts: the parts of what is outside that it, or a function in it, names: `"params['w']"`, `"layer.w"`.
        arguments: the names of the function's own arguments; None where it takes any number of them, or where
            the code was not found.
        source: where the function was defined.
        wrapper: True when what was traced is the function that JAX puts around a pmapped one.
    """

    name: str | None
    types: tuple[Type, ...]
    constants: tuple[Constant, ...]
    inputs: tuple[int, ...]
    input_names: tuple[str | None, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Atom, ...]
    output_names: tuple[str | None, ...]
    closure: tuple[str, ...] | None = None
    globals: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    arguments: tuple[str, ...] | None = None
    source: Source | None = None
    wrapper: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A traced program.

    Attributes:
        bodies: every distinct jaxpr, callees before callers.
        root: the number of the outermost body.
        jax: the version of the JAX that traced it.
        devices: the number of devices that JAX had then.
        shardings: how the actual arguments lay over devices, one an input of the outermost body (None: on one
            device, or an example shape); empty where none was spread.
    """

    bodies: tuple[Body, ...]
    root: int
    jax: str
    devices: int
    shardings: tuple[Sharding | None, ...] = ()

    @property
    def main(self) -> Body:
        """The outermost body."""
        return self.bodies[self.root]
