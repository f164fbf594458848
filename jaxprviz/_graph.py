"""The parts of a picture while it is drawn: where values come from, what frames hold, who reads what."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from jaxprviz import _label, _style
from jaxprviz._scope import Path, path_text
from jaxprviz._spelling import spelled
from jaxprviz._style import Line, Look
from jaxprviz.program import Atom, Literal, Type

_CLEAR = 12
"""Points between a title and the line beside it."""

_NODESEP = 72 * float(_style.GRAPH["nodesep"])


@dataclass(frozen=True, slots=True)
class Wire:
    """Where a value comes from.

    Attributes:
        node: the box that an edge starts at.
        key: which value of the program it is: equal for the same value, wherever it is read.
        name: its Python name, or None.
        type: its type, or None for one that stands for several values.
        look: how a copy of the box looks.
        line: how the edges that leave it look.
        port: which part of the box an edge starts at.
        maker: the primitive that makes it.
    """

    node: str
    key: tuple[str, int]
    name: str | None
    type: Type | None
    look: Look = Look.EQUATION
    line: Line = Line.WIRE
    port: str | None = None
    maker: str | None = None

    @property
    def known_as(self) -> str:
        """What a second box for the same value says: its name, or what makes it, or its type; it may be empty."""
        made = f"from {spelled(self.maker)}" if self.maker else None
        return self.name or made or (self.type.short if self.type else "")

    @property
    def tip(self) -> str:
        return (
            ": ".join(filter(None, (self.name, self.type.short if self.type else None))) or "several values"
        )


Value = Wire | Literal | None
"""What a variable is in the picture: a wire, a number, or not known."""

Values = dict[int, Value]
"""What the variables of one scope are in the picture, by number."""


def read(values: Values, atom: Atom) -> Value:
    """What an equation's operand is in the picture."""
    return values.get(atom) if isinstance(atom, int) else atom


def box_id(path: Path, *more: int) -> str:
    """The part of a box's name that says where it stands."""
    steps = path_text(path).replace("/", "_").replace(".", "c")
    return "_".join(filter(None, (steps, *map(str, more))))


@dataclass(slots=True)
class Cluster:
    """A frame while it is filled.

    A title is a box in a row of its own at the top left: edges would cross a label of the frame.  What keeps
    it there is the wall, an invisible box below it that stands left of everything in the frame's first row;
    `column` joins titles and walls that stand above each other.
    """

    id: str
    attributes: dict[str, str]
    column: str = ""
    depth: int = 0
    double: bool = False
    group: bool = False
    title: str | None = None
    nodes: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)
    row: list[str] = field(default_factory=list)
    title_width: float = 0.0
    row_width: float = math.inf
    last: list[str] = field(default_factory=list)

    @property
    def wall(self) -> str:
        return f"w{self.id}"

    def lowest(self) -> str:
        """The box that was put last into the frame, or into one inside it."""
        return self.clusters[-1].lowest() if self.clusters else self.nodes[-1][0]

    def write(self, depth: int = 1) -> Iterator[str]:
        """The DOT text of what the frame holds."""
        pad = "  " * depth
        # Graphviz fills a row from its end: so boxes that nothing else orders stand as they do in the code.
        row = set(self.row)
        turned = iter([node for node in reversed(self.nodes) if node[0] in row])
        for name, attributes in [next(turned) if node[0] in row else node for node in self.nodes]:
            if name == self.wall:
                # The line to the first door passes right of the title: the door starts where its middle does.
                width = max(0.0, self.title_width + _CLEAR - _NODESEP - self.row_width / 2) / 72
                attributes = {**attributes, "width": f"{width:.2f}"}
            yield f"{pad}{name} [{_label.attributes(attributes)}]"
        first = [self.wall, *self.row] if self.title is not None else self.row
        for row in (first, self.last):
            if len(row) > 1:
                yield f"{pad}{{rank=same {' '.join(row)}}}"
        for cluster in self.clusters:
            yield f"{pad}subgraph cluster_{cluster.id} {{"
            if cluster.double:
                outer = {**cluster.attributes, "id": f"{cluster.id}_outer", "margin": "3"}
                yield f"{pad}  {_label.attributes(outer)}"
                yield f"{pad}  subgraph cluster_{cluster.id}_inner {{"
            yield f"{pad}  {_label.attributes(cluster.attributes)}"
            yield from cluster.write(depth + 1)
            yield f"{pad}  }}}}" if cluster.double else f"{pad}}}"


@dataclass(frozen=True, slots=True)
class Use:
    """That a box reads a value."""

    wire: Wire
    node: str
    cluster: Cluster
    line: Line
    note: str = ""
    both: bool = False
