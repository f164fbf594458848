"""The canvas: what a picture is made of (frames, boxes, lines), written out as DOT text.

It knows nothing of programs.  All edges stand after all frames: an edge inside a frame would pull boxes into
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from jaxprviz import _label, _style
from jaxprviz._graph import Cluster, Use, Value, Wire
from jaxprviz._label import bold, grey, plain, sized
from jaxprviz._style import Frame, Line, Look
from jaxprviz._text import one_line

WIDE = 5
"""A value with more uses than this is drawn again beside each of them."""


class Canvas:
    """One picture while it is drawn: frames, boxes, and who reads what.

    Attributes:
        top: what holds the outermost frame.
    """

    def __init__(self) -> None:
        self.top = Cluster("top", {})
        self._uses: list[Use] = []
        self._hidden: list[str] = []
        self._last: list[str] = []
        self._nested: list[tuple[Cluster, Cluster, bool]] = []

    def frame(self, parent: Cluster, name: str, frame: Frame) -> Cluster:
        # Side by side, any of several bodies may come to stand left.
        leftmost = bool(not parent.clusters and parent.column and not parent.group)
        cluster = Cluster(
            name,
            {"id": name, "label": "", "tooltip": " ", "margin": "9", **_style.frame(frame, parent.depth)},
            column=parent.column if leftmost else name,
            depth=parent.depth + 1,
            double=frame is Frame.DEVICE,
            group=frame is Frame.GROUP,
            title=f"t{name}",
        )
        self._nested.append((parent, cluster, leftmost))
        parent.clusters.append(cluster)
        return cluster

    def title(self, cluster: Cluster, label: str, tip: str) -> None:
        assert cluster.title is not None
        self.node(cluster, cluster.title, Look.TITLE, {"label": f"<{label}>", "group": cluster.column}, tip)
        cluster.title_width = _label.width(f"<{label}>", 12)
        self.node(cluster, cluster.wall, Look.WALL, {"group": cluster.column})
        self.hide(cluster.title, cluster.wall, aligned=True)

    def node(
        self, cluster: Cluster, name: str, look: Look, attributes: dict[str, str], tip: str = ""
    ) -> None:
        drawn = {"id": name, **_style.NODES[look], **attributes}
        if look is not Look.WALL:
            drawn["tooltip"] = _label.shorten(one_line(tip), _label.TIP_LENGTH) or " "
        cluster.nodes.append((name, drawn))

    def users(self, value: Value) -> list[str]:
        """The boxes that read a value so far, in order."""
        if not isinstance(value, Wire):
            return []
        return list(dict.fromkeys(use.node for use in self._uses if use.wire.key == value.key))

    def last(self, cluster: Cluster, node: str) -> None:
        """Put a box into the last row of a frame."""
        cluster.last.append(node)
        self._last.append(node)

    def door(self, cluster: Cluster, node: str) -> None:
        """Put a box into the first row of a frame."""
        cluster.row.append(node)
        (label,) = (drawn["label"] for name, drawn in cluster.nodes if name == node)
        cluster.row_width = min(cluster.row_width, _label.width(label))

    def below_title(self, cluster: Cluster, node: str) -> None:
        """Keep a box that reads nothing below the title of its frame."""
        if cluster.title is not None:
            self.hide(cluster.wall, node)

    def hide(self, tail: str, head: str, weight: int = 1, aligned: bool = False) -> None:
        """Hold one box above another without a line; aligned ones begin at the same left edge."""
        ports = (":w", ":w") if aligned else ("", "")
        self._hidden.append(f"{tail}{ports[0]} -> {head}{ports[1]} [style=invis weight={weight}]")

    def read(
        self,
        value: Value,
        node: str,
        cluster: Cluster,
        captured: bool = False,
        note: str = "",
        line: Line | None = None,
        *,
        both: bool = False,
    ) -> None:
        """Draw a line from where a value comes from to a box; with an arrow at both ends where it is written."""
        if isinstance(value, Wire):
            self._uses.append(
                Use(value, node, cluster, Line.CAPTURED if captured else line or value.line, note, both)
            )

    def text(self) -> str:
        """The DOT text."""
        edges = list(self._edges())
        if self.top.clusters and self._last:
            read = {use.wire.node for use in self._uses}
            for use in self._uses:
                if use.node not in read and use.node not in self._last:
                    self.hide(use.node, self._last[0], weight=2)
                    read.add(use.node)
        for cluster in (self.top, *(cluster for _, cluster, _ in self._nested)):
            if cluster.title is not None:
                for node in cluster.row:
                    self.hide(cluster.wall, node)
        for parent, cluster, leftmost in self._nested:
            if parent.title is None or cluster.title is None:
                continue
            if leftmost or not cluster.row:
                above = parent.wall if parent.row else parent.title
                self.hide(above, cluster.title, aligned=leftmost)
        head = [
            "digraph {",
            f"  graph [{_label.attributes(_style.GRAPH)}]",
            f"  node [{_label.attributes(_style.NODE)}]",
            f"  edge [{_label.attributes(_style.EDGE)}]",
        ]
        return "\n".join(
            [*head, *self.top.write(), *(f"  {edge}" for edge in (*self._hidden, *edges)), "}", ""]
        )

    def _edges(self) -> Iterator[str]:
        """The edges; values with many uses are drawn again beside all uses but the first."""
        readers = Counter(key for key in {(use.wire.key, use.wire.node, use.node) for use in self._uses})
        uses = Counter(key for key, _, _ in readers)
        copied: set[tuple[tuple[str, int], str]] = set()
        first: set[tuple[str, int]] = set()
        drawn: Counter[tuple[object, ...]] = Counter()
        kept: dict[tuple[object, ...], Use] = {}
        for use in self._uses:
            wire = use.wire
            if uses[wire.key] > WIDE and wire.known_as:
                if wire.key in first and (wire.key, use.node) not in copied:
                    copied.add((wire.key, use.node))
                first.add(wire.key)
                if (wire.key, use.node) in copied:
                    use = replace(use, wire=self._copy(wire, use))
            edge = (use.wire.node, use.wire.port, use.node, use.line, use.note, use.both)
            drawn[(*edge, use.wire.key)] += 1
            kept.setdefault(edge, use)
        doors = {node for _, cluster, _ in self._nested for node in (*cluster.row, *cluster.last)}
        entries = {node for _, cluster, _ in self._nested for node in cluster.row}
        for edge, use in kept.items():
            attributes = dict(_style.EDGES[use.line])
            if use.node in doors:
                attributes |= (
                    {"weight": str(_ENTRY_WEIGHT), "minlen": "2"} if use.node in entries else {"weight": "6"}
                )
            times = drawn[(*edge, use.wire.key)]
            if times > 1:
                attributes["label"] = f"<{_label.GAP}×{times}>"
            if use.both:
                attributes["dir"] = "both"
            if use.note:
                attributes |= {
                    "headlabel": f"<{sized(grey(use.note), _style.TINY)}>",
                    "labeldistance": "1.9",
                    "labelangle": "-35",
                }
            attributes["tooltip"] = _label.shorten(one_line(use.wire.tip), _label.TIP_LENGTH)
            tail = f"{use.wire.node}:{use.wire.port}:s" if use.wire.port else use.wire.node
            yield f"{tail} -> {use.node} [{_label.attributes(attributes)}]"

    def _copy(self, wire: Wire, use: Use) -> Wire:
        """The same value once more, small, beside the box that reads it."""
        node = f"k_{wire.node}_{wire.key[1]}_{use.node}"
        if all(name != node for name, _ in use.cluster.nodes):
            look = wire.look
            colour = {"color": _style.ORANGE} if wire.line is Line.CAPTURED else {}
            text = bold(wire.name) if wire.name else plain(wire.known_as)
            label = f"<{sized(text, _style.TINY)}>"
            self.node(
                use.cluster,
                node,
                look,
                {**colour, "label": label, "margin": "0.05,0.02", "penwidth": "1"},
                wire.tip,
            )
        return replace(wire, node=node, port=None)


# Between boxes of one group Graphviz takes a hundred times the weight, and an edge into a frame counts ten times for
# the rank.  So this keeps a frame below the boxes that feed it: a hidden edge between titles, which has a weight of
# 1 and a group, gives way to it.
_ENTRY_WEIGHT = 12
