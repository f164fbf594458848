"""From an exception of JAX's or of the user's function to an error that says what was asked, what is wrong,
what to do.

One entry a kind of mistake: each looks at the exception and gives an error, or None when it is of another
kind.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable

from jaxprviz import _jax
from jaxprviz.errors import DevicesError, JaxprvizError, TraceError


def explained(error: Exception, asked: str) -> JaxprvizError:
    """The error to raise in the place of an exception that arose while `asked` was done."""
    return known(error, asked) or _refused(error, asked)


def known(error: Exception, asked: str) -> JaxprvizError | None:
    """The error for a mistake of a kind that is known; None for any other exception."""
    if isinstance(error, JaxprvizError):
        return error
    return next((found for kind in _KINDS if (found := kind(error, asked)) is not None), None)


def too_many_devices(asked: str, name: str, wanted: int, there: int) -> DevicesError:
    """The error of a pmap over more devices than there are."""
    return DevicesError(
        asked,
        f"pmap needs one device for each of the {wanted} slices that {name} is given, and there "
        f"{'is 1 device' if there == 1 else f'are {there} devices'}.",
        f"Use a mapped axis of at most {there}, or simulate more devices: jaxprviz.use_devices({wanted}) "
        "before JAX starts (in a notebook: restart the kernel first).",
    )


def _axis_below_0(asked: str, what: str) -> TraceError:
    return TraceError(
        asked,
        f"{what} was given an axis below 0, and pmap does not count axes from the end",
        "Count from the front in in_axes and out_axes: the last axis of an array x is x.ndim - 1.",
    )


_BELOW_0 = re.compile(r"\(-\d+, \d+\)")


def _pmap_below_0(error: Exception, asked: str) -> JaxprvizError | None:
    """What JAX 0.7 says of it: an assertion of a negative axis and a rank, and nothing else."""
    is_it = isinstance(error, AssertionError) and _BELOW_0.fullmatch(str(error)) is not None
    return _axis_below_0(asked, "pmap") if is_it else None


def no_slices(asked: str, name: str) -> TraceError:
    """The error of a pmap over an axis of size 0."""
    return TraceError(
        asked,
        f"pmap of {name} splits an axis of size 0: it is given no slice, so no device has anything to do",
        "Split an axis of at least one element.",
    )


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _pmap(error: Exception, asked: str) -> JaxprvizError | None:
    failed = _jax.failed_pmap(error)
    if failed is None:
        return None
    mapped = [(name, shape, axis) for name, shape, axis in failed.arguments if axis is not None]
    if any(axis < 0 for _, _, axis in mapped):
        return _axis_below_0(asked, f"pmap of {failed.name}")
    for name, shape, axis in mapped:
        if axis >= len(shape):
            return TraceError(
                asked,
                f"pmap of {failed.name} splits axis {axis} of {name}, but {name} has the shape "
                f"{_shape(shape)}",
                f"Give {name} an axis whose size is the number of devices, or copy it whole with "
                "in_axes=None.",
            )
    if not mapped:
        return TraceError(
            asked,
            f"pmap of {failed.name} was given no array to split: in_axes is None for all of them",
            "Split at least one argument over the devices: its in_axes is then a number, usually 0.",
        )
    sizes = [shape[axis] for _, shape, axis in mapped]
    if len(set(sizes)) > 1:
        listed = ", ".join(f"axis {axis} of {name} has {shape[axis]}" for name, shape, axis in mapped)
        (usual, most), *others = Counter(sizes).most_common()
        is_tie = most == others[0][1]
        odd = next(name for name, shape, axis in mapped if shape[axis] != usual)
        return TraceError(
            asked,
            f"pmap of {failed.name} splits axes of different sizes over the devices: {listed}",
            "Make the split axes equally long: one slice for each device. To copy "
            f"{'one of them' if is_tie else odd} whole to every device instead, give it in_axes=None.",
        )
    if sizes[0] == 0:
        return no_slices(asked, failed.name)
    if sizes[0] > failed.devices:
        return too_many_devices(asked, failed.name, sizes[0], failed.devices)
    return None


_AXIS = rf"(?:{_jax.PMAP_AXIS}|<axis )"
_NESTED_PMAP = re.compile(rf"context mesh .*{_AXIS}.* should match the mesh passed to shard_map .*{_AXIS}")


def _pmap_in_pmap(error: Exception, asked: str) -> JaxprvizError | None:
    if _NESTED_PMAP.search(str(error)) is None:
        return None
    return TraceError(
        asked,
        "it has a pmap inside a pmap, which JAX does not trace from 0.8 on",
        "Make the inner one a vmap, or use shard_map over a mesh of two axes.",
    )


_MESH = re.compile(
    r"Number of devices (?P<there>\d+) must be >= the product of mesh_shape \((?P<shape>[\d, ]+)\)"
)


def _mesh_too_large(error: Exception, asked: str) -> JaxprvizError | None:
    found = _MESH.search(str(error))
    if found is None:
        return None
    shape = [int(size) for size in found["shape"].split(",") if size.strip()]
    wanted, there = math.prod(shape), int(found["there"])
    return DevicesError(
        asked,
        f"a mesh of {' × '.join(map(str, shape))} needs {wanted} devices, and there "
        f"{'is 1' if there == 1 else f'are {there}'}",
        f"Make it smaller, simulate more devices with jaxprviz.use_devices({wanted}) before JAX starts (in a "
        "notebook: restart the kernel first), or take a jax.sharding.AbstractMesh, which needs none.",
    )


_VARYING = re.compile(r"(?P<where>out_specs\S*) is (?:P|PartitionSpec)(?P<spec>\([^\n]*?\)) which implies")


def _varies(error: Exception, asked: str) -> JaxprvizError | None:
    """A shard_map whose out_specs promise copies that JAX can't see to be equal."""
    found = _VARYING.search(str(error))
    if found is None or "require replication" not in str(error):
        return None
    return TraceError(
        asked,
        f"{found['where']}=P{found['spec']} of shard_map says that the devices along the mesh axes it does not "
        "name all make the same result, and by what JAX knows they may differ",
        "Name these axes in out_specs to join the parts, or make the results equal (jax.lax.psum, pmean or "
        "all_gather over these axes). If they are equal and JAX does not see it: check_vma=False.",
    )


_UNEVEN = re.compile(
    r"(?:of shape (?P<type>[\w<>]+\[[\d,]*\]).*?)?maps array axis (?P<axis>\d+) \(of size (?P<size>\d+)\) "
    r"to mesh (?:axis '?(?P<name>[^']*)'? \(of size|axes (?P<names>.*?) \(of total size) (?P<parts>\d+)\)",
    re.DOTALL,
)


def _uneven(error: Exception, asked: str) -> JaxprvizError | None:
    found = _UNEVEN.search(str(error))
    if found is None:
        return None
    size, parts = int(found["size"]), int(found["parts"])
    axes = f"mesh axes {found['names']}" if found["names"] else f"mesh axis '{found['name']}'"
    smaller, larger = size // parts * parts, -(-size // parts) * parts
    sizes = f"{smaller} or {larger}" if smaller else str(larger)
    kind = f" of a {found['type']}" if found["type"] else ""
    return TraceError(
        asked,
        f"axis {found['axis']}{kind} has {size} elements, which can't be split evenly over the {parts} "
        f"devices of {axes}",
        f"Use a size that {parts} divides ({sizes}), mesh axes whose size divides {size}, or a spec that "
        "does not split this axis.",
    )


_NO_ARRAY = re.compile(
    r"returned a value of type (?P<type>.+?)(?: at output component (?P<where>.+?))?, which is not a"
)


def _returns_no_array(error: Exception, asked: str) -> JaxprvizError | None:
    found = _NO_ARRAY.search(str(error))
    kinds = [_type_name(found["type"])] if found is not None else []
    kinds += [type(value).__name__ for value in _jax.pmap_results(error) if not _jax.is_array(value)]
    if not kinds:
        return None
    return TraceError(
        asked,
        f"the function returns a value of type {kinds[0]}, and JAX traces only functions that return arrays, "
        "numbers, and trees of them",
        "Return arrays only, or keep the other value out of the traced function.",
    )


def _type_name(text: str) -> str:
    return text.removeprefix("<class '").removesuffix("'>")


_NO_ARGUMENT = re.compile(
    r"The problematic value is of type (?P<type>.+?) and was passed to the function at path "
    r"(?P<path>[^\s]+?)\.?\n"
)


def _takes_no_array(error: Exception, asked: str) -> JaxprvizError | None:
    found = _NO_ARGUMENT.search(str(error) + "\n")
    if found is None:
        return None
    if found["type"].endswith("ShapeDtypeStruct'>"):
        return TraceError(
            asked,
            f"the argument {found['path']} is a jax.ShapeDtypeStruct of a shape whose sizes are no whole numbers",
            "Give it sizes such as 4: jax.ShapeDtypeStruct((4, 3), jnp.float32).",
        )
    return TraceError(
        asked,
        f"the argument {found['path']} has the type {_type_name(found['type'])}, which is no array, number, "
        "or tree of them",
        f"Pass arrays, or mark {found['path']} as static where the function is jitted: jax.jit(f, "
        "static_argnames=...).",
    )


def _first_words(text: str) -> str:
    """What an exception says first: its first paragraph, with the next one when that only announces it."""
    paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    words = paragraphs[0]
    for part in paragraphs[1:]:
        if not words.endswith(":"):
            break
        words = f"{words} {part}"
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


_LONGEST = 600
"""Characters that are shown of an exception's text."""


def _refused(error: Exception, asked: str) -> TraceError:
    text = _first_words(str(error))
    where = _jax.users_frame(error)
    place = f" (in {where[0]}, line {where[1]}: {where[2]})" if where is not None and where[2] else ""
    return TraceError(
        asked,
        f"tracing it failed with {type(error).__name__}: {text}{place}",
        "Call the function itself with these arguments: it fails in the same way. The whole exception is in "
        "error.original.",
    )


_KINDS: tuple[Callable[[Exception, str], JaxprvizError | None], ...] = (
    _pmap,
    _pmap_below_0,
    _pmap_in_pmap,
    _mesh_too_large,
    _varies,
    _uneven,
    _returns_no_array,
    _takes_no_array,
)
