"""Text on one line, and text that shows itself as it is."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

MOST_LINES = 40
"""Sentences of one kind; a longer list ends with how many more there are."""

_LINE_END = "¶"  # common fonts have it, bold too


def one_line(text: str) -> str:
    """Text of a program on one line: line ends as a sign, tabs as blanks, no other controls."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\n", _LINE_END).replace("\r", _LINE_END).replace("\t", " ")
    return "".join(sign for sign in text if unicodedata.category(sign) not in {"Cc", "Cs"})


def listed(lines: Sequence[str]) -> list[str]:
    """Each line once, in order, with how often it came; at most `MOST_LINES` of them."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    kept = [f"  {line}" if count == 1 else f"  {line} ({count} times)" for line, count in counts.items()]
    return (
        kept if len(kept) <= MOST_LINES else [*kept[:MOST_LINES], f"  … and {len(kept) - MOST_LINES} more."]
    )


class Text(str):
    """A string of several lines that a notebook and a terminal show without quotes and escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
