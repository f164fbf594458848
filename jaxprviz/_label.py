"""Text for pictures: shortened, escaped, and put together to Graphviz's HTML-like labels."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from jaxprviz import _style
from jaxprviz._text import one_line

GAP = "&#160;"
NAME_LENGTH = 36
TIP_LENGTH = 200


def shorten(text: str, length: int = NAME_LENGTH) -> str:
    """At most `length` characters of a text; its middle is left out."""
    if len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - length :]}"


def escape(text: str, length: int = NAME_LENGTH) -> str:
    """Text of a program for an HTML-like label: shown as it is, whatever it holds."""
    text = shorten(one_line(text), length)
    # Graphviz puts the box's name for a single backslash and N, in HTML-like labels too.
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\\", "\\\\")):
        text = text.replace(sign, entity)
    return text


def quote(text: str) -> str:
    """A quoted DOT string that shows exactly this text, as a tooltip too.

    Graphviz reads a backslash in a tooltip twice: once as DOT, once for what stands for the box's name.
    """
    text = one_line(text).replace("\\", "\\" * 4).replace("&", "&amp;").replace('"', '\\"')
    return f'"{text}"'


def attributes(values: Mapping[str, str]) -> str:
    """Attributes as DOT; a value that begins with `<` is an HTML-like label."""
    return " ".join(f"{key}={_value(value)}" for key, value in values.items())


def _value(value: str) -> str:
    return value if value.startswith("<") and value.endswith(">") else quote(value)


def bold(text: str) -> str:
    """A program's text in bold."""
    return f"<B>{escape(text)}</B>"


def plain(text: str, length: int = NAME_LENGTH) -> str:
    """A program's text as it is."""
    return escape(text, length)


def grey(text: str, length: int = NAME_LENGTH) -> str:
    """A program's text in grey: types and other side remarks."""
    return coloured(text, _style.GREY, length=length)


def coloured(text: str, colour: str, *, strong: bool = False, length: int = NAME_LENGTH) -> str:
    """A program's text in a colour, in bold if `strong`."""
    inner = escape(text, length)
    return f'<FONT COLOR="{colour}">{f"<B>{inner}</B>" if strong else inner}</FONT>'


def sized(html: str, size: int) -> str:
    """A piece of a label in another size."""
    return f'<FONT POINT-SIZE="{size}">{html}</FONT>'


_WIDTHS = {
    sign: width
    for signs, width in (
        ("ijl", 222),
        (" !,./:;I[]\\ft|\u00a0", 278),
        ('()-r`{}"*', 335),
        ("Jcksvxyz", 500),
        ("FTZL", 600),
        ("&ABEKPSVXY", 667),
        ("CDHNRUw", 722),
        ("GOQ", 778),
        ("Mm%", 850),
        ("W@", 980),
    )
    for sign in signs
}
"""Widths of Arial's letters in thousandths of the font's size; all others are about 560."""


def width(label: str, size: int = 11) -> float:
    """About how wide a label is, in points: that of its widest row."""
    rows = re.split(r"<(?:/TR|BR[^<>]*)>", label[1:-1])
    return max((_width(html.unescape(re.sub("<[^<>]*>", "", row)), size) for row in rows), default=0.0)


def _width(text: str, size: int) -> float:
    return sum(_WIDTHS.get(sign, 560 if sign < "\u2e80" else 1000) for sign in text) * size / 1000


def run(*pieces: str | None) -> str:
    """Pieces of a label side by side, with a gap between them; None is left out."""
    return GAP.join(piece for piece in pieces if piece)


def lines(*rows: str | None) -> str:
    """A left-aligned label of several lines."""
    kept = [row for row in rows if row]
    if len(kept) == 1:
        return f"<{kept[0]}>"
    return "<" + "".join(f'{row}<BR ALIGN="LEFT"/>' for row in kept) + ">"
