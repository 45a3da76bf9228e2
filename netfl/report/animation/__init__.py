"""The network replay of a report: what happened in one replica, drawn in place and played in simulated time.

`AnimationData` takes it from the tables, `packing` puts it into the page, and the scripts beside this file play it
there:
``data.js`` unpacks, ``moment.js`` knows the state at any instant, ``scene.js`` draws it with ``brush.js``, ``words.js``
tells of it, ``player.js`` is the buttons.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from string import Template

from netfl.report import markup
from netfl.report.animation.data import AnimationData
from netfl.report.animation.encoding import pack_data
from netfl.report.markup import Chapter
from netfl.report.view import RunData

SCRIPTS = ("data.js", "moment.js", "words.js", "brush.js", "scene.js", "player.js")
"""The scripts, in the order in which they need each other."""

MOST_USERS = 20_000
"""Of more users than this there is no replay."""


def animation_chapter(view: RunData) -> Chapter | None:
    """The replay of *view*; ``None`` of a run in which nothing has happened yet."""
    if view.run.rounds.empty or view.one.empty or view.end_s <= 0.0:
        return None
    if len(view.one) > MOST_USERS:
        said = f"A page has room for a replay of {MOST_USERS:,} users, and here are {len(view.one):,}: there is none."
        return Chapter("replay", "Replay", (markup.paragraph([said], "note"),))
    film = AnimationData(view)
    parts = (
        Template(_read("stage.html")).substitute(notes=markup.text(" ".join(film.notes()))),
        f'<script type="application/json" id="film">{pack_data(film.header(), film.arrays())}</script>',
        f"<script>{animation_script()}</script>",
    )
    return Chapter("replay", "Replay", parts)


def animation_script() -> str:
    """The scripts as one, which leaves no names behind."""
    return '(() => {\n"use strict";\n' + "\n".join(map(_read, SCRIPTS)) + "\n})();\n"


def script_policy() -> str:
    """What a page must allow so that this script runs, and no other: a source of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(animation_script().encode()).digest()).decode()}'"


def animation_style() -> str:
    """The rules for the page's style sheet."""
    return _read("replay.css")


def _read(name: str) -> str:
    """A file of this package."""
    return (files("netfl.report.animation") / name).read_text(encoding="utf-8")
