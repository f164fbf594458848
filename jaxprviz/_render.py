"""DOT text to a picture, by Graphviz: the one place of the package that starts another program."""

from __future__ import annotations

import functools
import re
import shutil
import signal
import subprocess
import sysconfig
import warnings
from pathlib import Path

from jaxprviz.errors import RenderError

PURE = "graphviz-pure"
SYSTEM = "dot"

_EXECUTABLES = {"svg": (PURE, SYSTEM), "png": (SYSTEM,), "pdf": (SYSTEM,)}
"""Which executables can make a format, best first.  graphviz-pure has no PDF, and its PNG lacks glyphs."""

_INSTALL = {
    "svg": "Run `pip install graphviz-pure`, or install Graphviz (https://graphviz.org/download/).",
    "png": "Run `pip install vl-convert-python`, or install Graphviz (https://graphviz.org/download/).",
    "pdf": "Run `pip install vl-convert-python`, or install Graphviz (https://graphviz.org/download/).",
}

_END = {"svg": b"</svg>", "png": b"IEND\xaeB`\x82", "pdf": b"%%EOF"}
"""How a complete file ends, white space aside."""

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that no XML file may hold: Graphviz would pass them on into an SVG that nothing can read."""


class RenderWarning(UserWarning):
    """Graphviz drew the picture, but not as it should be."""


def render(dot: str, fmt: str = "svg", timeout: float = 20.0, *, dpi: int = 96) -> bytes:
    """Draws DOT text.

    The last 64 pictures are kept, so asking again for one of them costs nothing.

    Args:
        dot: the DOT text.  Characters that XML forbids are drawn as U+FFFD.
        fmt: `"svg"`, or `"png"` and `"pdf"`, which need Graphviz's own `dot`.
        timeout: seconds after which the layout is given up.
        dpi: pixels an inch; for `"png"` alone.

    Returns:
        The file's content, as Graphviz wrote it.

    Raises:
        RenderError: no Graphviz is installed; it took too long; it failed or crashed.
        KeyError: `fmt` is none of the three.

    Warns:
        RenderWarning: Graphviz left edges out, or reported a failure although it drew everything.
    """
    names = _EXECUTABLES[fmt]
    found = tuple(path for path in map(find, names) if path is not None)
    if not found:
        wrong = f"neither {' nor '.join(names)} was found" if len(names) > 1 else f"{names[0]} was not found"
        raise RenderError(_asked(fmt), wrong, _INSTALL[fmt])
    return _draw(found, NOT_XML.sub("\ufffd", dot), fmt, timeout, dpi)


def find(name: str) -> str | None:
    """The path of an executable: that of this Python environment, of the user's, or of PATH; None without."""
    folders = (sysconfig.get_path("scripts"), _user_scripts(), None)
    found = (shutil.which(name, path=folder) for folder in folders)
    return next((path for path in found if path is not None), None)


def _user_scripts() -> str:
    """Where `pip install --user` puts executables."""
    return sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))


@functools.lru_cache(maxsize=64)
def _draw(executables: tuple[str, ...], dot: str, fmt: str, timeout: float, dpi: int) -> bytes:
    """`render`, by the first of `executables` that this machine can start."""
    options = [f"-T{fmt}", *([f"-Gdpi={dpi}"] if fmt == "png" else [])]
    refused = ""
    for executable in executables:
        try:
            done = subprocess.run(
                [executable, *options], input=dot.encode(), capture_output=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            wrong = f"Graphviz was not done after {timeout:g} s, and was stopped"
            raise RenderError(
                _asked(fmt), wrong, "Open fewer scopes, so that there are fewer boxes."
            ) from None
        except OSError as error:
            # A wheel for another machine, say: the next executable may do.
            refused = f"{Path(executable).name} can't be started ({error.strerror})"
            continue
        return _checked(done, dot, fmt)
    raise RenderError(_asked(fmt), refused, _INSTALL[fmt])


def _checked(done: subprocess.CompletedProcess[bytes], dot: str, fmt: str) -> bytes:
    """The picture that a finished process wrote, if it is whole."""
    picture = done.stdout
    if not picture.rstrip().endswith(_END[fmt]):
        raise RenderError(
            _asked(fmt),
            f"Graphviz {_ending(done)}",
            "The text that it was given is in `figure.dot`; please report it.",
        )
    wanted = count_edges(dot)
    drawn = picture.count(b'class="edge"') if fmt == "svg" else wanted
    if drawn < wanted:
        message = f"Graphviz drew {drawn} of {wanted} edges: the picture lacks {wanted - drawn}"
        warnings.warn(message, RenderWarning, stacklevel=4)
    elif done.returncode:
        message = f"Graphviz drew the picture, and yet {_ending(done)}"
        warnings.warn(message, RenderWarning, stacklevel=4)
    return picture


def _ending(done: subprocess.CompletedProcess[bytes]) -> str:
    """How a process ended, with the last line that it wrote about it."""
    status = done.returncode
    if status < 0:
        number = -status
        known = number in signal.valid_signals()
        how = f"crashed ({signal.Signals(number).name if known else f'signal {number}'})"
    else:
        how = f"ended with status {status}" if status else "wrote no picture"
    lines = done.stderr.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{how}: {last}" if last else how


def _asked(fmt: str) -> str:
    return f"draw the picture as {fmt.upper()}"


_OUTSIDE = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|^#[^\n]*|->|--|<', re.DOTALL | re.MULTILINE)
_INSIDE = re.compile(r"[<>]")


_HIDDEN = re.compile(r"[^\[\n;]*\[style=\"?invis")


def count_edges(dot: str) -> int:
    """The number of edges that DOT text draws.

    The text names the two ends of each edge (`a -> b`, no `a -> {b c}`), and an edge that only holds boxes in
    place has `style=invis` as its first attribute: Graphviz leaves it out of the picture.
    """
    edges = position = depth = 0
    while found := (_INSIDE if depth else _OUTSIDE).search(dot, position):
        token, position = found.group(), found.end()
        if token == "<":
            depth += 1
        elif token == ">":
            depth -= 1
        elif token in ("->", "--"):
            edges += not _HIDDEN.match(dot, position)
    return edges
