"""Titles stand at the left edge of their frames."""

from __future__ import annotations

import re

import pytest
from test_dot import PROGRAMS, picture

from jaxprviz._render import render
from jaxprviz._titles import titles_left

_SVG = b"""<svg>
<g id="s_0" class="cluster">
<path d="M20,-8C20,-8 200,-8 200,-8 206,-8 212,-90 200,-90"/>
</g>
<g id="ts_0" class="node">
<text x="120" y="-70">jit</text>
</g>
%s</svg>"""


def _moved(more: bytes) -> list[bytes]:
    return re.findall(rb'id="ts_0" class="node"([^>]*)>', titles_left(_SVG % more))


def test_a_title_goes_to_the_edge() -> None:
    assert _moved(b"") == [b' transform="translate(-91.00 0)"']


def test_a_title_goes_no_farther_than_what_is_drawn_beside_it() -> None:
    """A line that passes at x = 60 at the height of the title, and boxes above and below it."""
    line = b'<g id="e1" class="edge">\n<path d="M60,-120C60,-100 60,-60 60,-40"/>\n</g>\n'
    above = b'<g id="n1" class="node">\n<polygon points="70,-140 90,-140 90,-100 70,-100"/>\n</g>\n'
    beside = b'<g id="n2" class="node">\n<polygon points="30,-80 72.5,-80 72.5,-60 30,-60"/>\n</g>\n'
    assert _moved(line + above) == [b' transform="translate(-54.00 0)"']
    assert _moved(line + above + beside) == [b' transform="translate(-41.50 0)"']


@pytest.mark.parametrize("name", ["question", "nested", "siblings", "mesh"])
def test_every_title_is_at_the_edge_of_its_frame(name: str) -> None:
    svg = titles_left(render(picture(PROGRAMS[name]()))).decode()
    groups = dict(re.findall(r'<g id="(\w+)" class="(?:node|cluster)"(.*?</g>)', svg, re.DOTALL))
    gaps = {}
    for title, drawn in groups.items():
        if title.startswith("t") and "<text" in drawn:
            (shift,) = re.findall(r"translate\((-[\d.]+) 0\)", drawn) or ["0"]
            left = min(float(x) for x in re.findall(r'<text[^>]* x="([^"]+)"', drawn)) + float(shift)
            frame = min(float(x) for x in re.findall(r"[MC ](-?[\d.]+),", groups[title[1:]]))
            gaps[title] = round(left - frame)
    assert gaps and all(abs(gap - 9) < 6 for gap in gaps.values()), gaps
