"""Drawing by Graphviz, for real, and what becomes of its SVG."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from jaxprviz import _render
from jaxprviz._render import NOT_XML, RenderWarning, count_edges, find, render
from jaxprviz._svg import FONTS, dress
from jaxprviz.errors import RenderError

SVG = "{http://www.w3.org/2000/svg}"
TOOLTIP = "{http://www.w3.org/1999/xlink}title"

DOT = """\
digraph "f" {
  graph [fontname="Arial" compound=true bgcolor="white" pad=0.15]
  node [fontname="Arial" fontsize=11 shape=box style="rounded,filled" fillcolor="white"]
  w [label=<<B>w</B>&#160;<FONT COLOR="#555555">f32[2,3]</FONT>> color="#0072B2" tooltip="argument w"]
  subgraph cluster_g {
    label=<pmap&#160;<B>g</B>> peripheries=2
    gw [shape=plain label=<<TABLE BORDER="1" STYLE="rounded"><TR><TD><B>w</B> captured</TD></TR></TABLE>>]
    mul [label="mul \\"->\\" f32[2,3]"]
  }
  w -> gw [color="#D55E00" style=dashed penwidth=2.4]
  gw -> mul // not this one: a -> b
}
"""

NASTY = [
    "<script>alert(1)</script>",
    "a & b &amp; c",
    "\"quotes\" 'and' `more`",
    "]]>",
    "\U0001f600 \u03b8 \u00d7 \u2192 \u65e5\u672c",
    "x onload=alert(1)",
    "javascript:alert(1)",
    "--> <!-- comment",
]


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def drawn(dot: str, **words: str) -> ET.Element:
    """The dressed picture of DOT text, parsed."""
    svg = dress(render(dot), title=words.get("title", "t"), description=words.get("description", "d"))
    return ET.fromstring(svg)


def texts(root: ET.Element) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def executable(folder: Path, script: str) -> str:
    path = folder / "graphviz-pure"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def only(monkeypatch: pytest.MonkeyPatch, **paths: str) -> None:
    """Makes the discovery find these executables and no others."""
    known = {name.replace("_", "-"): path for name, path in paths.items()}
    monkeypatch.setattr(_render, "find", known.get)


posix = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")


def test_draws_what_the_dot_text_says() -> None:
    root = drawn(DOT)
    said = [text.strip("\xa0 ") for text in texts(root) if text.strip("\xa0 ")]
    assert said == ["pmap", "g", "w", "f32[2,3]", "w", "captured", 'mul "->" f32[2,3]']
    assert len([group for group in root.iter(f"{SVG}g") if group.get("class") == "edge"]) == 2


def test_the_same_bytes_in_processes_with_other_hash_seeds() -> None:
    code = (
        "import sys; from jaxprviz._render import render; from jaxprviz._svg import dress;"
        "sys.stdout.buffer.write(dress(render(sys.stdin.read()), title='t', description='d').encode())"
    )
    root = str(Path(_render.__file__).parents[1])
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=DOT.encode(),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root},
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert found == {dress(render(DOT), title="t", description="d").encode()}


def test_graphviz_pure_is_found_in_this_environment_and_is_the_first_choice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("graphviz-pure") is not None
    assert b"graphviz-pure" in render(DOT)
    assert find("no-such-program") is None


@posix
def test_the_user_scheme_and_then_path_are_looked_through(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    user, path = tmp_path / "user", tmp_path / "path"
    user.mkdir()
    path.mkdir()
    monkeypatch.setattr(
        _render.sysconfig, "get_path", lambda name, scheme=None: str(user if scheme else tmp_path)
    )
    monkeypatch.setenv("PATH", str(path))
    in_path = executable(path, "exit 0")
    assert find("graphviz-pure") == in_path
    in_user = executable(user, "exit 0")
    assert find("graphviz-pure") == in_user


@pytest.mark.skipif(find("dot") is None, reason="Graphviz is not installed")
def test_the_systems_dot_draws_where_graphviz_pure_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, dot=find("dot") or "")
    picture = render(DOT)
    assert b"graphviz-pure" not in picture
    assert picture.count(b'class="edge"') == 2
    dressed = dress(picture, title="t", description="d")
    assert "transparent" not in dressed
    assert "captured" in dressed


@posix
def test_an_executable_that_can_not_start_gives_way_to_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x00not a program")
    broken.chmod(0o755)
    only(monkeypatch, graphviz_pure=str(broken), dot=find("graphviz-pure") or find("dot") or "")
    assert render(DOT).count(b'class="edge"') == 2
    only(monkeypatch, graphviz_pure=str(broken))
    with pytest.raises(RenderError) as caught:
        render(DOT)
    assert caught.value.wrong == "broken can't be started (Exec format error)"


@pytest.mark.parametrize(
    ("fmt", "message"),
    [
        (
            "svg",
            "draw the picture as SVG: neither graphviz-pure nor dot was found\n"
            "Run `pip install graphviz-pure`, or install Graphviz (https://graphviz.org/download/).",
        ),
        (
            "pdf",
            "draw the picture as PDF: dot was not found\n"
            "Run `pip install vl-convert-python`, or install Graphviz (https://graphviz.org/download/).",
        ),
    ],
)
def test_without_any_graphviz_one_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, fmt: str, message: str
) -> None:
    only(monkeypatch)
    with pytest.raises(RenderError) as caught:
        render(DOT, fmt)
    assert str(caught.value) == message


@posix
def test_a_layout_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    only(monkeypatch, graphviz_pure=executable(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60"))
    with pytest.raises(RenderError) as caught:
        render(DOT, timeout=0.5)
    assert str(caught.value) == (
        "draw the picture as SVG: Graphviz was not done after 0.5 s, and was stopped\n"
        "Open fewer scopes, so that there are fewer boxes."
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@posix
@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        (
            "echo first >&2; echo 'the last line' >&2; kill -SEGV $$",
            "Graphviz crashed (SIGSEGV): the last line",
        ),
        ("echo '<svg>'; exit 3", "Graphviz ended with status 3"),
        ("exit 0", "Graphviz wrote no picture"),
    ],
)
def test_a_crash_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, wrong: str
) -> None:
    only(monkeypatch, graphviz_pure=executable(tmp_path, f"cat > /dev/null; {script}"))
    with pytest.raises(RenderError) as caught:
        render(DOT)
    assert (caught.value.asked, caught.value.wrong, caught.value.remedy) == (
        "draw the picture as SVG",
        wrong,
        "The text that it was given is in `figure.dot`; please report it.",
    )


def test_wrong_dot_text_is_told_by_graphvizs_last_line() -> None:
    with pytest.raises(
        RenderError, match=r"Graphviz ended with status 1: Error: <stdin>: syntax error in line 1"
    ):
        render("digraph { a -> ")


@posix
def test_lost_edges_and_other_failures_are_warnings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = render(DOT)
    (tmp_path / "whole.svg").write_bytes(whole)
    lost = whole.replace(b'class="edge"', b'class="x"', 1)
    (tmp_path / "lost.svg").write_bytes(lost)
    only(monkeypatch, graphviz_pure=executable(tmp_path, f"cat >/dev/null; cat {tmp_path}/lost.svg; exit 1"))
    with pytest.warns(RenderWarning, match=r"^Graphviz drew 1 of 2 edges: the picture lacks 1$"):
        assert render(DOT, timeout=19) == lost
    executable(tmp_path, f"cat >/dev/null; cat {tmp_path}/whole.svg; echo 'Error: lost an edge' >&2; exit 1")
    message = r"^Graphviz drew the picture, and yet ended with status 1: Error: lost an edge$"
    with pytest.warns(RenderWarning, match=message):
        assert render(DOT, timeout=18) == whole


def test_what_graphviz_says_about_widths_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    dot = 'digraph { a [fontname="Arial" label="\u03b8 \u2192 \U0001f600 not seen before"] }'
    assert b"not seen before" in render(dot)
    assert capfd.readouterr() == ("", "")


@posix
def test_a_picture_that_was_drawn_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "whole.svg").write_bytes(render(DOT))
    script = f"cat >/dev/null; echo x >> {tmp_path}/calls; cat {tmp_path}/whole.svg"
    only(monkeypatch, graphviz_pure=executable(tmp_path, script))
    assert render(DOT) == render(DOT)
    assert (tmp_path / "calls").read_text() == "x\n"


@pytest.mark.parametrize(
    ("dot", "edges"),
    [
        (DOT, 2),
        ("digraph { a -> b -> c; a->b }", 3),
        ('digraph { "a->b" -> "c\\"->d" [label="->"] }', 1),
        ('digraph { a [label=<x -- <B>a " b</B> -> y>] b -> a }', 1),
        ("/* a -> b */ digraph { // a -> b\n# a -> b\n a -> b }", 1),
        ("graph { a -- b }", 1),
        ("digraph { a }", 0),
    ],
)
def test_edges_of_dot_text_are_counted(dot: str, edges: int) -> None:
    assert count_edges(dot) == edges


@pytest.mark.parametrize("name", NASTY)
def test_labels_inject_nothing(name: str) -> None:
    dot = (
        f"digraph {quoted(name)} {{ subgraph cluster_a {{ label={quoted(name)}; tooltip={quoted(name)};"
        f" {quoted(name)} [label={quoted(name)} tooltip={quoted(name)} URL={quoted(name)} id={quoted(name)}"
        f' class={quoted(name)}] }} {quoted(name)} -> b [label={quoted(name)} URL="javascript:alert(1)"] }}'
    )
    root = drawn(dot, title=name, description=name)
    shown = [text for text in texts(root) if text != "b"]
    # Graphviz takes a character reference in a label for the character.
    said = name.replace("&amp;", "&")
    assert shown == [said] * 3
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "title", "desc", "rect", "g", "a", "polygon", "path", "ellipse", "text",
    }  # fmt: skip
    attributes = {(key, value) for element in root.iter() for key, value in element.items()}
    assert not [key for key, _ in attributes if key.lower().startswith("on")]
    assert not [value for key, value in attributes if key.endswith("href")]
    assert {value for key, value in attributes if key == TOOLTIP} >= {said}
    assert [element.text for element in root.findall(f"{SVG}title")] == [name]
    assert [element.text for element in root.findall(f"{SVG}desc")] == [name]


def test_a_hidden_edge_is_not_missed_and_a_lost_one_is() -> None:
    assert (
        count_edges(
            'digraph { a -> b [style=invis]\nb:w -> c:w [style="invis" weight=4]\nc -> d [color=red] }'
        )
        == 1
    )


def test_line_ends_in_labels_make_lines_and_in_tooltips_stay() -> None:
    root = drawn('digraph { a [label="one\\ntwo" tooltip="one\\ntwo"] }')
    assert texts(root) == ["one", "two"]
    assert [element.get(TOOLTIP) for element in root.iter(f"{SVG}a")] == ["one\ntwo"]


def test_characters_that_xml_forbids_are_replaced() -> None:
    root = drawn('digraph { a [label="x\x00\x08\ud800\uffffy"] }', title="\x01", description="\x02")
    assert texts(root) == ["x" + "\ufffd" * 4 + "y"]
    assert root.findtext(f"{SVG}title") == "\ufffd"
    assert NOT_XML.findall("a\t\n\r \u03b8\U0001f600") == []


HOSTILE = b"""<?xml version="1.0"?>
<!DOCTYPE svg [<!ENTITY e "text">]>
<!-- comment -->
<?xml-stylesheet href="x.css"?>
<svg width="72pt" height="36pt" viewBox="0 0 72 36" onload="alert(1)"
 xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">
<script>alert(1)</script>
<style>* { fill: url(http://example.com/x) }</style>
<foreignObject><body xmlns="http://www.w3.org/1999/xhtml"><g id="in">x</g></body></foreignObject>
<image xlink:href="http://example.com/x.png"/>
<defs><linearGradient id="l_0"><stop offset="0" style="stop-color:red;stop-opacity:1.;"/>
</linearGradient></defs>
<g id="node1" class="node" onclick="alert(1)"><title>internal name</title>
<a xlink:href="javascript:alert(1)" xlink:title="tip"><rect fill="url(#l_0)" stroke="transparent"/></a>
<a xlink:href=" javascript:alert(1)"><rect fill="url(http://example.com/x)" style="x:url(a)"/></a>
<a xlink:href="https://example.com/"><text font-family="Arial">a <set onbegin="alert(1)"/>&lt;b&gt;</text></a>
<a xlink:href="#node1"><text font-family="Courier">c</text></a>
</g>
</svg>
"""


def test_what_a_picture_may_hold_is_kept_and_all_else_left_out() -> None:
    whole = dress(HOSTILE, title="T", description="D", role="group")
    prefix = whole.split('aria-labelledby="')[1].split("title")[0]
    assert len(prefix) == 12
    assert whole.replace(prefix, "P-") == (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="group"'
        ' aria-labelledby="P-title" aria-describedby="P-desc" width="96" height="48"'
        f' viewBox="0.00 0.00 72.00 36.00" font-family="{FONTS}" style="max-width:100%;height:auto">\n'
        '<title id="P-title">T</title>\n'
        '<desc id="P-desc">D</desc>\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n'
        '<defs><linearGradient id="P-l_0">'
        '<stop offset="0" style="stop-color:red;stop-opacity:1.;"></stop>\n'
        "</linearGradient>\n</defs>\n"
        '<g id="P-node1" class="node">'
        '<a xlink:title="tip"><rect fill="url(#P-l_0)" stroke="none"></rect>\n</a>\n'
        "<a><rect></rect>\n</a>\n"
        '<a xlink:href="https://example.com/"><text>a &lt;b&gt;</text>\n</a>\n'
        f'<a xlink:href="#P-node1"><text font-family="Courier, {FONTS}">c</text>\n</a>\n'
        "</g>\n</svg>\n"
    )


def test_pictures_that_differ_in_any_way_have_other_ids() -> None:
    picture = render(DOT)
    dressed = [
        dress(picture, title="a", description="b"),
        dress(picture, title="b", description="b"),
        dress(picture, title="a", description="c"),
        dress(picture, title="a", description="b", role="group"),
        dress(render(DOT.replace("captured", "passed")), title="a", description="b"),
    ]
    ids = [{element.get("id") for element in ET.fromstring(svg).iter()} - {None} for svg in dressed]
    assert len(set.union(*ids)) == sum(map(len, ids))
    assert dress(picture, title="a", description="b") == dressed[0]


def test_no_internal_name_is_left() -> None:
    titles = [element.text for element in drawn(DOT).iter(f"{SVG}title")]
    tooltips = [element.get(TOOLTIP) for element in drawn(DOT).iter(f"{SVG}a")]
    assert (titles, tooltips) == (["t"], ["argument w"])


def test_the_background_is_opaque_white() -> None:
    root = drawn(DOT)
    first = next(root.iter(f"{SVG}polygon"))
    assert (first.get("fill"), first.get("fill-opacity")) == ("white", None)


@pytest.mark.parametrize("content", [b"", b"<svg>", b"<html></html>", b"not xml"])
def test_what_is_no_svg_is_refused(content: bytes) -> None:
    with pytest.raises(RenderError, match="it is no SVG"):
        dress(content, title="t", description="d")
