"""Settings of learners with which a run has trained: those of its scenario, and those that its tuning has chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from netfl.results.formatting import format_by_replica


def learner_settings(
    learners: Mapping[str, Any], tuning: Mapping[str, Any], replica: int | None = None
) -> dict[str, Any]:
    """Return the settings of learners as plain data, with those that the tuning of a run has chosen.

    Args:
        learners: the learners of a resolved scenario.
        tuning: entry ``tuning`` of the manifest; empty without tuning.
        replica: the replica; ``None`` for all, in which a setting that each has chosen for itself is a text: see
            `format_by_replica`.
    """
    chosen = tuning.get("chosen") or {}
    settings = {name: deepcopy(learner) for name, learner in learners.items()}
    for name, learner in settings.items():
        for key, value in chosen.get(name, {}).items():
            *sections, last = key.split(".")
            section = learner
            for part in sections:
                section = section[part]
            if tuning.get("per") != "replica":
                section[last] = value
            elif replica is None:
                section[last] = format_by_replica(value)
            else:
                section[last] = value[replica]
    return settings


def join_chosen(tunings: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """Return what replicas that were tuned by themselves have chosen, as lists by learner and key.

    Args:
        tunings: entries ``tuning`` of the manifests of their runs, each of one replica or more.

    >>> join_chosen([{"chosen": {"A": {"lr": [0.1]}}}, {"chosen": {"A": {"lr": [0.2, 0.4]}}}])
    {'A': {'lr': [0.1, 0.2, 0.4]}}
    """
    return {
        name: {key: [value for each in tunings for value in each["chosen"][name][key]] for key in settings}
        for name, settings in tunings[0]["chosen"].items()
    }
