"""The picture of each primitive, with its one of `golden/pictures` on the JAX that the pins name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import jax
import pytest
from test_dot import edges
from test_project import ROOT, pins
from zoo import ZOO

from jaxprviz import draw
from jaxprviz._render import render
from jaxprviz._spelling import SPELLED

PINNED = jax.__version__ == pins(ROOT / "requirements.lock")["jax"][0]
FOLDER = Path(__file__).parent / "golden/pictures"


def _picture(name: str) -> str:
    fn, args = ZOO[name]()
    return draw(fn, *args).dot


@pytest.mark.skipif(not PINNED, reason="another JAX traces other equations")
@pytest.mark.parametrize("name", ZOO)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"pictures/{name}.dot", _picture(name))


@pytest.mark.skipif(not PINNED, reason="another JAX has other primitives")
def test_no_picture_is_stale() -> None:
    assert {path.stem for path in FOLDER.glob("*.dot")} == set(ZOO)


@pytest.mark.parametrize("name", ZOO)
def test_every_line_joins_boxes_and_graphviz_draws_all(name: str) -> None:
    text = _picture(name)
    boxes = set(re.findall(r"^ +(\w+) \[id=", text, re.MULTILINE))
    found = edges(text, hidden=True)
    assert {end for tail, head, _ in found for end in (tail, head)} <= boxes
    assert len(found) == text.count(" -> ")
    assert render(text).count(b'class="edge"') == len(edges(text))


@pytest.mark.parametrize("name", ZOO)
def test_primitives_have_the_names_that_users_write(name: str) -> None:
    """JAX's own names stand in tooltips alone."""
    labels = re.sub(r'tooltip="(?:[^"\\]|\\.)*"', "", _picture(name))
    assert set(re.findall(r"\w+", labels)) & (set(SPELLED) - {"checkpoint", "remat"}) == set()


HOLDS = {
    "cond": ["chooses the branch", "from the branch taken"],
    "custom_linear_solve": ["handed in by the solver", "goes back to the solver"],
    "debug_callback": ["look", "on the host, in order"],
    "ffi_call": ['shape="component"'],
    "io_callback": ["<B>save</B>", "on the host, in order", 'shape="note"'],
    "nested": ["residual", "backward"],
    "pallas_blocks": ["grid 4 × 2", "block (2, 4) at (i, j)", "block (None, 4) at (0, j)", "output"],
    "pallas_scratch": ["scratch", "working memory", "what o_ref holds in the end"],
    "refs": ["<B>reads</B>&#160;total[...]", "<B>writes</B>&#160;2.0&#160;to&#160;total[0]"],
    "remat": ["jax.checkpoint"],
    "run_state": ["what x holds in the end"],
    "scan": ["carry", "sliced", "the same each step"],
    "shard_map": ["the same on all of data", "copied whole", "axis 0 split by data=4"],
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_the_boxes_say(name: str) -> None:
    text = _picture(name)
    assert [words for words in HOLDS[name] if words not in text] == []
