"""The access family: who gets heard, round after round — the Random Access Model (RAM).

An access is a generator of rounds.  It may be given directly (`stationary`, `bernoulli`, `markov`, `cyclic`),
be a recording (`replay`), or emerge from a simulated network (`network`); all run on one clock and through this one
interface, so that a learner cannot tell which it is served by.

To write one: a file in this package, or a class in a package of your own, that derives from `Access`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import AccessContext, LearnerReport, Round, RoundBatch

_ROUND_S, _UPDATE_S = 3e-4, 1e-6
"""Processor time of a round, and of an update in it that is told whether it is heard."""


class Access(Spec):
    """The contract of an access."""

    @abstractmethod
    def rounds(self, setting: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        """Yield ``setting.rounds`` rounds in order; what is sent back is the learner's report on each.

        Draws come from ``setting.streams`` only, so that the same setting gives the same rounds.
        """

    def blocks(self, setting: AccessContext) -> Iterator[RoundBatch] | None:
        """What `rounds` yields, and records, as arrays of many rounds at a time; ``None`` where that is no faster.

        For a world in which nobody learns.  How many rounds there are in a block is the same in every replica.
        """
        return None

    def most(self, users: int, rounds: int) -> int:
        """The largest number of deliveries that one of the *rounds* can bring."""
        return users

    def updates(self, users: int, rounds: int) -> int:
        """How many updates *users* make in the *rounds* at least, each of which ends in a fate."""
        return 0

    def work(self, users: int, rounds: int, duration_s: float | None) -> float:
        """Roughly how many updates *users* make in the *rounds*, or packets come in *duration_s*, if it has that."""
        return float(users) * rounds

    def changes(self, users: int, rounds: int, duration_s: float | None) -> float:
        """Roughly how often anybody goes down or comes up meanwhile, as far as that is known."""
        return 0.0

    def seconds(self, users: int, rounds: int, duration_s: float | None, *, counted: bool) -> float:
        """Roughly the processor time of all this; *counted*: whether nobody learns, and updates are only counted."""
        return _ROUND_S * rounds + _UPDATE_S * self.work(users, rounds, duration_s)

    def warnings(self, setting: AccessContext) -> Iterator[str]:
        """What there is to say before the first round, though nothing is wrong."""
        yield from ()

    def rates(self, users: int, streams: Streams) -> NDArray | None:  # type: ignore[type-arg]
        """How often each user is heard, ``[users]``, up to a factor; ``None`` where that emerges or is not known.

        Where the server selects who may try, these are the rates that it would be heard at without that.

        *streams* are those of ``Setting.streams``: rates that are drawn at random are those that `rounds` uses.
        (A method called ``rho`` would clash with the field of that name.)
        """
        return None

    def heard_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """In what share of the rounds each user is heard in the long run, ``[users]``; ``None`` unless that is exact.

        Unlike `rates`, which order users, these are what a recording can be held to.  Where they follow the users'
        labels they need *label_mix*, that of ``Setting.label_mix``.
        """
        return None

    def places(self, setting: AccessContext) -> Mapping[str, NDArray]:  # type: ignore[type-arg]
        """Columns of the users table that this access knows, such as ``x_m``, ``y_m`` and ``distance_m``."""
        return {}

    def nodes(self, setting: AccessContext) -> Mapping[str, NDArray]:  # type: ignore[type-arg]
        """Columns of the nodes table: ``node``, ``role``, ``x_m`` and ``y_m`` of towers, routers and the server."""
        return {}

    def ranking(self, setting: AccessContext) -> NDArray | None:  # type: ignore[type-arg]
        """The users from the most to the least often heard, where that is on record; ``None`` elsewhere."""
        return None

    @property
    def process(self) -> str | None:
        """The kind of process that being heard is, which a diagnosis should find; ``None`` unless that is certain.

        ``stationary``, ``Markovian``, ``cyclic``, ``non-stationary`` or ``emergent-correlated``.
        """
        return None

    @property
    def wants_label_mix(self) -> bool:
        """Whether `rounds` needs ``Setting.label_mix``."""
        return False

    @property
    def wants_samples(self) -> bool:
        """Whether `rounds` needs ``Setting.samples``: how much each user has to compute."""
        return False

    @property
    def ranked(self) -> bool:
        """Whether `ranking` is on record."""
        return False

    @property
    def wants_held(self) -> bool:
        """Whether `rounds` needs ``Setting.held``: how many examples each user holds."""
        return False

    @property
    def wants_data(self) -> bool:
        """Whether any of this hangs on the examples."""
        return self.wants_samples or self.wants_label_mix or self.wants_held

    @property
    def closed_loop(self) -> bool:
        """Whether `rounds` asks the learners, so that who is heard depends on what is learned (``Round.asks``)."""
        return False

    @property
    def follows(self) -> str | None:
        """The learner that a closed loop listens to; ``None`` for the only one there is."""
        return None

    @property
    def networked(self) -> bool:
        """Whether it simulates a network."""
        return False

    @property
    def timed(self) -> bool:
        """Whether it can be watched for ``Setting.duration_s``, with traffic of its own in place of updates.

        `rounds` then cuts that time into ``Setting.rounds`` even windows, each a round without deliveries, and tells
        ``Setting.recorder`` its figures at the end.
        """
        return False

    @property
    def placed(self) -> bool:
        """Whether users have positions."""
        return False
