"""The state of a comparison of learners in words: how their step sizes and other settings were chosen.

Every sentence, table and plot that ranks learners states it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from netfl.learning.tuning import CRITERIA, SCOPES

_SETTINGS = ("lr", "schedule", "t_schedule", "momentum", "weight_decay", "batch_size", "local_epochs", "local_steps")
"""Keys of learners that are equal where a comparison has equal settings."""
NOT_TUNED = "settings as given, not tuned"
"""State of a comparison whose learners differ in their settings."""
UNFINISHED = "the tuning is not finished"
"""State of a run that was stopped in a pass of its tuning."""


def comparison_state(scenario: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """Return the state of the comparison of a run's learners; empty for fewer than two, unless they are tuned.

    Args:
        scenario: the resolved scenario as plain data.
        manifest: the manifest of the run; may be empty.

    >>> comparison_state({"learners": {"A": {"lr": 0.1}, "B": {"lr": 0.1}}}, {})
    'equal settings'
    >>> comparison_state({"learners": {"A": {"lr": 0.1}, "B": {"lr": 0.2}}}, {})
    'settings as given, not tuned'
    """
    learners: Mapping[str, Mapping[str, Any]] = scenario.get("learners") or {}
    strategies = manifest.get("learners") or ()  # of a Flower app
    is_tuned = bool(learners) and scenario.get("tuning") is not None
    if max(len(learners), len(strategies)) < 2 and not is_tuned:
        return ""
    if strategies:
        return "settings of the app"
    if scenario.get("tuning") is None:
        state = _untuned_state(learners, manifest.get("steps") or {})
    else:
        state = str((manifest.get("tuning") or {}).get("state", UNFINISHED))
    return "; ".join([state, *_controls(learners)])


def has_order(state: str) -> bool:
    """Return whether learners may be ranked in a comparison of this *state*: not if their tuning has failed.

    A best setting at the edge of what was tried, or one that learns nothing, says nothing about a learner.

    >>> has_order("not tuned: no candidate learns, of 21 of A"), has_order("settings as given, not tuned")
    (False, True)
    """
    return not state.startswith("not tuned")


def _untuned_state(learners: Mapping[str, Mapping[str, Any]], steps: Mapping[str, float | None]) -> str:
    """Return the state of learners without tuning, by their settings and effective steps."""
    first, *others = learners.values()
    if all(_settings(other) == _settings(first) for other in others):
        return "equal settings"
    known = [step for step in map(steps.get, learners) if step is not None]
    if len(known) == len(learners) and all(math.isclose(step, known[0], rel_tol=1e-9) for step in known):
        return "equal effective steps"
    return NOT_TUNED


def _settings(learner: Mapping[str, Any]) -> list[Any]:
    """Return the settings of a learner that can be equal to those of another one."""
    return [learner.get("step_of"), *(learner.get(key) for key in _SETTINGS)]


def _controls(learners: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a clause for each learner with the effective step of another one."""
    return [
        f"{name} at the effective step of {learner['step_of']}"
        for name, learner in learners.items()
        if learner.get("step_of")
    ]


def brief_state(state: str) -> str:
    """Return how learners were tuned and for what, for a sentence; the whole state stands below the tables.

    >>> state = "tuned by validation accuracy, 7 candidates each, for this choice of step, objective.alpha as given"
    >>> brief_state(f"{state}; B at the effective step of A")
    'tuned by validation accuracy, for this choice of step; B at the effective step of A'
    >>> brief_state("settings as given, not tuned")
    'settings as given, not tuned'
    """
    how, *controls = state.split("; ")
    if how.startswith("tuned by"):
        by, *clauses = how.split(", ")
        how = ", ".join([by, *(clause for clause in clauses if clause in SCOPES.values())])
    return "; ".join([how, *controls])


def joint_state(states: Mapping[str, str]) -> str:
    """Return the state of comparisons by the letter or name of their run: one for all, or one for each.

    >>> joint_state({"A": "equal settings", "B": "equal settings"})
    'equal settings'
    >>> joint_state({"A": "equal settings", "B": "settings as given, not tuned"})
    'A: equal settings; B: settings as given, not tuned'
    """
    stated = stated_states(states)
    if len({*stated.values()}) < 2:
        return next(iter(stated.values()), "")
    return "; ".join(f"{name}: {state}" for name, state in stated.items())


def stated_states(states: Mapping[str, str]) -> dict[str, str]:
    """Return the states of several runs as they stand beside each other: one without a state is not tuned.

    A run of one learner without tuning has no state of its own.  Beside a run that has one, it needs one.

    >>> stated_states({"A": "tuned by validation accuracy, 7 candidates each", "B": ""})["B"]
    'settings as given, not tuned'
    >>> stated_states({"A": "", "B": ""})
    {'A': '', 'B': ''}
    """
    if not any(states.values()):
        return dict(states)
    return {name: state or NOT_TUNED for name, state in states.items()}


def criterion_label(name: str) -> str:
    """Return the words for a criterion of tuning.

    >>> criterion_label("rare_accuracy")
    'rare accuracy'
    """
    if name not in CRITERIA:
        return name
    return CRITERIA[name].label
