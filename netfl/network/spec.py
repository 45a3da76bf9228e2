"""Description of a network that serves rounds: its parts, and the users, versions and updates of a round.

`netfl.network.validation` and `netfl.network.warnings` check a description, and `netfl.network.build` builds it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from netfl.core.family_members import FamilyMember
from netfl.core.spec import NotWith
from netfl.network.allocation import Allocation
from netfl.network.compute import Compute, as_tuple
from netfl.network.counterfactual import Exemptions
from netfl.network.energy import Energy
from netfl.network.evaluation_rounds import EvaluationRounds
from netfl.network.parts import NetworkParts
from netfl.network.round import RoundPolicy
from netfl.network.server_link import ServerLink
from netfl.network.theory import Theory
from netfl.network.trains_when import TrainingRule
from netfl.network.transport.spec import Transport
from netfl.network.versions import Downlink, OnNewVersion
from netfl.units import Bitrate, UpdateSize


class NetworkSpec(NetworkParts):
    """Description of a network that serves rounds, or carries traffic for a duration."""

    theory: Annotated[Theory, FamilyMember()] | None = None
    """A formula whose values are reported beside those of the network, with a ``duration``."""
    compute: Compute | None = None
    """Training times of users."""
    energy: Energy | None = None
    """Energy of users; ``null``: not counted."""
    trains_when: Annotated[tuple[Annotated[TrainingRule, FamilyMember()], ...], BeforeValidator(as_tuple)] = ()
    """Rule by which a user that has a version decides whether to train from it, or a list of rules that must all agree;
    by default all users train always."""
    allocation: Annotated[Allocation, FamilyMember()] | None = None
    """Share of the band, power and processor frequency of each selected user, as a round opens; ``null``: full power
    and frequency, and the shares of the MAC."""
    broadcast_rate: Annotated[Annotated[Bitrate, Field(gt=0)] | None, NotWith("downlink")] = None
    """Rate at which towers send the global model to their users, on an ideal downlink."""
    downlink: Downlink | None = None
    """A downlink through the network, on which versions can be lost; ``null`` for an ideal one."""
    server_link: ServerLink | None = None
    """Access link of the server, which all versions and all updates share; ``null``: they do not wait for each
    other there."""
    evaluation: EvaluationRounds | None = None
    """Evaluation of the model by users at the end of rounds; ``null``: none.  The accuracy of the learners is that of
    ``evaluate``, which this does not change."""
    update_size: Annotated[UpdateSize, Field(gt=0)] | None = None
    """Size of an update, and of a broadcast, of every learner; ``null`` takes it from the model and the learners."""
    payload: Annotated[Literal["own", "largest"], NotWith("update_size")] = "own"
    """Size of updates and broadcasts that several learners share.  ``own``: that of each learner, so all must send the
    same number of bits; ``largest``: every learner is billed the largest update and the largest broadcast among them,
    and all tables of costs say so."""
    transport: Transport | None = None
    """Transport of an update: whole or in packets, with headers, compressed; ``null``: uncompressed, and whole if a
    frame of the MAC can hold it."""
    round: Annotated[RoundPolicy, FamilyMember()] | None = None
    """Rule by which a round closes."""
    on_new_version: OnNewVersion = "restart"
    """Behaviour of a user that has an outstanding update when a newer version arrives: abandon it and start from the
    new version (``restart``); finish and send it, and start from the then newest version (``finish``); or finish it and
    keep the old version until the next one arrives (``ignore``)."""
    staleness: Annotated[int, Field(ge=0)] | None = None
    """Largest number of versions between the newest and the base of an update that still counts; by default 0 if busy
    users restart at the broadcast of an ideal downlink, and unlimited otherwise."""
    exempt: Exemptions | None = None
    """A counterfactual: users that are exempt from causes of failed deliveries; all draws stay unchanged."""

    @property
    def trains_always(self) -> bool:
        """True if no rule of `trains_when` can refuse a training."""
        return not any(rule.can_refuse for rule in self.trains_when)

    @property
    def is_punctual(self) -> bool:
        """Only updates from the newest version count, unless `staleness` is given."""
        is_continuous = self.round is not None and self.round.is_continuous
        return self.on_new_version == "restart" and self.downlink is None and not is_continuous
