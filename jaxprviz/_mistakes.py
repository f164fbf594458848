"""From an exception of JAX's or of the user's function to an error that says what was asked, what is wrong,
what to do.

One entry a kind of mistake: each looks at the exception and gives an error, or None when it is of another
kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from jaxprviz import _jax
from jaxprviz.errors import DevicesError, JaxprvizError, TraceError


def explained(error: Exception, asked: str) -> JaxprvizError:
    """The error to raise in the place of an exception that arose while `asked` was done."""
    if isinstance(error, JaxprvizError):
        return error
    for kind in _KINDS:
        found = kind(error, asked)
        if found is not None:
            return found
    return _refused(error, asked)


def too_many_devices(asked: str, name: str, wanted: int, there: int) -> DevicesError:
    """The error of a pmap over more devices than there are."""
    return DevicesError(
        asked,
        f"pmap needs one device for each of the {wanted} slices that {name} is given, and there "
        f"{'is 1 device' if there == 1 else f'are {there} devices'}.",
        f"Use a mapped axis of at most {there}, or simulate more devices: jaxprviz.use_devices({wanted}) "
        "before JAX starts (in a notebook: restart the kernel first).",
    )


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _pmap(error: Exception, asked: str) -> JaxprvizError | None:
    failed = _jax.failed_pmap(error)
    if failed is None:
        return None
    mapped = [(name, shape, axis) for name, shape, axis in failed.arguments if axis is not None]
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
    if sizes[0] > failed.devices:
        return too_many_devices(asked, failed.name, sizes[0], failed.devices)
    return None


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
    _uneven,
    _returns_no_array,
    _takes_no_array,
)
