"""Decision of users whether to train: their rules, and what these read of the batteries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netfl.core.kinds import kind_of
from netfl.core.plugins import is_plugin, one_line_of
from netfl.errors import Fault, ScenarioError, is_explained
from netfl.network.outage._combined import CombinedOutages
from netfl.network.trains_when import TrainingOccasion, TrainingRule
from netfl.streams import RandomField
from netfl.types import Bools, Floats, Ints

_REMEDY = "return whether each user trains, [n] booleans"


@dataclass(frozen=True, slots=True)
class TrainingGate:
    """Users train where all *rules* agree.

    Args:
        rules: the rules.
        outages: outages that know the batteries.
        draws: random numbers of the rules.
    """

    rules: tuple[TrainingRule, ...]
    outages: CombinedOutages
    draws: RandomField

    def trains(self, ids: Ints, versions: Ints, at_s: Floats) -> Bools:
        """Return whether each of the users *ids* trains from its version at its *at_s*, ``[n]``.

        Raises:
            ScenarioError: a rule from outside netfl fails or answers something else; the key is ``trains_when``.
        """
        charge = None
        is_charging = None
        if any(rule.needs_batteries for rule in self.rules):
            charge = self.outages.charge_share(ids, at_s)
            is_charging = self.outages.is_charging(ids, at_s)
        if charge is None:
            charge = np.full(len(ids), np.inf)
        if is_charging is None:
            is_charging = np.ones(len(ids), np.bool_)
        occasion = TrainingOccasion(ids, versions, at_s, charge, is_charging, self.draws)
        trains = np.ones(len(ids), np.bool_)
        for rule in self.rules:
            if is_plugin(rule):
                trains &= _checked(rule, occasion)
            else:
                trains &= rule.trains(occasion)
        return trains


def _checked(rule: TrainingRule, occasion: TrainingOccasion) -> Bools:
    """Return what a rule from outside netfl answers."""
    try:
        answer = np.asarray(rule.trains(occasion))
    except Exception as error:  # whatever the user's class does
        if is_explained(error):
            raise
        raise _error(rule, f"fails: {one_line_of(error, rule)}") from error
    if answer.shape != (len(occasion.users),) or answer.dtype != np.bool_:
        given = f"{answer.dtype} of shape {[*answer.shape]}"
        raise _error(rule, f"gives {given} for {len(occasion.users)} users")
    return answer


def _error(rule: TrainingRule, problem: str) -> ScenarioError:
    return ScenarioError([Fault("trains_when", f"trains() of {kind_of(type(rule))} {problem}", None, _REMEDY)])
