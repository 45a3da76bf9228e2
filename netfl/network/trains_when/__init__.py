'''Family of rules by which users decide whether to train from a version.

A user that has a version, and no update that it would rather finish, asks its rule once.  If the rule refuses, the user
does not train and sends nothing: its update ends at once with the outcome ``not_trained``, and it waits for the next
version.  A rule sees what the device itself knows, and costs neither time nor energy.

To add a rule, write a file in this package, or a class in your own package, that derives from `TrainingRule`.
A complete one::

    class Eager(TrainingRule):
        """A user trains with a probability that rises with the charge of its battery.

        Example::

            kind: mylab.eager:Eager
        """

        needs_batteries = True

        def trains(self, occasion):
            draws = occasion.draws.uniform(occasion.users, occasion.versions)
            return draws < occasion.charge

        def laws(self):
            return (Law.none("a probability that depends on the charge"),)
'''

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.streams import RandomField
from netfl.types import Bools, Floats, Ints, Law


@dataclass(frozen=True, slots=True)
class TrainingOccasion:
    """Users that can train from the version that they have.

    Args:
        users: their numbers in the network, ``[n]``.
        versions: number of the version of each, from 0, ``[n]``.
        time_s: time at which each can begin, ``[n]``.
        charge: charge of each battery as a share of its capacity, ``[n]``; infinity for users without a battery.
        is_charging: whether each battery gets energy at that time, ``[n]``; true for users without a battery.
        draws: random numbers of the rules, of which each user has others for each version.
    """

    users: Ints
    versions: Ints
    time_s: Floats
    charge: Floats
    is_charging: Bools
    draws: RandomField


class TrainingRule(Spec):
    """Base class of rules by which users decide whether to train."""

    can_refuse: ClassVar[bool] = True
    """False if all users train on every occasion."""
    needs_batteries: ClassVar[bool] = False
    """The rule reads the batteries of users; without it, all users appear to have none."""
    needs_charging_times: ClassVar[bool] = False
    """The rule reads whether batteries get energy, so they need a source of power and not of portions."""

    @abstractmethod
    def trains(self, occasion: TrainingOccasion) -> Bools:
        """Return whether each of the users trains, ``[n]``."""

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)


__getattr__ = exported_models(__name__)
