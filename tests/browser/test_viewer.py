"""The explorer in a real page, with a stand-in for drawing: what a reader does and sees, in both themes."""

from __future__ import annotations

import io
import time
from collections import Counter

import pytest
from labdriver import Explorer, Lab
from PIL import Image
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

CONTRAST = 4.5
"""The least ratio for text (WCAG 2.2, level AA)."""


@pytest.fixture(params=["light", "dark"])
def explorer(lab: Lab, request: pytest.FixtureRequest) -> Explorer:
    lab.open("small.ipynb", theme=request.param)
    lab.run_all()
    found = lab.explorer()
    expect(found.picture).to_contain_text("4 devices, batch 8")
    return found


@pytest.fixture
def light(lab: Lab) -> Explorer:
    lab.open("small.ipynb")
    lab.run_all()
    found = lab.explorer()
    expect(found.picture).to_contain_text("4 devices, batch 8")
    return found


def luminance(colour: tuple[int, ...]) -> float:
    """Relative luminance as WCAG defines it."""
    linear = [
        (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4) for v in (c / 255 for c in colour[:3])
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(part: Locator) -> float:
    """The ratio between the commonest colour of what a part looks like and the colour furthest from it."""
    pixels = Image.open(io.BytesIO(part.screenshot())).convert("RGB")
    packed = pixels.tobytes()
    counts = Counter(zip(packed[::3], packed[1::3], packed[2::3], strict=True))
    ground = luminance(counts.most_common(1)[0][0])
    ratios = [
        (max(ground, other) + 0.05) / (min(ground, other) + 0.05)
        for other in (luminance(colour) for colour, count in counts.items() if count > 1)
    ]
    return max(ratios)


def test_picture_words_and_message_are_readable(explorer: Explorer) -> None:
    assert contrast(explorer.picture) >= CONTRAST
    assert contrast(explorer.root.locator(".jaxprviz-words li").first) >= CONTRAST
    explorer.press("devices", ["ArrowRight"])
    expect(explorer.status).to_contain_text("No picture for devices=5")
    assert contrast(explorer.status) >= CONTRAST


def test_keyboard_and_mouse_move_the_picture(light: Explorer) -> None:
    light.press("devices", ["ArrowLeft", "ArrowLeft"])
    expect(light.picture).to_contain_text("2 devices, batch 8")
    expect(light.picture.locator("rect[y='40']")).to_have_count(2)
    light.drag("devices", 1.0)
    expect(light.picture).to_contain_text("8 devices, batch 8")
    expect(light.picture.locator("rect[y='40']")).to_have_count(8)
    assert light.value("devices") == 8
    words = light.root.locator(".jaxprviz-words > ul > li")
    expect(words).to_have_text(
        ["There are 8 devices.\nThe batch is 8, <b>not bold</b>."], use_inner_text=True
    )
    expect(words.locator("ul > li")).to_have_text(["The batch is 8, <b>not bold</b>."])


def test_an_impossible_position_greys_the_picture_and_says_why(light: Explorer) -> None:
    viewer = light.root.locator(".jaxprviz-viewer")
    assert light.status.get_attribute("aria-live") == "polite"
    expect(light.status).to_be_empty()
    light.press("devices", ["ArrowRight"])
    expect(light.status).to_have_text(
        "No picture for devices=5, batch=8, kind='small'.\n"
        "ValueError: batch 8 cannot be divided by 5 devices\n"
        "The grey picture below is still that of devices=4, batch=8, kind='small'.",
        use_inner_text=True,
    )
    expect(light.picture).to_contain_text("4 devices, batch 8")
    expect(light.picture).to_have_css("filter", "grayscale(1)")
    expect(viewer).to_contain_class("jaxprviz-stale")

    light.press("devices", ["ArrowRight"] * 3)
    expect(light.picture).to_contain_text("8 devices, batch 8")
    expect(light.status).to_be_empty()
    expect(light.picture).to_have_css("filter", "none")


def test_fast_moves_end_with_the_picture_of_the_last_position(light: Explorer) -> None:
    def settled(devices: int) -> None:
        expect(light.picture).to_contain_text(f"{devices} devices, batch 8")
        time.sleep(0.5)  # a late picture of an earlier position would arrive now
        assert light.value("devices") == devices
        assert f"{devices} devices, batch 8" in (light.picture.text_content() or "")
        expect(light.status).to_be_empty()

    light.press("devices", [*["ArrowLeft"] * 3, *["ArrowRight"] * 7, *["ArrowLeft"] * 6])
    settled(2)
    light.drag("devices", 1.0, 0.0, 0.7, 0.1, 1.0)
    settled(8)
    light.press("devices", ["Home", "End"] * 10 + ["Home"])
    settled(1)


def test_the_picture_keeps_its_place(light: Explorer) -> None:
    frame = light.root.locator(".jaxprviz-picture")

    def at(devices: int) -> tuple[float, float]:
        """The top of the picture and the height of its frame, once it is drawn for so many devices."""
        if 8 % devices:
            expect(light.status).to_contain_text(f"No picture for devices={devices}")
        else:
            expect(light.picture).to_contain_text(f"{devices} devices")
        top, height = light.picture.bounding_box(), frame.bounding_box()
        assert top is not None
        assert height is not None
        return top["y"], height["height"]

    light.press("devices", ["ArrowRight"])
    pushed, low = at(5)  # the first message makes room for itself
    light.press("devices", ["ArrowRight"] * 3)
    top, high = at(8)
    assert (top, high - low) == (pushed, 40)  # a taller picture makes room for itself
    for devices, keys in {1: ["Home"], 2: ["ArrowRight"], 3: ["ArrowRight"], 4: ["ArrowRight"]}.items():
        light.press("devices", keys)
        assert at(devices) == (top, high)  # from then on nothing moves

    light.page.get_by_role("heading", name="A small explorer").click()
    expect(frame).to_have_css("height", "120px")  # once the reader has left, the room is given back


def test_a_wide_picture_scrolls_before_its_text_gets_too_small(light: Explorer) -> None:
    frame = light.root.locator(".jaxprviz-picture")
    light.root.get_by_label("kind").select_option("wide")
    expect(light.picture).to_have_attribute("width", "4000")
    size = "f => [f.scrollWidth > f.clientWidth, f.firstElementChild.getBoundingClientRect().width]"
    assert frame.evaluate(size) == [True, 4000]
    expect(frame).to_have_attribute("tabindex", "0")
    frame.evaluate("frame => { frame.scrollLeft = 1000; }")
    light.press("devices", ["Home"])
    expect(light.picture).to_contain_text("1 devices")
    assert frame.evaluate("frame => frame.scrollLeft") == 1000
    light.root.get_by_label("kind").select_option("small")
    expect(light.picture).to_have_attribute("width", "200")
    assert frame.evaluate(size) == [False, 200]
    expect(frame).not_to_have_attribute("tabindex", "0")


def test_names_for_those_who_do_not_see_it(light: Explorer) -> None:
    expect(light.picture).to_have_attribute("role", "group")
    expect(light.picture).to_have_attribute("aria-label", "devices and batch")
    names = light.root.get_by_role("slider").evaluate_all("all => all.map(one => one.ariaLabel)")
    assert names == ["devices", "batch"]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("script", "it holds the element script"),
        ("handler", "it holds the handler onload"),
        ("link", "it holds a link to elsewhere"),
        ("foreign", "it holds the element foreignObject"),
        ("broken", "it is not well-formed SVG"),
    ],
)
def test_a_picture_with_foreign_content_is_refused(light: Explorer, kind: str, why: str) -> None:
    light.root.get_by_label("kind").select_option(kind)
    expect(light.status).to_contain_text(f"The picture is not shown: {why}")
    expect(light.picture).to_have_count(0)
    assert light.page.evaluate("window.wrong === undefined")
    light.root.get_by_label("kind").select_option("small")
    expect(light.picture).to_contain_text("4 devices")
    expect(light.status).to_be_empty()
