"""Text that shows itself as it is."""

from __future__ import annotations


class Text(str):
    """A string of several lines that a notebook and a terminal show without quotes and escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
