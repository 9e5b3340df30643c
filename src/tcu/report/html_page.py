"""One HTML page that needs nothing else: its skeleton, its style, and tags that escape what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from rich.console import Console, RenderableType
from rich.style import Style

__all__ = ["Markup", "data", "drawing", "page", "script", "tag"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --dim: #60676f; --line: #d9dde2; --page: #fff; --card: #f5f7f9;
  --name: #0b6477; --good: #1a7f37; --lost: #b3261e; --differs: #8a4b00; --mark: #fff1d6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --dim: #98a1ab; --line: #353c44; --page: #14171a;
  --card: #1d2126; --name: #5cc8dd; --good: #56d364; --lost: #ff8a80; --differs: #ffc46b; --mark: #3a2d14; } }
body { margin: 0 auto; padding: min(1rem, 3vw); max-width: 72rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; --under: var(--page); }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h1, p { overflow-wrap: anywhere; } p { margin: .4rem 0; }
.table, pre { overflow-x: auto; } table { border-collapse: collapse; } table, details { margin: .5rem 0; }
th, td { padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { color: var(--dim); white-space: pre-line; vertical-align: bottom; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--under); }
.name { color: var(--name); font-weight: 600; } .dim { color: var(--dim); } .bold { font-weight: 600; }
.good { color: var(--good); } .lost { color: var(--lost); }
.differs, td.differs { color: var(--differs); background: var(--mark); font-weight: 600; }
td.differs { box-shadow: -.35rem 0 var(--mark); } p.differs { padding: .3rem .6rem; border-radius: .3rem; }
details, pre { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .8rem; background: var(--card); }
details { --under: var(--card); } details td:last-child { white-space: nowrap; } summary { cursor: pointer; }
pre { font: .9rem/1.35 ui-monospace, Menlo, "DejaVu Sans Mono", Consolas, monospace; }
pre.drawing { font-size: 14px; line-height: 16px; } .drawing .name:not(.bold) { font-weight: 400; }
@media (max-width: 40rem) {
  .table { font-size: .9rem; } th, td { padding-right: .45rem; }
  .prose thead, .prose td:empty { display: none; } .prose tr { display: block; padding: .4rem 0; }
  .prose td { display: block; padding: 0; border: 0; } .prose tr { border-bottom: 1px solid var(--line); }
}
"""
_CLASSES = {"cyan": "name", "green": "good", "red": "lost", "yellow": "differs"}
"""Colour of the terminal → class of the page."""


_ENDED = "<\\/script"


class Markup(str):
    """HTML; every other text is escaped when it enters a tag."""


def tag(name: str, *content: str, **attributes: str) -> Markup:
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"' for key, text in attributes.items() if text
    )
    inner = "".join(each if isinstance(each, Markup) else escape(each) for each in content)
    return Markup(f"<{name}{given}>{inner}</{name}>")


def script(text: str) -> Markup:
    """A script that nothing in it can end."""
    return Markup(f"<script>{text.replace('</script', _ENDED)}</script>")


def data(document: Any, identity: str) -> Markup:
    """JSON for the page's scripts."""
    text = json.dumps(document, allow_nan=False).replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="{escape(identity)}">{text}</script>')


def page(title: str, subtitle: str, *content: Markup, style: str = "") -> str:
    """One page, with further rules for its style."""
    head = (
        '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{style}</style>"
    )
    body = "\n".join((tag("h1", title), tag("p", subtitle, class_="dim"), *content))
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def drawing(drawn: RenderableType, width: int) -> Markup:
    """What a terminal of ``width`` columns would show."""
    screen = Console(
        width=width, force_terminal=True, color_system="standard", no_color=False, legacy_windows=False
    )
    pieces = (
        tag("span", text, class_=" ".join(_classes(style))) if style else text
        for text, style, _ in screen.render(drawn)
    )
    return tag("pre", *pieces, class_="drawing")


def _classes(style: Style) -> Iterator[str]:
    if style.color is not None and style.color.name in _CLASSES:
        yield _CLASSES[style.color.name]
    if style.bold:
        yield "bold"
    if style.dim:
        yield "dim"
