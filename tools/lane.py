"""The lanes: the further JAXes, and the Pythons for them, that the project is tested with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pythons
from environment import LOCK, ROOT, Environment

FOLDER = ROOT / "tools" / "lanes"


@dataclass(frozen=True)
class Lane:
    """One JAX.

    Attributes:
        name: how its step is chosen on the command line.
        jax: its version.
        about: what is special in it.
        pythons: the Pythons that it is tested with, the first that is found.
    """

    name: str
    jax: str
    about: str
    pythons: tuple[pythons.Version, ...]

    @property
    def file(self) -> Path:
        """Its pins."""
        return FOLDER / f"jax-{self.jax}.txt"

    @property
    def sources(self) -> tuple[Path, ...]:
        """What its pins are resolved from."""
        return FOLDER / "lane.in", FOLDER / f"jax-{self.jax}.in"

    def environment(self, python: pythons.Python) -> Environment:
        """Its virtual environment, which may not be there yet."""
        told = ("--requirement", str(self.file.relative_to(ROOT)))
        folder = ROOT / ".lanes" / f"jax-{self.jax}-py{pythons.text(python.version)}"
        return Environment(folder, told, (self.file,))


_OLDER = ((3, 11), (3, 12), (3, 13))

LANES = (
    Lane("colab", "0.7.2", "JAX 0.7.2 and Colab's versions around it", _OLDER),
    Lane("jax-0.8", "0.8.3", "JAX 0.8.3", _OLDER),
    Lane("jax-0.9", "0.9.2", "JAX 0.9.2", _OLDER),
    Lane("newest", "0.12.0.1", "JAX 0.12.0.1", ((3, 12), (3, 13), (3, 14))),
)


def main_jax() -> str:
    """The version of JAX in the main environment, for which pictures are stored."""
    found = re.search(r"^jax==(\S+)$", LOCK.read_text(), re.MULTILINE)
    assert found is not None
    return found.group(1)
