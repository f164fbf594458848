"""How things look: the colours, sizes and Graphviz attributes of every kind of box, frame and line.

Both the pictures and the legend are drawn from these tables.  Colours are Okabe and Ito's; no meaning rests
on a colour alone: words, dashes, digits or shapes say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FONT = "Arial"
TEXT = "#000000"
GREY = "#555555"
PALE = "#767676"
BLUE = "#0072B2"
GREEN = "#009E73"
PURPLE = "#A3467F"
ORANGE = "#D55E00"
WHITE = "#FFFFFF"

SMALL = 10
TINY = 9

GRAPH: dict[str, str] = {
    "fontname": FONT,
    "fontsize": "12",
    "compound": "true",
    "nodesep": "0.3",
    "ranksep": "0.34",
    "bgcolor": WHITE,
    "pad": "0.15",
    "tooltip": " ",
}
NODE: dict[str, str] = {
    "fontname": FONT,
    "fontsize": "11",
    "shape": "box",
    "style": "rounded,filled",
    "fillcolor": WHITE,
    "color": GREY,
    "height": "0.1",
    "width": "0.1",
    "margin": "0.12,0.06",
}
EDGE: dict[str, str] = {
    "fontname": FONT,
    "fontsize": str(SMALL),
    "color": GREY,
    "arrowsize": "0.7",
    "weight": "2",
}


class Look(StrEnum):
    """What sort of box a node is."""

    ARGUMENT = "argument"
    RESULT = "result"
    UNUSED = "unused"
    CONSTANT = "constant"
    EQUATION = "equation"
    EFFECT = "effect"
    COLLECTIVE = "collective"
    HOST = "host"
    FOREIGN = "foreign"
    TABLE = "table"
    FOLDED = "folded"
    JOIN = "join"
    UNKNOWN = "unknown"
    DOOR = "door"
    TITLE = "title"
    WALL = "wall"


NODES: dict[Look, dict[str, str]] = {
    Look.ARGUMENT: {"color": BLUE, "penwidth": "1.8"},
    Look.RESULT: {"color": GREEN, "penwidth": "1.8"},
    Look.UNUSED: {"color": "#AAAAAA", "style": "rounded,dashed", "fontcolor": PALE},
    Look.CONSTANT: {"color": PURPLE, "penwidth": "1.8", "fillcolor": "#FBF1F7", "style": "filled"},
    Look.EQUATION: {},
    Look.EFFECT: {"style": "rounded,filled,dashed"},
    Look.COLLECTIVE: {
        "shape": "hexagon",
        "style": "filled",
        "fillcolor": "#FFF8D6",
        "penwidth": "1.4",
        "margin": "0.02,0.02",
    },
    Look.HOST: {"shape": "note", "style": "filled", "fillcolor": "#F1EEFB", "margin": "0.14,0.07"},
    Look.FOREIGN: {"shape": "component", "style": "filled", "margin": "0.16,0.08"},
    Look.TABLE: {"shape": "plain", "style": "solid"},
    Look.FOLDED: {"shape": "box3d", "style": "filled", "margin": "0.1,0.09"},
    Look.JOIN: {"fillcolor": "#F2F2F2", "fontsize": str(SMALL), "margin": "0.08,0.03"},
    Look.UNKNOWN: {
        "style": "rounded,dotted",
        "fontcolor": PALE,
        "fontsize": str(SMALL),
        "margin": "0.08,0.03",
    },
    Look.DOOR: {"fontsize": str(SMALL), "margin": "0.07,0.03"},
    Look.TITLE: {"shape": "plain", "style": "solid", "fontsize": "12"},
    Look.WALL: {"shape": "box", "height": "0", "fixedsize": "true", "style": "invis", "label": ""},
}


class Line(StrEnum):
    """What sort of line an edge is."""

    WIRE = "wire"
    CAPTURED = "captured"
    UNKNOWN = "unknown"
    BACK = "back"
    HIDDEN = "hidden"


EDGES: dict[Line, dict[str, str]] = {
    Line.WIRE: {},
    Line.CAPTURED: {"color": ORANGE, "style": "dashed", "penwidth": "2.4"},
    Line.UNKNOWN: {"color": PALE, "style": "dotted"},
    Line.BACK: {
        "color": PALE,
        "style": "dotted",
        "penwidth": "1.4",
        "constraint": "false",
        "arrowhead": "vee",
    },
    Line.HIDDEN: {"style": "invis"},
}


class Frame(StrEnum):
    """What sort of frame a scope has."""

    NONE = "none"
    MAIN = "main"
    CALL = "call"
    DEVICE = "device"
    GROUP = "group"
    UNKNOWN = "unknown"
    NAME = "name"


FRAMES: dict[Frame, dict[str, str]] = {
    Frame.NONE: {"style": "invis"},
    Frame.MAIN: {"style": "rounded,filled", "fillcolor": "#F7F7F7", "color": "#999999"},
    Frame.CALL: {"style": "rounded,filled", "color": "#888888"},
    Frame.DEVICE: {"style": "rounded,filled", "fillcolor": WHITE, "color": GREY},
    Frame.GROUP: {"style": "rounded,filled", "color": GREY},
    Frame.UNKNOWN: {"style": "rounded,dashed", "color": GREY},
    Frame.NAME: {"style": "rounded,filled,dotted", "color": "#888888"},
}


_SHADES = ("#F7F7F7", "#EEEEEE")


def frame(kind: Frame, depth: int) -> dict[str, str]:
    """The attributes of a frame; frames inside each other have different shades."""
    return {"fillcolor": _SHADES[depth % len(_SHADES)], **FRAMES[kind]}


@dataclass(frozen=True, slots=True)
class Hue:
    """The tints of a device strip.

    Attributes:
        line: the colour of the frame around the strip.
        light: the tint of the first part.
        dark: the tint of the last part.
        whole: the tint of an array that every device holds all of.
    """

    line: str
    light: tuple[int, int, int]
    dark: tuple[int, int, int]
    whole: str

    def tint(self, index: int, count: int) -> tuple[str, str]:
        """The tint of one part of `count`, and the colour of the digits on it."""
        share = index / (count - 1) if count > 1 else 0.0
        mixed = [round(a + (b - a) * share) for a, b in zip(self.light, self.dark, strict=True)]
        luminance = (0.299 * mixed[0] + 0.587 * mixed[1] + 0.114 * mixed[2]) / 255
        return "#" + "".join(f"{part:02X}" for part in mixed), TEXT if luminance > 0.45 else WHITE


HUE_IN = Hue(GREY, (0xD9, 0xE9, 0xF5), (0x1F, 0x78, 0xB8), "#C3DDF0")
HUE_OUT = Hue(GREY, (0xD3, 0xEE, 0xE3), (0x1E, 0x94, 0x6C), "#BFE6D7")
HUE_CAPTURED = Hue(ORANGE, (0xFB, 0xE3, 0xCF), (0xE0, 0x74, 0x1C), "#F8C79B")
