'''Allocation family: the share of the band, the power and the processor frequency of each user in a round.

As a round opens, each tower divides its band among the users that are selected, by `Allocation.allocate`.  Where users
that are not selected are still on the air, it divides what they leave free, `AllocationRequest.bandwidth_hz`, and a
narrow radio limits the share of its user, `AllocationRequest.limits`.  It knows the size of an update, and the times
and energies of users, which they state once.  It knows their SNR at that time if the allocation declares ``snr_db`` in
`Allocation.observes`.  This costs nothing, of which `netfl check` warns.  Users that are given a share have it until
another round gives them something else; the others take no part in the round.

To write an allocation, add a file to this package, or a class to a package of your own, that derives from `Allocation`.
A complete one::

    class Slower(Allocation):
        """Equal shares; all processors run at a fraction of their frequency.

        Example::

            kind: mylab.slower:Slower
            frequency: 0.5
        """

        frequency: Annotated[float, Field(gt=0, le=1)]
        """Fraction of the frequency of each processor."""

        def allocate(self, request):
            users = request.users
            return Decision(np.full(users, 1 / users), np.ones(users), np.full(users, self.frequency))

        def laws(self):
            return (Law.none("draws nothing"),)

The MAC must be one whose shares are given: `fdma` with ``division: allocated``.  An allocation that assigns blocks of
the band, `Allocation.assigns_blocks`, needs ``division: blocks`` instead: it reads ``request.blocks`` and returns a
`Decision` with `Decision.block`, by `Blocks.decision`.

An allocation that minimises something declares it in `Allocation.reports`, and returns the value of each decision from
`Allocation.metrics`.  It is then a metric of the run.
'''

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.errors import Fault, ScenarioError
from netfl.network.reception import Reception
from netfl.streams import Streams
from netfl.types import Floats, Ints, Reported, Users

ALLOCATION_VALUES = ("snr_db",)
"""Present values of users that an allocation can observe, of `netfl.types.OBSERVATIONS`."""
MIN_FREQUENCY = 1e-3
"""Smallest fraction of a processor's frequency, of an allocation as of a caller."""
MIN_POWER = 1e-20
"""Smallest fraction of a radio's power, -200 dB."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of equal width of a band, for an allocation that assigns them, and the users that ask for them.

    Args:
        outside: power of the interference from outside of the network in each block at the tower of each user, over the
            noise in the whole band, ``[n, blocks]``.
        reception: reception of the updates.
        ids: numbers of the users in the network, ``[n]``.
        samples: training examples of each user, ``[n]``; one each without data, or if the allocation does not need
            them.
        numbers: numbers of the blocks among those of all cells, ``[blocks]``, as keys of draws.
        streams: random streams of the allocation in this replica.
        round: the round to decide on, from 1.
    """

    outside: Floats
    reception: Reception
    ids: Users
    samples: Floats
    numbers: Ints
    streams: Streams
    round: int

    @property
    def count(self) -> int:
        """Number of blocks."""
        return int(self.outside.shape[1])

    def sinr_db(self, snr: Floats) -> Floats:
        """Return the SINR of each user in each block, in dB, ``[n, blocks]``.

        Args:
            snr: SNR in the whole band, as a ratio, of each user, ``[n, 1]``, or in each block, ``[n, blocks]``.
        """
        return np.asarray(10.0 * np.log10(snr / (1.0 / self.count + self.outside)))

    def decision(self, block: Ints, power: Floats) -> Decision:
        """Return the decision that gives each user a block, at full frequency.

        Args:
            block: number of the block of each user, ``[n]``; -1 for none.
            power: fraction of the power of each user's radio, ``[n]``.
        """
        share = np.where(block >= 0, 1.0 / self.count, 0.0)
        return Decision(share, power, np.ones(len(block)), block)


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """Users of a cell that are selected in a round, with values at full power and full frequency, ``[n]`` each.

    Args:
        known_snr: SNR in the whole of this bandwidth, as a ratio of powers, less the gap of the reception; ``None`` for
            an allocation that does not observe it.
        bits: size of the update.
        train_s: mean training time.
        train_j: energy of the processor cycles of the training.
        fixed_j: energy of the training that no frequency changes, ``energy.per_training`` and ``per_sample``.
        transmit_w: power while sending; above 0 if energy is counted, also where sending is free, so that no time or
            power is arbitrary.
        bandwidth_hz: bandwidth that is free, of which the shares are fractions: that of the band, less what frames of
            former rounds have whose users are not among these.  It is smaller where some of these users are still on
            the air, so that the others fit beside them in equal shares.
        blocks: blocks of the band; ``None`` if the band is no blocks.
        max_share: largest share that the radio of each user can use; ``None`` for 1.
    """

    known_snr: Floats | None
    bits: Floats
    train_s: Floats
    train_j: Floats
    fixed_j: Floats
    transmit_w: Floats
    bandwidth_hz: float
    blocks: Blocks | None = None
    max_share: Floats | None = None

    @property
    def limits(self) -> Floats:
        """Largest share that the radio of each user can use, ``[n]``, at most 1."""
        if self.max_share is None:
            return np.ones(self.users)
        return self.max_share

    @property
    def users(self) -> int:
        """Number of users."""
        return len(self.bits)

    @property
    def snr(self) -> Floats:
        """SNR of each user in all of `bandwidth_hz`, as a ratio of powers, less the gap of the reception, ``[n]``.

        Raises:
            ScenarioError: the allocation has not declared ``snr_db``.
        """
        if self.known_snr is None:
            problem = "it reads snr_db of users, but declares nothing"
            remedy = "add snr_db to `observes` of the allocation"
            raise ScenarioError([Fault("allocation", problem, None, remedy)])
        return self.known_snr

    def select(self, users: Ints) -> AllocationRequest:
        """Return the request of some users, by their places, without blocks."""
        return AllocationRequest(
            known_snr=self.snr[users],
            bits=self.bits[users],
            train_s=self.train_s[users],
            train_j=self.train_j[users],
            fixed_j=self.fixed_j[users],
            transmit_w=self.transmit_w[users],
            bandwidth_hz=self.bandwidth_hz,
            max_share=self.limits[users],
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """Resources of each user in a round, as fractions of the free band, of its full power and of its full frequency.

    Args:
        share: fraction of `AllocationRequest.bandwidth_hz`, ``[n]``; they add up to at most 1, and none is above that
            of `AllocationRequest.limits`.  A user without a share takes no part in the round.
        power: fraction of the power of the radio, ``[n]``, at least `MIN_POWER`.
        frequency: fraction of the frequency of ``compute``, ``[n]``, at least `MIN_FREQUENCY`.
        block: number of the block of each user, ``[n]``, -1 for none; ``None`` if the band is no blocks.
    """

    share: Floats
    power: Floats
    frequency: Floats
    block: Ints | None = None

    def assign(self, places: Ints, part: Decision) -> None:
        """Give the users at these *places* the resources of *part*, a decision on them alone."""
        self.share[places] = part.share
        self.power[places] = part.power
        self.frequency[places] = part.frequency


class Allocation(Spec):
    """The contract of an allocation."""

    reports: ClassVar[tuple[Reported, ...]] = ()
    """Metrics that the allocation reports, by `metrics`; none by default."""

    @abstractmethod
    def allocate(self, request: AllocationRequest) -> Decision:
        """Return what each of the users of *request* has in the round."""

    def metrics(self, request: AllocationRequest, decision: Decision) -> Mapping[str, float]:
        """Return the values of `reports` by name for one decision, such as the objective that it reaches.

        It is called after each `allocate` of an allocation that declares `reports`: once for each tower and round.  The
        run records the mean over the decisions since the last evaluation, and over all decisions.
        """
        return {}

    @property
    def observes(self) -> Collection[str]:
        """Present values of users that the allocation reads: of `ALLOCATION_VALUES`; other values are not given."""
        return ()

    @property
    def needs_energy(self) -> bool:
        """True if the allocation depends on the energy of users."""
        return False

    @property
    def assigns_blocks(self) -> bool:
        """True if it assigns blocks of the band, each to one user."""
        return False

    @property
    def needs_sample_counts(self) -> bool:
        """True if it reads the training examples of users, `Blocks.samples`."""
        return False

    @property
    def follows_capacity(self) -> bool:
        """True if the allocation assumes that users send at the capacity of their share."""
        return False

    @property
    def deadline_s(self) -> float | None:
        """Time from the start of the trainings by which all uploads are to end; by default ``None``, for no time."""
        return None


def full_power(share: Floats) -> Decision:
    """Return the decision in which users have these shares, full power and full frequency."""
    users = len(share)
    return Decision(share, np.ones(users), np.ones(users))


__getattr__ = exported_models(__name__)
