"""The numbers that pytest tells."""

from __future__ import annotations

import re

_COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b")
_SUMMARY = re.compile(r"^=* ?(?:\d+ \w+, )*\d+ \w+ in [\d.]+s\b")


def counted(line: str) -> dict[str, int] | None:
    """The numbers in pytest's closing line; None for any other line."""
    if not _SUMMARY.match(line):
        return None
    return {name.replace("errors", "error"): int(number) for number, name in _COUNTS.findall(line)}
