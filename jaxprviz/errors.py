"""The errors that jaxprviz raises: each says what was asked, what is wrong, and what to do."""

from __future__ import annotations


class JaxprvizError(Exception):
    """The base of all errors of this package.

    Args:
        asked: what was asked for.
        wrong: what is wrong with it.
        remedy: what to do about it.
    """

    def __init__(self, asked: str, wrong: str, remedy: str) -> None:
        super().__init__(asked, wrong, remedy)
        self.asked, self.wrong, self.remedy = asked, wrong, remedy

    def __str__(self) -> str:
        return f"{self.asked}: {self.wrong}\n{self.remedy}"

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback: the message, which says all that this package's frames could."""
        return [
            f"{type(self).__name__}: {line}" if not place else line
            for place, line in enumerate(str(self).split("\n"))
        ]


class TraceError(JaxprvizError):
    """The function could not be traced; `original` is the exception that was raised, or None."""

    original: BaseException | None = None


class DevicesError(JaxprvizError):
    """There are not the devices that were asked for."""


class RenderError(JaxprvizError):
    """The picture could not be drawn by Graphviz, or could not be converted."""


class SaveError(JaxprvizError):
    """A file could not be written or read."""


class RunError(JaxprvizError):
    """The program could not be run, or what it computed can't be told in the way that was asked for."""


class PrimitiveError(JaxprvizError):
    """A rule that was entered for a primitive does not fit."""


class VersionError(JaxprvizError):
    """This JAX is not supported."""
