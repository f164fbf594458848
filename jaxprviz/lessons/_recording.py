"""What an older JAX made of a program and of running it, as `tools/record.py` wrote it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from jaxprviz._figure import Figure
from jaxprviz._grid import Bounds, Grid, grid_dot, in_rows
from jaxprviz._json import from_json
from jaxprviz.program import Program


@dataclass(frozen=True)
class Recording:
    """A program and what a run of it showed.

    Attributes:
        program: what was traced; `draw` and `explain` take it as it is.
        shape: the shape of the result, whose elements are float32.
        held: for each device, in order, the part of the result that it held.
        warnings: what JAX warned of.
        collectives: the kinds of collectives in the compiled program.
        slower: how many times as long as `pmap(step)` a call of `jit(pmap(step))` took.
    """

    program: Program
    shape: tuple[int, ...]
    held: tuple[Bounds, ...]
    warnings: tuple[str, ...]
    collectives: tuple[str, ...]
    slower: float

    def result(self) -> Figure:
        """Draws which part of the result each device held."""
        whole = tuple((0, size) for size in self.shape)
        copies = self.held.count(whole)
        summary = f"copied whole to {copies} devices" if copies == len(self.held) else "split"
        names = [f"device {number}" for number in range(len(self.held))]
        kind = f"f32[{','.join(map(str, self.shape))}]"
        rows = in_rows(names, self.held, len(names))
        grid = Grid("result", kind, self.shape, 4, f"{summary}, in JAX {self.program.jax}", (), *rows)
        return Figure(None, grid_dot([grid]), grid.text(), f"Placement of result in JAX {self.program.jax}")


def load(name: str) -> Recording:
    """A recording that is part of the package, by the name of its file."""
    data = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    observed = data.pop("observed")
    return Recording(
        program=from_json(json.dumps(data)),
        shape=tuple(observed["shape"]),
        held=tuple(tuple((start, stop) for start, stop in bounds) for bounds in observed["held"]),
        warnings=tuple(observed["warnings"]),
        collectives=tuple(observed["collectives"]),
        slower=observed["slower"],
    )
