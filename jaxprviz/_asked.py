"""How an array is asked to lie over the devices, or how it arrives: a strip, and a line of words."""

from __future__ import annotations

from jaxprviz import _strip, _style
from jaxprviz._facts import Layout
from jaxprviz._label import plain, sized
from jaxprviz._placement import sharding_free
from jaxprviz._style import Hue
from jaxprviz.program import Sharding, Type


def asked_layout(kind: Type, sharding: Sharding) -> Layout:
    """How an array of this type lies by a sharding."""
    return Layout(kind, sharding.mesh, sharding.spec, sharding_free(sharding))


def asked_clauses(layout: Layout, word: str) -> tuple[str, ...]:
    """How it is asked to lie, in words: `"asked: axis 0 split by data=4"`.

    Args:
        layout: how.
        word: what it is: `"asked"`, or `"arrives"` for an argument that lay so.
    """
    first, *rest = _strip.entering(layout)
    odd = () if layout.divides else ("the size is no multiple of the parts",)
    return (f"{word}: {first}", *rest, *odd)


def asked_rows(kind: Type, sharding: Sharding, word: str, hue: Hue) -> tuple[str, ...]:
    """Rows of a label: the strip of an array, and how it is asked to lie in words."""
    layout = asked_layout(kind, sharding)
    texts = asked_clauses(layout, word)
    return (_strip.strip(layout, hue), *(sized(plain(text, 60), _style.SMALL) for text in texts))
