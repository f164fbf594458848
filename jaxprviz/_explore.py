"""Sliders over a picture: whenever one moves, the program is built, traced and drawn again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import ipywidgets

from jaxprviz._controls import controls_for, position_text, put, values_of
from jaxprviz._viewer import Viewer
from jaxprviz.errors import JaxprvizError

if TYPE_CHECKING:
    from jaxprviz._figure import Figure

_OPTIONAL: dict[str, Any] = {"devices": (1, 8), "batch": (1, 16)}

_LINES = 8
"""A message that has more lines is cut: the picture that it is about should stay in sight."""


class Explorer(ipywidgets.VBox):
    """Controls above a picture that follows them; made by `explore`.

    Attributes:
        controls: by parameter the widget that sets it (or the `ipywidgets.fixed` that holds it).
        viewer: the widget that shows the picture.
        figure: the last picture that could be drawn; None before there was one.
        error: why the position of the controls has no picture; None when it has one.
        exception: the exception behind `error`; None when there is none.
    """

    def __init__(
        self, build: Callable[..., Any], controls: Mapping[str, Any], draw: Callable[..., Figure]
    ) -> None:
        self.controls = dict(controls)
        self.viewer = Viewer()
        self.figure: Figure | None = None
        self.error: str | None = None
        self.exception: Exception | None = None
        self._build, self._draw = build, draw
        self._drawn = ""
        self._turn = 0
        self._held = False
        shown = [control for control in self.controls.values() if isinstance(control, ipywidgets.DOMWidget)]
        super().__init__([*shown, self.viewer], _dom_classes=("jaxprviz-explorer",))
        for control in self.controls.values():
            control.observe(self._moved, "value")
        self._redraw()

    @property
    def text(self) -> str:
        """The last picture in sentences; empty before there was one."""
        return "" if self.figure is None else self.figure.text

    def set(self, **values: Any) -> None:
        """Moves several controls at once and draws once.

        Raises:
            JaxprvizError: there is no such control, or it cannot have that value; then none has moved.
        """
        asked = f"Explorer.set({', '.join(f'{name}={value!r}' for name, value in values.items())})"
        for name in values:
            if name not in self.controls:
                known = ", ".join(self.controls) or "none"
                raise JaxprvizError(asked, f"there is no control {name!r}", f"The controls are: {known}.")
        before = {name: self.controls[name].value for name in values}
        self._held = True
        try:
            for name, value in values.items():
                put(self.controls[name], name, value, asked)
        except BaseException:
            for name, value in before.items():
                self.controls[name].value = value
            raise
        finally:
            self._held = False
        self._redraw()

    def __repr__(self) -> str:
        """The position of the controls, the same in every process: notebooks keep it in their outputs."""
        return f"Explorer({position_text(self.controls)})"

    def _moved(self, _change: Any) -> None:
        if not self._held:
            self._redraw()

    def _redraw(self) -> None:
        """Draws the present position.

        A control that `build` itself moves starts a newer drawing inside this one: only the newest counts.
        """
        self._turn += 1
        turn, position = self._turn, position_text(self.controls)
        try:
            fn, args, kwargs = _parts(self._build(**values_of(self.controls)), _asked(self._build))
            figure = self._draw(fn, *args, **kwargs)
            svg, text = figure.svg, figure.text  # a figure is rendered when it is asked for its SVG
        except Exception as error:
            if turn == self._turn:
                self._fail(position, error)
            return
        if turn != self._turn:
            return
        self.figure, self.error, self.exception = figure, None, None
        self._drawn = position
        with self.viewer.hold_sync():
            self.viewer.svg, self.viewer.text = svg, text
            self.viewer.message, self.viewer.stale = "", False

    def _fail(self, position: str, error: Exception) -> None:
        """Says why the position has no picture, and greys the last one."""
        told = _told(error)
        self.error, self.exception = told, error
        lines = told.splitlines()
        if len(lines) > _LINES:
            lines = [*lines[:_LINES], "... (the whole of it is in the explorer's `.exception`)"]
        if self.figure is not None:
            lines.append(f"The grey picture below is still that of {self._drawn}.")
        with self.viewer.hold_sync():
            self.viewer.message = "\n".join([f"No picture for {position}.", *lines])
            self.viewer.stale = self.figure is not None


def explore(
    build: Callable[..., Any],
    devices: Any = _OPTIONAL["devices"],
    batch: Any = _OPTIONAL["batch"],
    **others: Any,
) -> Explorer:
    """Shows the picture of a program beside controls for what the program depends on.

    Each control is given by an abbreviation of `ipywidgets.interact`: `(lowest, highest)` or
    `(lowest, highest, step)` is a slider, a list or dict a choice, a bool a check box, a number a slider
    around it, a str a line of text; a widget is itself; `ipywidgets.fixed(value)` has no control.  A control
    starts at the parameter's default where `build` has one.

    Args:
        build: makes the program: takes the values of the controls by name and returns `(function, args)` or
            `(function, args, kwargs)`, as `draw` takes them.  `jax.ShapeDtypeStruct`s as arguments are the
            fastest: a JAX array of a new shape is compiled when it is made.
        devices: the control of build's parameter `devices`, if it has one.
        batch: the control of build's parameter `batch`, if it has one.
        **others: the controls of build's other parameters.  One with a default needs none.

    Returns:
        A widget.  Where a position has no picture (the batch cannot be divided by the devices, say), it
        keeps the last one, greyed, and says why.

    Raises:
        JaxprvizError: the controls do not fit the parameters of `build`.
    """
    # What only draws a picture once does without this import, and this module without drawing.
    from jaxprviz._draw import draw

    if any(hasattr(control, "dtype") for control in (devices, batch)):
        raise JaxprvizError(
            _asked(build),
            "it was given an array where the control of a parameter of build is expected",
            "build(devices, batch) returns (function, args) for the position of the sliders: explore(build). To "
            "draw one program: draw(f, w, x).",
        )
    given = {"devices": devices, "batch": batch, **others}
    return Explorer(build, controls_for(build, given, _OPTIONAL, _asked(build)), draw)


def _asked(build: Any) -> str:
    return f"explore({getattr(build, '__name__', type(build).__name__)})"


def _told(error: Exception) -> str:
    """What to say of an exception of `build` or of the drawing."""
    from jaxprviz._mistakes import known  # it imports JAX, and this module works without

    found = known(error, "build failed")
    if found is not None:
        return str(found)
    raised = f"{type(error).__name__}: {error}".removesuffix(": ")
    if " " in str(error):  # build says what is wrong
        return raised
    return f"build failed: it raised {raised}\nThe whole exception is in the explorer's `.exception`."


def _parts(result: Any, asked: str) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]]:
    """What `build` returned, as function, arguments and keyword arguments."""
    match result:
        case (fn, tuple() | list() as args):
            return fn, tuple(args), {}
        case (fn, tuple() | list() as args, Mapping() as kwargs):
            return fn, tuple(args), kwargs
    kind = type(result).__name__
    if isinstance(result, tuple):
        kind += f" of ({', '.join(type(part).__name__ for part in result)})"
    raise JaxprvizError(
        asked,
        f"build returned {kind}",
        "Return (function, args) or (function, args, kwargs), args being a tuple: `return f, (w, x)`.",
    )
