"""The network replay of a report: one replica, drawn in place and played in simulated time.

`AnimationData` takes it from the tables and packs it, and the scripts beside this file play it: ``data.js`` unpacks,
``moment.js`` computes the state at any instant, ``scene.js`` draws it with ``brush.js`` and places texts with
``labels.js``, ``words.js`` lists events, ``player.js`` is the controls.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from markupsafe import Markup

from netfl.report import page
from netfl.report.animation.data import AnimationData, pack_data
from netfl.report.page import Section
from netfl.report.run_data import RunData

SCRIPTS = ("data.js", "moment.js", "words.js", "brush.js", "labels.js", "scene.js", "player.js")
"""The scripts, in the order of their dependencies."""

MAX_USERS = 20_000
"""Maximum number of users in a replay."""


def animation_section(data: RunData) -> Section | None:
    """Return the replay of a run; ``None`` if nothing has happened yet, or if a part of it is lost."""
    if data.lacks("rounds", "deliveries", "events", "users", "nodes", "scenario"):
        return None
    if data.run.rounds.empty or data.first_users.empty or data.end_s <= 0.0:
        return None
    number = len(data.first_users)
    if number > MAX_USERS:
        return Section("replay", "Replay", (page.note(page.caption("no_replay", number, MAX_USERS)),))
    film = AnimationData(data)
    parts = (
        page.render("stage.html", notes=page.caption("replay", film)),
        f'<script type="application/json" id="film">{pack_data(film.header(), film.arrays())}</script>',
        f"<script>{animation_script()}</script>",
    )
    return Section("replay", "Replay", tuple(map(Markup, parts)))


def animation_script() -> str:
    """Return the scripts as one that defines no global names."""
    return '(() => {\n"use strict";\n' + "\n".join(map(_read, SCRIPTS)) + "\n})();\n"


def script_policy() -> str:
    """Return the source of a content security policy that allows this script and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(animation_script().encode()).digest()).decode()}'"


def animation_style() -> str:
    """Return the style sheet of the replay."""
    return _read("replay.css")


def _read(name: str) -> str:
    return (files("netfl.report.animation") / name).read_text(encoding="utf-8")
