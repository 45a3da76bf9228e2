"""Cards: short descriptions of scenarios, runs and sweeps in HTML, which notebooks show."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_MAX_TEXT = 160
"""Maximum number of characters of a value."""

_TABLE = "color: inherit; border-spacing: 0; margin: .3em 0 .6em"
_CELL = "text-align: left; vertical-align: top; padding: .15em 1em .15em 0"
"""Style sheets of notebooks differ, so the cards state what they need; tables do not always inherit the text colour."""


def html_card(title: str, facts: Mapping[str, object], table: pd.DataFrame | None = None) -> str:
    """Return a title, the *facts* that are not empty, and a table.  Colours are those of the notebook."""
    rows = ""
    for name, value in facts.items():
        if value in (None, "", ()):
            continue
        rows += f'<tr><th scope="row" style="{_CELL}">{escape(name)}</th><td style="{_CELL}">{_cell(value)}</td></tr>'
    below = ""
    if table is not None:
        below = _scrollable(table)
    return f'<div><strong>{escape(title)}</strong><table style="{_TABLE}">{rows}</table>{below}</div>'


def _scrollable(table: pd.DataFrame) -> str:
    """Return a table that scrolls if the page is too narrow, with numbers below the ends of their names."""
    html = table.to_html(index=False, border=0, na_rep="–")
    html = html.replace("<table", f'<table style="{_TABLE}; text-align: right; white-space: nowrap"', 1)
    html = html.replace("<th>", '<th style="padding: .15em .6em">').replace("<td>", '<td style="padding: .15em .6em">')
    return f'<div style="overflow-x: auto">{html}</div>'


def _cell(value: object) -> str:
    text = str(value)
    if len(text) > _MAX_TEXT:
        text = f"{text[: _MAX_TEXT - 1]}…"
    return escape(text)
