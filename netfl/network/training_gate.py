"""Decision of users whether to train: their rules, and what these read of the batteries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netfl.core.plugin_answers import PluginMethod
from netfl.core.plugins import is_plugin
from netfl.network.outage._combined import CombinedOutages
from netfl.network.trains_when import TrainingOccasion, TrainingRule
from netfl.streams import RandomField
from netfl.types import Bools, Floats, Ints


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
    method = PluginMethod(rule, "trains", "return whether each user trains, [n] booleans", "trains_when")
    answer = method.value_of_each(lambda: rule.trains(occasion), len(occasion.users))
    if answer.dtype != np.bool_:
        raise method.error(f"gives values of type {answer.dtype}")
    return answer
