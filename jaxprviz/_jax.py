"""The one place that touches what JAX does not promise: internals, and what differs from version to version.

Everything here was checked on JAX 0.7.2, 0.10.2 and 0.12.0.1; reading (not tracing) works on 0.4.38 as well,
so that old programs can be recorded.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import linecache
import os
import re
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np
from jax import core
from jax._src import linear_util, xla_bridge
from jax._src.interpreters import partial_eval
from jax._src.lax.control_flow import conditionals

from jaxprviz.errors import VersionError
from jaxprviz.program import Kind, Mesh, Sharding, Source, Spec, Type

OLDEST = (0, 7, 2)
PMAP_AXIS = "_internal_pmap_axis_name"
"""How JAX 0.8 and newer name the axis of a pmap that was given no `axis_name`."""

_VERSION: tuple[int, ...] = jax.__version_info__
_JAX_FOLDER = os.path.dirname(os.path.abspath(jax.__file__)) + os.sep
_OUR_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PMAP_FILE = os.path.join(_JAX_FOLDER, "_src", "pmap.py")
_LOOPS_FILE = os.path.join(_JAX_FOLDER, "_src", "lax", "control_flow", "loops.py")
_WRAPPING_FILE = os.path.join(_JAX_FOLDER, "_src", "linear_util.py")

_WRAPPERS = {(_PMAP_FILE, "_fun"), (_PMAP_FILE, "_handle_reshapes"), (_LOOPS_FILE, "<lambda>")}
"""The functions that JAX puts around a user's and traces in its place: those of pmap from 0.8 on, of `lax.map`."""

# From 0.9 on the traceback of an equation begins where the tracing of its body began; before, it is the whole
# stack, with the callers of the function in it.
_STACKS_ARE_CUT = _VERSION >= (0, 9)


def require_supported() -> None:
    """Raises VersionError when this JAX is older than the oldest that is supported."""
    if _VERSION < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise VersionError(
            "jaxprviz was asked to trace a function",
            f"this is JAX {jax.__version__}, and jaxprviz reads the jaxprs of JAX {oldest} and newer",
            f'Upgrade it: python -m pip install --upgrade "jax>={oldest}", then restart Python.',
        )


def has_started() -> bool:
    """Whether JAX has counted its devices; afterwards their number is fixed."""
    return bool(xla_bridge.backends_are_initialized())


# --- jaxprs -------------------------------------------------------------------------------------------------


def is_jaxpr(value: object) -> bool:
    """Whether a value is a jaxpr, open or closed (one class from 0.12 on)."""
    return _attribute(value, "eqns") is not None and (hasattr(value, "invars") or hasattr(value, "jaxpr"))


def open_jaxpr(value: Any) -> Any:
    """The jaxpr without its constants.  From 0.12 on `x.jaxpr is x`, so one step is enough and no loop is."""
    return value if hasattr(value, "invars") else value.jaxpr


def constants(value: Any) -> Sequence[Any]:
    """The values of a jaxpr's constvars, as far as it carries them."""
    return tuple(getattr(value, "consts", ()) or ())


def is_literal(atom: Any) -> bool:
    return isinstance(atom, jex.Literal)


def array_key(value: Any, jaxpr: Any) -> Hashable:
    """What tells an array literal from others: the array itself.

    Up to 0.8 a NumPy array is wrapped anew wherever it is read; within one jaxpr JAX takes it for one.
    """
    if _VERSION >= (0, 9) or isinstance(value, jax.Array):
        return id(value)
    where = np.asarray(value).__array_interface__
    return id(jaxpr), where["data"], where["shape"], where["strides"], where["typestr"]


def is_tracer(value: Any) -> bool:
    return isinstance(value, core.Tracer)


def is_array(value: Any) -> bool:
    """Whether JAX takes a value for an array: arrays, numbers, and what stands for an array."""
    known = (jax.Array, np.ndarray, np.generic, bool, int, float, complex, jax.ShapeDtypeStruct)
    if isinstance(value, known) or hasattr(value, "__jax_array__"):
        return True
    return hasattr(value, "shape") and hasattr(value, "dtype")


_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes, type))
"""Types of parameters that hold no jaxpr, and need no look."""

_DEEPEST = 6
"""How many objects and containers inside each other are looked through for a jaxpr."""


def sub_jaxprs(value: Any) -> Iterator[Any]:
    """The jaxprs inside one parameter, wherever they hide: in containers, and in objects that carry some.

    Looked through are tuples, lists, dicts, partials, dataclasses, what has a jaxpr as its attribute `jaxpr` (as
    JAX's traced functions do), and what has a dict of parameters of its own (as JAX's new primitives do).
    """
    return iter(()) if type(value) in _PLAIN else _sub_jaxprs(value, _DEEPEST)


def _sub_jaxprs(value: Any, depth: int) -> Iterator[Any]:
    kind = type(value)
    if kind in _PLAIN or depth == 0 or isinstance(value, np.dtype):
        return
    if isinstance(value, (tuple, list)):
        inside: Iterable[Any] = value
    elif isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, functools.partial):
        inside = (value.func, *value.args, *value.keywords.values())
    elif is_jaxpr(value):
        yield value
        return
    elif is_jaxpr(found := _attribute(value, "jaxpr")):
        yield found
        return
    elif isinstance(params := _attribute(value, "params"), dict):
        inside = params.values()
    elif dataclasses.is_dataclass(value):
        inside = tuple(_attribute(value, field.name) for field in dataclasses.fields(value))
    else:
        return
    for item in inside:
        yield from _sub_jaxprs(item, depth - 1)


def _attribute(value: Any, name: str) -> Any:
    """An attribute of an object of whatever class; None where it has none, or does not give it."""
    try:
        return getattr(value, name, None)
    except Exception:  # somebody else's property can raise anything: then there is nothing to read
        return None


def is_of_jax(function: Any) -> bool:
    """Whether a function was written in JAX's own files."""
    code = getattr(function, "__code__", None)
    return code is not None and _owner(code.co_filename) is _Owner.JAX


# --- axes ---------------------------------------------------------------------------------------------------


def is_axis(name: Any) -> bool:
    """Whether a value is what JAX 0.7 names the axis of a pmap by that was given no `axis_name`."""
    return str(name).startswith("<axis ")


def axis_name(name: Any) -> str:
    """A mesh axis's name; empty for the axis of a pmap that was given none."""
    text = str(name)
    return "" if text == PMAP_AXIS or is_axis(name) else text


# --- types --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def read_type(aval: Any) -> Type:
    """The `Type` of an abstract value."""
    inner = getattr(aval, "inner_aval", None)
    if inner is not None and hasattr(inner, "shape"):
        read = read_type(inner)
        return Type(read.dtype, read.shape, read.itemsize, kind=Kind.REF)
    if not hasattr(aval, "shape") or not hasattr(aval, "dtype"):
        return Type(str(aval), kind=Kind.OTHER)
    itemsize = getattr(aval.dtype, "itemsize", None)
    spec = _explicit_spec(aval)
    return Type(
        # float0, the type of derivatives along whole numbers, is a record to NumPy.
        dtype="float0" if aval.dtype == jax.dtypes.float0 else str(aval.dtype),
        shape=tuple(int(size) if isinstance(size, int) else str(size) for size in aval.shape),
        itemsize=int(itemsize) if itemsize is not None else None,
        weak=bool(getattr(aval, "weak_type", False)),
        varying=_varying(aval),
        spec=spec,
        mesh=None if spec is None else read_mesh(aval.sharding.mesh),
        unreduced=_unreduced(aval),
    )


def _varying(aval: Any) -> tuple[str, ...]:
    manual = getattr(aval, "mat", None)  # from 0.10 on; before, a set of names
    names = getattr(manual, "varying", None) if manual is not None else getattr(aval, "vma", None)
    return tuple(sorted(map(axis_name, names or ())))


def _unreduced(aval: Any) -> tuple[str, ...]:
    """The axes over which a value is a sum not yet made: those that the mesh is manual on, and the others."""
    manual = getattr(getattr(aval, "mat", None), "unreduced", None) or ()
    others = getattr(getattr(getattr(aval, "sharding", None), "spec", None), "unreduced", None) or ()
    return tuple(sorted({axis_name(name) for name in (*manual, *others)}))


def _explicit_spec(aval: Any) -> Spec | None:
    sharding = getattr(aval, "sharding", None)
    mesh = getattr(sharding, "mesh", None)
    if sharding is None or mesh is None or not getattr(mesh, "axis_names", ()):
        return None
    kinds = getattr(mesh, "axis_types", None) or ()
    explicit = {
        name for name, kind in zip(mesh.axis_names, kinds, strict=False) if str(kind).endswith("Explicit")
    }
    if not explicit:
        return None
    spec = read_spec(sharding.spec, len(aval.shape))
    return tuple(tuple(name for name in names if name in explicit) for names in spec)


def read_spec(spec: Any, rank: int) -> Spec:
    """A `PartitionSpec` as tuples, one entry an axis of an array of this rank."""
    entries = [_names(entry) for entry in _entries(spec)]
    return (*entries, *((),) * (rank - len(entries)))


def _entries(spec: Any) -> Sequence[Any]:
    """The entries of a `PartitionSpec`, which refuses to be unpacked when it speaks of sums not made yet."""
    return getattr(spec, "_partitions", spec)


def _names(entry: Any) -> tuple[str, ...]:
    if entry is None or entry is jax.sharding.PartitionSpec.UNCONSTRAINED:
        return ()
    return tuple(map(axis_name, entry)) if isinstance(entry, (tuple, list)) else (axis_name(entry),)


def read_mesh(mesh: Any) -> Mesh:
    """A `Mesh` or an `AbstractMesh`."""
    axes = tuple((axis_name(name), int(size)) for name, size in mesh.shape.items())
    ids = device_ids(np.ravel(mesh.devices)) if isinstance(mesh, jax.sharding.Mesh) else ()
    kinds = getattr(mesh, "axis_types", None)  # up to 0.5 not one an axis
    named = tuple(kind.name.lower() for kind in kinds) if isinstance(kinds, tuple) else ()
    return Mesh(axes, ids, named if len(named) == len(axes) else ())


def read_sharding(sharding: Any, rank: int) -> Sharding | None:
    """A `NamedSharding` of an array of this rank; None for all else, which says nothing or can't be told."""
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return None
    free = tuple(
        axis
        for axis, entry in enumerate(_entries(sharding.spec))
        if entry is jax.sharding.PartitionSpec.UNCONSTRAINED
    )
    return Sharding(read_mesh(sharding.mesh), read_spec(sharding.spec, rank), free)


def sharding_of(value: Any) -> Sharding | None:
    """How an array lies over several devices; None when it is on one, or nobody said where.

    Args:
        value: an actual argument: an array, or a `jax.ShapeDtypeStruct` that has a sharding.
    """
    sharding = None if is_tracer(value) else getattr(value, "sharding", None)
    if isinstance(sharding, jax.sharding.NamedSharding):
        return read_sharding(sharding, len(value.shape)) if sharding.mesh.size > 1 else None
    if not isinstance(sharding, jax.sharding.Sharding) or len(sharding.device_set) < 2:
        return None
    return _sharding_by_slices(sharding, tuple(value.shape))


def _sharding_by_slices(sharding: Any, shape: tuple[int, ...]) -> Sharding | None:
    """How an array lies that has no spec (a pmap's up to 0.8): copied whole, or one axis in one part a device."""
    slices = sharding.devices_indices_map(shape)
    starts = [
        tuple(part.indices(size)[0] for part, size in zip(index, shape, strict=True))
        for index in slices.values()
    ]
    stops = [
        tuple(part.indices(size)[1] for part, size in zip(index, shape, strict=True))
        for index in slices.values()
    ]
    count = len(slices)
    mesh = Mesh((("", count),), device_ids(slices))
    split = [
        axis
        for axis, size in enumerate(shape)
        if {stop[axis] - start[axis] for start, stop in zip(starts, stops, strict=True)} != {size}
    ]
    if not split:
        return Sharding(mesh, ((),) * len(shape))
    if len(split) > 1 or [start[split[0]] for start in starts] != [
        k * (shape[split[0]] // count) for k in range(count)
    ]:
        return None
    return Sharding(mesh, tuple(("",) if axis == split[0] else () for axis in range(len(shape))))


def device_ids(devices: Iterable[Any]) -> tuple[int, ...]:
    """The numbers of devices; empty when they count up from 0."""
    ids = tuple(int(device.id) for device in devices)
    return () if ids == tuple(range(len(ids))) else ids


# --- the functions that bodies were traced from -------------------------------------------------------------


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def without_address(text: str | None) -> str | None:
    """A text that Python made of an object, the same in each process."""
    return _ADDRESS.sub("", text) if text is not None and " at 0x" in text else text


def arg_names(jaxpr: Any) -> tuple[str | None, ...]:
    """The name that JAX keeps for each input: "" marks a captured variable, None says that JAX keeps none."""
    info = getattr(jaxpr, "debug_info", None)
    names = tuple(map(without_address, getattr(info, "arg_names", None) or ()))
    return names if len(names) == len(jaxpr.invars) else (None,) * len(jaxpr.invars)


def result_paths(jaxpr: Any) -> tuple[str | None, ...]:
    """Where in the returned value each output stands: `"result[0]"`."""
    info = getattr(jaxpr, "debug_info", None)
    paths = tuple(map(without_address, getattr(info, "result_paths", None) or ()))
    if len(paths) != len(jaxpr.outvars):
        return (None,) * len(jaxpr.outvars)
    # Up to 0.6 a path has no word in front.
    return tuple(path if path is None or path.startswith("result") else f"result{path}" for path in paths)


def function_of(jaxpr: Any) -> tuple[str | None, str | None, int | None]:
    """Name, file and line of the function that a jaxpr was traced from, as far as JAX keeps them."""
    info = getattr(jaxpr, "debug_info", None)
    text = getattr(info, "func_src_info", None)
    if not text:
        return None, None, None
    name, _, place = text.partition(" at ")
    file, _, line = place.rpartition(":")
    return name or None, file or None, int(line) if line.isdigit() else None


def is_pmap_function(jaxpr: Any) -> bool:
    """Whether a jaxpr was traced from the wrapper that JAX 0.8 and newer put around a pmapped function."""
    name, file, _ = function_of(jaxpr)
    if name == "call_wrapped" and file == _WRAPPING_FILE:  # 0.8 alone, and not for pmap alone
        return any(code.co_filename == _PMAP_FILE for equation in jaxpr.eqns for code, _ in _frames(equation))
    return file == _PMAP_FILE


def is_map_function(jaxpr: Any) -> bool:
    """Whether a jaxpr was traced from the function that `jax.lax.map` puts around the user's."""
    return function_of(jaxpr)[:2] == ("<lambda>", _LOOPS_FILE)


class _Owner(Enum):
    """Who wrote a file."""

    JAX = auto()
    OURS = auto()
    USER = auto()


@lru_cache(maxsize=4096)
def _owner(filename: str) -> _Owner:
    if filename.startswith(_OUR_FOLDER):
        return _Owner.OURS
    return _Owner.JAX if filename.startswith(_JAX_FOLDER) or "jaxlib" in filename else _Owner.USER


def _frames(equation: Any) -> Iterator[tuple[types.CodeType, int]]:
    """The code objects around an equation, innermost first, with the positions in them."""
    traceback = equation.source_info.traceback
    if traceback is not None:
        codes, positions = traceback.raw_frames()
        for code, position in zip(codes, positions, strict=True):
            if _owner(code.co_filename) is _Owner.OURS:
                return  # beyond are the callers of jaxprviz, which are no part of the program
            yield code, position


def is_file_of_jax(file: str | None) -> bool:
    """Whether a file of code belongs to JAX itself."""
    return file is not None and _owner(file) is _Owner.JAX


def body_code(jaxpr: Any, name: str | None) -> types.CodeType | None:
    """The code of the function that a body was traced from, found by the tracebacks of its equations.

    Args:
        jaxpr: an open jaxpr.
        name: the function's name; None takes what lies outermost in the body, or next to JAX's own wrapper.
    """
    place = function_of(jaxpr)[1:] if name is not None else (None, None)
    return _code_at(jaxpr, *place) or _code_called(jaxpr, name)


def _code_at(jaxpr: Any, file: str | None, line: int | None) -> types.CodeType | None:
    """The code that begins where JAX says that the function is written, be it JAX's own."""
    if file is None or line is None:
        return None
    for equation in jaxpr.eqns:
        found = [
            code for code, _ in _frames(equation) if code.co_firstlineno == line and code.co_filename == file
        ]
        if found:
            return found[-1] if _STACKS_ARE_CUT else found[0]
    return None


def _code_called(jaxpr: Any, name: str | None) -> types.CodeType | None:
    """The user's code of this name; without a name what lies outermost, or next to pmap's own wrapper."""
    for equation in jaxpr.eqns:
        users: list[types.CodeType] = []
        wrapper = None
        for code, _ in _frames(equation):
            if _owner(code.co_filename) is _Owner.USER:
                users.append(code)
            elif name is None and wrapper is None and (code.co_filename, code.co_name) in _WRAPPERS:
                wrapper = len(users)
        if wrapper:
            return users[wrapper - 1]
        named = [code for code in users if code.co_name == name]
        if named:
            return named[-1] if _STACKS_ARE_CUT else named[0]
        if users and name is None and _STACKS_ARE_CUT:
            return users[-1]
    return None


def source_of(equation: Any, paths: Sequence[str | None] | None = None) -> Source | None:
    """Where in the user's code an equation was written, with the names that its results were assigned to.

    Args:
        equation: an equation.
        paths: of one that holds bodies, for each result where it stands in what the function returns that the
            user gave: `"result[0]"`; None where it is not known.
    """
    if paths is None:
        return _plain_source_of(equation)
    loop = None
    for code, position in _frames(equation):
        if _owner(code.co_filename) is _Owner.USER:
            source, targets = _source(code, position)
            names = _assigned(targets, paths, len(equation.outvars), loop)
            return replace(source, assigned=names) if any(names) else source
        if _CONTROL_FLOW in code.co_filename:
            loop = code.co_name
    return None


def _plain_source_of(equation: Any) -> Source | None:
    """`source_of` an equation without bodies: most are, so that this is written for speed."""
    traceback = equation.source_info.traceback
    if traceback is None:
        return None
    codes, positions = traceback.raw_frames()
    for place, code in enumerate(codes):
        owner = _owner(code.co_filename)
        if owner is not _Owner.JAX:
            count = len(equation.outvars)
            return _plain_source(code, positions[place], count) if owner is _Owner.USER else None
    return None


@lru_cache(maxsize=4096)
def _plain_source(code: types.CodeType, position: int, count: int) -> Source:
    """Where an equation without bodies was written, with the names of its `count` results."""
    source, targets = _source(code, position)
    names = _assigned(targets, None, count, None)
    return replace(source, assigned=names) if any(names) else source


_CONTROL_FLOW = os.path.join(_JAX_FOLDER, "_src", "lax", "control_flow") + os.sep

_Targets = str | tuple["_Targets", ...]
"""What a statement assigns to: a name, or a tuple of names and tuples; empty for what is no name."""

_RETURNS_THE_SAME = {None, "scan", "while_loop", "cond", "_cond", "switch"}
"""Functions of `lax` that return what the functions return that they are given; None for all that are no loops."""

_FORI = "result[0][1]"
"""Where the value of a static `fori_loop` stands in what the scan's body returns: with it is the counter."""


def _assigned(
    targets: _Targets, paths: Sequence[str | None] | None, count: int, loop: str | None
) -> tuple[str, ...]:
    """The name of each result; empty where they are not known."""
    if paths is None:
        names = (targets,) if isinstance(targets, str) else targets
        same = len(names) == count and all(isinstance(name, str) for name in names)
        return tuple(map(str, names)) if same else ()
    if loop == "fori_loop" and all(path is not None and path.startswith(_FORI) for path in paths[1:]):
        own = [(path or "").removeprefix(_FORI) for path in paths]
        return ("", *(_named(targets, path) for path in own[1:]))
    if loop in _RETURNS_THE_SAME and None not in paths:
        return tuple(_named(targets, (path or "").removeprefix("result")) for path in paths)
    return (targets,) if isinstance(targets, str) and count == 1 else ()


def _named(targets: _Targets, path: str) -> str:
    """The name of what stands at a path in an assigned value: of `[1][0]` in `a, b` it is `b[0]`."""
    while isinstance(targets, tuple):
        step = _INDEX.match(path)
        if step is None or int(step[1]) >= len(targets):
            return ""
        targets, path = targets[int(step[1])], path[step.end() :]
    return targets + path if targets else ""


_INDEX = re.compile(r"\[(\d+)\]")


@lru_cache(maxsize=4096)
def _source(code: types.CodeType, position: int) -> tuple[Source, _Targets]:
    spans = list(code.co_positions())
    index = position // 2
    line = (spans[index][0] if index < len(spans) else None) or code.co_firstlineno
    found = _statement(code.co_filename, line)
    if found is None:
        return Source(code.co_name, line, public_file(code.co_filename)), ""
    # What stands inside a list, or is given to another function, is not what the name will stand for.  Of a
    # lambda or a comprehension the statement assigns something else altogether.
    whole = index < len(spans) and spans[index] in found.values
    nested = code.co_name.startswith("<") and code.co_name != "<module>"
    targets = found.targets if whole and not nested else ""
    return Source(code.co_name, line, public_file(code.co_filename), found.line), targets


def public_file(filename: str) -> str | None:
    """A file's name without its folders; None for a notebook's cell or a string: their names say nothing."""
    if filename.startswith("<") or "ipykernel_" in filename:
        return None
    return PurePath(filename).name


_Span = tuple[int | None, int | None, int | None, int | None]
"""First and last line, first and last column, as `co_positions` gives them."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """A simple statement: the line that it begins at, what it assigns to, where what it assigns stands."""

    line: int
    targets: _Targets
    values: tuple[_Span, ...]


def _statement(filename: str, line: int) -> _Statement | None:
    """The statement that a line belongs to."""
    lines = linecache.getlines(filename)
    return _statements("".join(lines)).get(line) if lines else None


@lru_cache(maxsize=64)
def _statements(text: str) -> dict[int, _Statement]:
    """For each line of a file the simple statement that covers it; lines with several are left out."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}  # a cell with magics: the names of its variables are then not known
    found: dict[int, _Statement] = {}
    several: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            statement = _Statement(node.lineno, _targets(node), tuple(_values(node)))
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                if line in found:
                    several.add(line)
                found[line] = statement
    return {line: where for line, where in found.items() if line not in several}


def _values(node: ast.AST | None) -> Iterator[_Span]:
    """Where the expressions stand that give a statement its value: each arm of a conditional one."""
    if isinstance(node, ast.IfExp):
        yield from _values(node.body)
        yield from _values(node.orelse)
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        yield from _values(node.value)
    elif isinstance(node, (ast.expr, ast.AugAssign)):
        yield (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)


def _targets(node: ast.stmt) -> _Targets:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        target = node.target
    else:
        return ""
    return _target(target)


def _target(node: ast.expr) -> _Targets:
    if isinstance(node, (ast.Tuple, ast.List)):
        starred = any(isinstance(part, ast.Starred) for part in node.elts)
        return "" if starred else tuple(map(_target, node.elts))
    return node.id if isinstance(node, ast.Name) else ""


def scope_names(equation: Any) -> tuple[str, ...]:
    """The names of the `jax.named_scope`s around an equation, outermost first."""
    stack = getattr(equation.source_info.name_stack, "stack", ())
    return tuple(str(part.name) for part in stack if type(part).__name__ == "Scope")


def transform_names(equation: Any) -> tuple[str, ...]:
    """What JAX made an equation by, outermost first: `"jvp"`, `"transpose"`, `"vmap"`."""
    stack = getattr(equation.source_info.name_stack, "stack", ())
    return tuple(str(part.name) for part in stack if type(part).__name__ == "Transform")


def effect_names(equation: Any) -> tuple[str, ...]:
    return tuple(sorted({type(effect).__name__ for effect in equation.effects}))


# --- what went wrong ----------------------------------------------------------------------------------------


def users_frame(error: BaseException) -> tuple[str, int, str] | None:
    """Function, line and text of the innermost line of the user's code that an exception passed through."""
    found = None
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        installed = os.sep + "site-packages" + os.sep in code.co_filename
        if _owner(code.co_filename) is _Owner.USER and not installed:
            text = linecache.getline(code.co_filename, traceback.tb_lineno).strip()
            found = (code.co_name, traceback.tb_lineno, text)
        traceback = traceback.tb_next
    return found


@dataclass(frozen=True, slots=True)
class FailedPmap:
    """What a pmap that JAX refused was asked to do.

    Attributes:
        name: the pmapped function's name.
        arguments: name, shape and mapped axis (None: copied whole) of each array that it was given.
        devices: the number of devices that there are.
    """

    name: str
    arguments: tuple[tuple[str, tuple[int, ...], int | None], ...]
    devices: int


def failed_pmap(error: BaseException) -> FailedPmap | None:
    """The pmap inside which an exception arose; None when there is none in its traceback.

    Read from the local variables of JAX's own frames, since its messages speak of other things ("cannot
    select an axis to squeeze out").
    """
    found = None
    traceback = error.__traceback__
    while traceback is not None:
        read = _PMAP_FRAMES.get(traceback.tb_frame.f_code.co_name)
        if read is not None and _owner(traceback.tb_frame.f_code.co_filename) is _Owner.JAX:
            asked = read(traceback.tb_frame.f_locals)
            if asked is not None:
                function, leaves, axes = asked
                found = _failed_pmap(function, leaves, axes)
        traceback = traceback.tb_next
    return found


def _failed_pmap(function: Any, leaves: Sequence[Any], axes: Sequence[int | None]) -> FailedPmap:
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []  # a callable without a signature
    if len(names) != len(leaves):
        names = [f"array {position}" for position in range(len(leaves))]
    arguments = zip(names, (tuple(getattr(leaf, "shape", ())) for leaf in leaves), axes, strict=True)
    return FailedPmap(getattr(function, "__name__", "the function"), tuple(arguments), jax.device_count())


def _asked_of_wrapped(local: dict[str, Any]) -> tuple[Any, Sequence[Any], Sequence[int | None]] | None:
    if "infer_params" not in local:
        return None
    infer = local["infer_params"]
    cells = dict(zip(infer.__code__.co_freevars, infer.__closure__ or (), strict=True))
    if "p" in local:  # 0.8
        return cells["f"].cell_contents, local["p"].flat_args, local["p"].in_axes_flat
    if "cached" not in local:
        return None
    axes = [
        next((axis for axis, entry in enumerate(tuple(spec)) if entry is not None), None)
        for spec in local["cached"].in_specs_flat
    ]
    asked = [axis for axis in jax.tree.leaves(cells["in_axes"].cell_contents) if axis < 0]
    if asked:  # the specs do not tell them from axis 0
        axes = [asked[0]] * len(axes)
    return cells["wrapped_fun"].cell_contents.f, local["dyn_args_flat"], axes


def _asked_of_infer_params(local: dict[str, Any]) -> tuple[Any, Sequence[Any], Sequence[int | None]] | None:
    if "p" in local and "f" in local:  # 0.8
        return local["f"], local["p"].flat_args, local["p"].in_axes_flat
    if "in_axes_flat" not in local:
        return None
    function = local["fun"] if "fun" in local else local["wrapped_fun"].f
    return function, local["dyn_args_flat"], local["in_axes_flat"]


def _asked_of_prepare_pmap(local: dict[str, Any]) -> tuple[Any, Sequence[Any], Sequence[int | None]] | None:
    if "in_axes_flat" not in local or "dyn_args" not in local:
        return None
    leaves = jax.tree.leaves((local["dyn_args"], local.get("kwargs", {})))
    return local["fun"], leaves, local["in_axes_flat"]


# The frames of JAX that know what a pmap was asked to do: the first two from 0.8 on, the last one before.
_PMAP_FRAMES: dict[
    str, Callable[[dict[str, Any]], tuple[Any, Sequence[Any], Sequence[int | None]] | None]
] = {
    "wrapped": _asked_of_wrapped,
    "infer_params": _asked_of_infer_params,
    "_prepare_pmap": _asked_of_prepare_pmap,
}


def pmap_results(error: BaseException) -> Sequence[Any]:
    """What a pmapped function returned when an exception arose from that; empty otherwise, and up to 0.7."""
    traceback, found = error.__traceback__, ()
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if (code.co_filename, code.co_name) in _WRAPPERS:
            local = traceback.tb_frame.f_locals
            found = local.get("out_flat", local.get("out", ()))
        traceback = traceback.tb_next
    return found


@contextlib.contextmanager
def names_kept() -> Iterator[None]:
    """Keeps names that JAX drops, of what is traced inside: of what branches, old pmaps and `custom_vjp` are given.

    From 0.8 on JAX makes the branches of a `cond` take the same captured variables, in front of what each had, and
    drops all names where it does so: those of the arguments, and the empty ones that tell captured variables.
    Up to 0.7 it does the same to what a pmap is given, and in all versions to what a function with a `custom_vjp` is.
    """
    with contextlib.ExitStack() as stack:
        for module, name, keeping in _DROPPING:
            function = getattr(module, name, None)
            if function is not None:
                stack.callback(setattr, module, name, function)
                setattr(module, name, keeping(function))
        if _TRACED_HERE is not None:
            stack.enter_context(_TRACED_HERE(True))
        yield


def _keeping_of_branches(merge: Callable[..., Any]) -> Callable[..., Any]:
    renamed: dict[tuple[int, Any], tuple[Any, Any]] = {}  # one branch that is traced twice stays one

    def keep(
        jaxprs: Sequence[Any], constants: Sequence[Sequence[Any]]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        merged, together = merge(jaxprs, constants)
        kept = []
        for before, after, own in zip(jaxprs, merged, constants, strict=True):
            info = open_jaxpr(before).debug_info
            names = None if info.arg_names is None else ("",) * len(together) + info.arg_names[len(own) :]
            if names is None or len(names) != len(open_jaxpr(after).invars):
                kept.append(after)
                continue
            key = (id(after), info)
            if key not in renamed:
                renamed[key] = after, _with_info(after, info._replace(arg_names=names))
            kept.append(renamed[key][1])
        return kept, together

    return keep


def _keeping_of_old_pmaps(hack: Callable[..., Any]) -> Callable[..., Any]:
    def keep(function: Any, jaxpr: Any, constants: Any) -> tuple[Any, Any]:
        jaxpr, constants = hack(function, jaxpr, constants)
        names = getattr(function.debug_info, "arg_names", None)
        if names is None or len(names) != len(jaxpr.invars):
            return jaxpr, constants
        return jaxpr.replace(debug_info=jaxpr.debug_info._replace(arg_names=tuple(names))), constants

    return keep


def _keeping_of_rules(drop: Callable[..., Any]) -> Callable[..., Any]:
    def keep(function: Any) -> Any:
        if function.debug_info.traced_for != "custom_vjp fun":
            return drop(function)
        return function.replace_debug_info(function.debug_info._replace(result_paths=None))

    return keep


_DROPPING = (
    (conditionals, "_merge_common_consts", _keeping_of_branches),
    (partial_eval, "_linearize_of_pmap_hack", _keeping_of_old_pmaps),
    (linear_util.WrappedFun, "with_unknown_names", _keeping_of_rules),
)
"""Functions of JAX that drop names, of some versions each, and what keeps them."""

# What was traced before, and kept by a jit, has no names: in a context of its own it is traced anew.
_TRACED_HERE: Any = jax.make_user_context(False) if hasattr(jax, "make_user_context") else None


def _with_info(closed: Any, info: Any) -> Any:
    """A closed jaxpr with other debug info."""
    inner = closed.jaxpr  # from 0.12 on it is itself
    return (
        closed.replace(debug_info=info)
        if inner is closed
        else closed.replace(jaxpr=inner.replace(debug_info=info))
    )


@contextlib.contextmanager
def whole_tracebacks() -> Iterator[None]:
    """Keeps JAX's own frames in the tracebacks of exceptions that arise inside."""
    before = jax.config.jax_traceback_filtering  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_traceback_filtering", "off")
    try:
        yield
    finally:
        jax.config.update("jax_traceback_filtering", before)
