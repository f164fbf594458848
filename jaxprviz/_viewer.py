"""The widget that shows a picture, its sentences, and why there is none for what was asked for."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

_HERE = Path(__file__).parent


class Viewer(anywidget.AnyWidget):
    """Shows one picture at a time.

    Attributes:
        svg: the picture; empty where there is none yet.
        text: the same in sentences, one a line; leading blanks indent.
        message: why the picture is not the one that was asked for; empty when it is.
        stale: whether the picture is an older one; it is then greyed.
    """

    _esm = _HERE / "viewer.js"
    _css = _HERE / "viewer.css"

    svg = traitlets.Unicode().tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)
    message = traitlets.Unicode().tag(sync=True)
    stale = traitlets.Bool(False).tag(sync=True)

    def __repr__(self) -> str:
        """The same in every process: notebooks keep it in their outputs."""
        return f"Viewer(message={self.message!r}, stale={self.stale})"
