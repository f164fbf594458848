"""Text on one line, and text that shows itself as it is."""

from __future__ import annotations

import unicodedata

_LINE_END = "¶"  # common fonts have it, bold too


def one_line(text: str) -> str:
    """Text of a program on one line: line ends as a sign, tabs as blanks, no other controls."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\n", _LINE_END).replace("\r", _LINE_END).replace("\t", " ")
    return "".join(sign for sign in text if unicodedata.category(sign) not in {"Cc", "Cs"})


class Text(str):
    """A string of several lines that a notebook and a terminal show without quotes and escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
