"""Graphviz's SVG made ours: named, described, harmless, and able to stand beside others in one page.

The SVG is read by an XML parser and written anew from lists of what may stay.  So whatever a label held, no
script, no event handler and no address but a web page's or one inside the picture is in what comes out.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat
from xml.sax.saxutils import escape

from jaxprviz._render import NOT_XML
from jaxprviz.errors import RenderError

FONTS = "Arial, Liberation Sans, Helvetica, sans-serif"
"""Liberation Sans has the widths of Arial, by which Graphviz measured, and stands where Arial is missing."""

_PIXELS_A_POINT = 96 / 72

_ELEMENTS = frozenset(
    re.findall(
        r"\S+",
        """
        g a defs linearGradient radialGradient stop clipPath polygon polyline path ellipse circle
        rect line text tspan
        """,
    )
)
_ATTRIBUTES = frozenset(
    re.findall(
        r"\S+",
        """
        id class transform points d x y x1 x2 y1 y2 cx cy r rx ry fx fy width height offset fill
        fill-opacity fill-rule stroke stroke-width stroke-dasharray stroke-linecap stroke-linejoin
        stroke-miterlimit stroke-opacity opacity stop-color stop-opacity gradientUnits
        gradientTransform clip-path clip-rule text-anchor text-decoration baseline-shift
        dominant-baseline font-family font-size font-style font-weight xml:space xlink:title
        xlink:href style
        """,
    )
)
_TEXT = frozenset(("text", "tspan"))
_ADDRESS = re.compile(r"https?://|#")
_NOT_ID = re.compile(r"[^\w.:-]")
_STYLE = re.compile(r"[\w\s:;.#%,-]*")


def dress(svg: bytes, *, title: str, description: str, role: Literal["img", "group"] = "img") -> str:
    """Makes the SVG that Graphviz wrote into one that can be shown anywhere.

    It has a title, a description, and a size in pixels, and is never wider than its page.  The names of
    Graphviz's nodes are gone; tooltips stay.  All ids begin with a word that is made from the content: they
    are the same on every run and differ from those of other pictures in the page.

    Args:
        svg: what Graphviz wrote.
        title: the name of the picture.
        description: what the picture says, in words.
        role: `"img"` for a picture, `"group"` for one whose parts are reached one by one.

    Raises:
        RenderError: `svg` is no SVG.
    """
    title, description = (NOT_XML.sub("\ufffd", text) for text in (title, description))
    content = "\0".join((role, title, description)).encode(errors="backslashreplace") + svg
    writer = _Writer(f"j{hashlib.sha256(content).hexdigest()[:10]}-", title, description, role)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = writer.start
    parser.EndElementHandler = writer.end
    parser.CharacterDataHandler = writer.text
    try:
        parser.Parse(svg, True)
        wrong = "" if writer.started else "another root element"
    except expat.ExpatError as error:
        wrong = str(error)
    if wrong:
        raise RenderError(
            "read the picture that Graphviz drew",
            f"it is no SVG ({wrong})",
            "The text that Graphviz was given is in `figure.dot`; please report it.",
        )
    return "".join(writer.out)


@dataclass(slots=True)
class _Writer:
    """Receives what the parser reads, and writes what may stay of it.

    Attributes:
        prefix: what each id begins with.
        title, description, role: as for `dress`.
        out: the text so far.
        dropped: how many elements deep the parser is in one that is left out.
        inside: how many elements deep it is in text.
        started: whether the root element was written.
    """

    prefix: str
    title: str
    description: str
    role: str
    out: list[str] = field(default_factory=list)
    dropped: int = 0
    inside: int = 0
    started: bool = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if not self.started and name == "svg":
            self.started = True
            self._root(attributes)
        elif self.dropped or not self.started or name not in _ELEMENTS:
            self.dropped += 1
        else:
            self.inside += name in _TEXT
            kept = {key: self._value(key, value) for key, value in attributes.items() if key in _ATTRIBUTES}
            self._open(name, kept)

    def end(self, name: str) -> None:
        if self.dropped:
            self.dropped -= 1
            return
        self.inside -= name in _TEXT
        self.out.append(f"</{name}>" if self.inside else f"</{name}>\n")

    def text(self, data: str) -> None:
        if self.inside and not self.dropped:
            self.out.append(escape(data))

    def _open(self, name: str, attributes: dict[str, str | None]) -> None:
        kept = ((key, _escaped(value)) for key, value in attributes.items() if value is not None)
        words = "".join(f' {key}="{value}"' for key, value in kept)
        self.out.append(f"<{name}{words}>")

    def _root(self, attributes: dict[str, str]) -> None:
        """The root element, its title and its description."""
        view = attributes.get("viewBox", "0 0 0 0")
        left, top, *sizes = (float(number) for number in view.split())
        # Whole pixels: a pixel that is covered in part is grey at the edge of a PNG.
        width, height = (math.ceil(size * _PIXELS_A_POINT) for size in sizes)
        view = f"{left:.2f} {top:.2f} {width / _PIXELS_A_POINT:.2f} {height / _PIXELS_A_POINT:.2f}"
        name, words = f"{self.prefix}title", f"{self.prefix}desc"
        self._open(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "xmlns:xlink": "http://www.w3.org/1999/xlink",
                "role": self.role,
                "aria-labelledby": name,
                "aria-describedby": words,
                "width": str(width),
                "height": str(height),
                "viewBox": view,
                "font-family": FONTS,
                # A page that strips this has the width and the height.
                "style": "max-width:100%;height:auto",
            },
        )
        self.out.append(f'\n<title id="{name}">{escape(self.title)}</title>\n')
        self.out.append(f'<desc id="{words}">{escape(self.description)}</desc>\n')
        self.out.append('<rect width="100%" height="100%" fill="#ffffff"/>\n')

    def _value(self, key: str, value: str) -> str | None:
        """What becomes of an attribute's value; None when the attribute is left out."""
        match key:
            case "id":
                return self.prefix + _NOT_ID.sub("_", value)
            case "font-family":
                # The root has the one that nearly all text has.
                return None if value == "Arial" else f"{value}, {FONTS}"
            case "xlink:href":
                return _local(value, self.prefix) if _ADDRESS.match(value) else None
            case "style":
                return value if _STYLE.fullmatch(value) else None
            case _ if value == "transparent":
                return "none"  # the colour's name is younger than SVG 1.1
            case _ if key != "xlink:title" and "url(" in value:
                return f"url(#{self.prefix}{value[5:]}" if value.startswith("url(#") else None
        return value


def _local(address: str, prefix: str) -> str:
    return f"#{prefix}{_NOT_ID.sub('_', address[1:])}" if address.startswith("#") else address


def _escaped(value: str) -> str:
    """An attribute's value; line ends as references, which parsers keep."""
    return escape(value, {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
