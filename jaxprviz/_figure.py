"""A picture of a program together with the sentences that say the same."""

from __future__ import annotations

import base64
import errno
import functools
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from jaxprviz._export import to_pdf, to_png
from jaxprviz._json import to_json
from jaxprviz._render import render
from jaxprviz._svg import dress
from jaxprviz._titles import titles_left
from jaxprviz.errors import SaveError
from jaxprviz.program import Program

_ALT = 300
"""The alt text is a summary of about this many characters; the whole text stands beside it."""


@dataclass(frozen=True, repr=False)
class Figure:
    """A picture of a program.  A notebook shows it; elsewhere its sentences are printed.

    Attributes:
        program: what it shows; None when it shows no program.
        dot: the DOT text that Graphviz draws it from.
        text: what it says, as sentences, one a line.
        title: its name.
    """

    program: Program | None
    dot: str
    text: str
    title: str

    @functools.cached_property
    def svg(self) -> str:
        """The picture as SVG, drawn when it is first asked for.  Raises RenderError."""
        return dress(titles_left(render(self.dot)), title=self.title, description=self.text)

    @property
    def alt(self) -> str:
        """A short text that stands for the picture: its title and the first of its sentences."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        words = " ".join([f"{self.title.strip()}:", *lines] if lines else [self.title.strip()]).split()
        taken, length = 0, 0
        while taken < len(words) and length + len(words[taken]) < _ALT:
            length += len(words[taken]) + 1
            taken += 1
        return " ".join(words) if taken == len(words) else " ".join([*words[:taken], "..."])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes it to a file; the suffix says how.  A file that is there already is replaced.

        `.svg`, `.png` and `.pdf` are the picture, `.dot` what Graphviz draws it from, `.html` a page with
        picture and sentences, `.txt` the sentences, `.json` the program.  A PNG has twice the picture's width
        and height in pixels, but no more than 40 million of them.

        Returns:
            The path of the file.

        Raises:
            SaveError: the suffix is unknown, or the file can't be written.  Nothing is written then.
            RenderError: the picture can't be drawn.  Nothing is written then.
        """
        if not isinstance(path, (str, os.PathLike)) or "\0" in str(path):
            wrong = f"{path!r} is no path of a file"
            raise SaveError("save the figure", wrong, 'Pass the name of a file: figure.save("f.svg").')
        path = Path(path).expanduser()
        asked = f"save the figure as {path}"
        writer = _WRITERS.get(path.suffix.lower())
        if writer is None:
            wrong = f"the suffix {path.suffix!r} is unknown" if path.suffix else "it has no suffix"
            raise SaveError(asked, wrong, f"Choose one of {', '.join(_WRITERS)}.")
        _replace(path, writer(self, asked), asked)
        return path

    def __repr__(self) -> str:
        return self.text or self.title

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What a notebook shows and keeps.

        The HTML comes first where it is allowed, and it is allowed in untrusted notebooks too; it alone
        carries an alt text.
        """
        return {"text/html": _image(self.svg, self.alt), "image/svg+xml": self.svg, "text/plain": repr(self)}


def _image(svg: str, alt: str) -> str:
    """The picture as an HTML image, on a white card that dark themes leave white."""
    data = base64.b64encode(_utf8(svg)).decode()
    style = "max-width:100%;height:auto;background-color:#ffffff"
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}" style="{style}">'


_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font-family: Arial, "Liberation Sans", Helvetica, sans-serif; margin: 1.5rem; line-height: 1.4; }}
figure {{ margin: 0; padding: 0.5rem; background: #ffffff; border-radius: 6px;
  width: fit-content; max-width: 100%; box-sizing: border-box; }}
figure svg {{ display: block; }}
pre {{ font-family: inherit; white-space: pre-wrap; overflow-wrap: anywhere; max-width: 60rem; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<figure>
{svg}</figure>
<pre>{text}</pre>
</main>
</body>
</html>
"""


def _html(figure: Figure, asked: str) -> bytes:
    """A page that needs no other file."""
    title, text = escape(figure.title), escape(figure.text)
    return _utf8(_PAGE.format(title=title, svg=figure.svg, text=text))


def _program(figure: Figure, asked: str) -> bytes:
    if figure.program is None:
        raise SaveError(asked, "this figure shows no program", "Choose another suffix.")
    return _utf8(to_json(figure.program))


def _utf8(text: str) -> bytes:
    """Text as bytes; a half of a surrogate pair, which a Python string may hold, as an escape."""
    return text.encode(errors="backslashreplace")


_WRITERS: dict[str, Callable[[Figure, str], bytes]] = {
    ".svg": lambda figure, asked: _utf8(figure.svg),
    ".png": lambda figure, asked: to_png(figure.svg, figure.dot),
    ".pdf": lambda figure, asked: to_pdf(figure.svg, figure.dot),
    ".dot": lambda figure, asked: _utf8(figure.dot),
    ".html": _html,
    ".json": _program,
    ".txt": lambda figure, asked: _utf8(figure.text.rstrip("\n") + "\n"),
}
"""What `Figure.save` writes for a suffix; the second argument is what was asked, for an error."""


def _replace(path: Path, content: bytes, asked: str) -> None:
    """Writes a file beside `path`, then gives it that name: `path` is never half written."""
    target = Path(os.path.realpath(path))  # a link stays a link
    if os.path.isdir(target):  # unlike Path.is_dir it takes names that are too long
        raise SaveError(asked, "it is a folder", "Add the name of a file.")
    if not target.parent.is_dir():
        raise SaveError(
            asked, f"there is no folder {path.parent}", "Make the folder first, or choose another."
        )
    try:
        with tempfile.TemporaryDirectory(prefix=".jaxprviz-", dir=target.parent) as folder:
            # A file in a folder of its own: it gets the rights that any new file gets.
            written = Path(folder, target.name)
            written.write_bytes(content)
            written.replace(target)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            wrong = (
                f"the name {target.name[:40]}… has {len(target.name)} characters, too many for a file here"
            )
            raise SaveError(asked, wrong, "Choose a shorter name.") from None
        wrong = f"the folder {path.parent} can't be written ({error.strerror or error})"
        raise SaveError(asked, wrong, "Choose another folder, or change its permissions.") from None
