"""What the accesses share in which users come and go: their probabilities, and who of those present is heard."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from netfl.access._direct import Direct, uniforms
from netfl.access._rates import Chances, LabelCorrelated, correlated
from netfl.errors import Fault, ModelError
from netfl.rates import chances_of
from netfl.registry import kind_of
from netfl.streams import Streams
from netfl.types import Facts, Setting

_FIRST = 100
"""Users whose probabilities stand for all that a formula gives: those of the first differ most."""


class Intermittent(Direct):
    """An access whose users are there or not, round by round; those who are there are heard."""

    probability: Chances
    """How likely each user is to be there: one number for all; a list with one for each user; ``{zipf: s}``, which is
    ``p_i = highest * (i + 1) ** -s`` with ``highest: 1`` by default; or
    ``{label_correlated: {concentration: 0.1, minimum: 0.02, mean: 0.1}}``, which makes it follow the user's labels."""

    @abstractmethod
    def present(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """Who is there, ``[users]``, in each round from 1 on."""

    def heard(self, setting: Setting, most: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Those who are there, in random order."""
        return shuffled(self.present(self.chances(setting), setting.rounds, setting.streams), setting)

    def chances(self, setting: Setting) -> NDArray[np.float64]:
        """How likely each user is to be there, ``[users]``."""
        if not isinstance(self.probability, LabelCorrelated):
            return chances_of(self.probability, setting.users)
        if setting.label_mix is None:
            raise ModelError(kind_of(type(self)), "the users' label mix is wanted, and is not known")
        return correlated(self.probability.label_correlated, setting.label_mix, setting.streams)

    @property
    def typical(self) -> float:
        """The probability of the first user, where all users have all labels alike."""
        if isinstance(self.probability, LabelCorrelated):
            return max(self.probability.label_correlated.minimum, self.probability.label_correlated.mean)
        return float(chances_of(self.probability, 1)[0])

    def rates(self, users: int, streams: Streams) -> NDArray[np.float64] | None:
        """How often each user is there, where it does not depend on labels; `first` keeps its order."""
        if isinstance(self.probability, LabelCorrelated):
            return None
        return self.shares(chances_of(self.probability, users))

    def heard_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """How often each user is there, where all who are there are heard; of users with such labels, if need be."""
        if not self.hears_all(users):
            return None
        if not isinstance(self.probability, LabelCorrelated) or label_mix is None:
            return self.rates(users, streams)
        return self.shares(correlated(self.probability.label_correlated, label_mix, streams))

    def shares(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """In what share of the rounds users are there whose probabilities are *chances*: just so often."""
        return chances

    @property
    def listed(self) -> tuple[float, ...]:
        """The probabilities that are stated, of a formula those of the first users; empty where they follow labels."""
        if isinstance(self.probability, LabelCorrelated):
            return ()
        return tuple(chances_of(self.probability, 1 if isinstance(self.probability, float) else _FIRST).tolist())

    @property
    def always(self) -> bool:
        """Whether nobody is ever away, so that all rounds are alike."""
        return set(self.listed) == {1.0}

    @property
    def wants_label_mix(self) -> bool:
        """Whether the probabilities follow the users' labels."""
        return isinstance(self.probability, LabelCorrelated)

    def faults(self, facts: Facts) -> Iterator[Fault]:
        """A list for another number of users, labels without data, more heard than there are."""
        if isinstance(self.probability, tuple) and len(self.probability) != facts.users:
            problem = f"{len(self.probability)} probabilities for {facts.users} users"
            yield Fault("probability", problem, remedy="give one for each user, or one number for all, or {zipf: 1.0}")
        if self.wants_label_mix and facts.classes is None:
            yield Fault("probability", "follows the users' labels, and there are no data", remedy="add data")
        yield from Direct.faults(self, facts)


def shuffled(there: Iterable[NDArray[np.bool_]], setting: Setting) -> Iterator[NDArray[np.int64]]:
    """Those who are *there*, ``[users]`` for each round, in random order."""
    order = uniforms(setting.streams.field("order"), np.arange(setting.users), setting.rounds)
    for present, keys in zip(there, order, strict=True):
        users = np.flatnonzero(present)
        yield users[np.argsort(keys[users])]
