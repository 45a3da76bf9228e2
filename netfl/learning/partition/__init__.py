'''The partition family: the training examples that each user holds.

A partition is a class derived from `Partition`.  Its fields are the keys of the scenario, and `Partition.split` returns
the rows of each user.  It gets the labels of all training examples, or the data's own users where `grouped_by` is
``user``.  Where `ranking_source` names a source, it also gets the users in order of their participation, so that data
and participation can be coupled.  `Partition.user_blocks` names groups of users, which may give other labels than the
data.  A complete partition::

    class FirstTakesHalf(Partition):
        """User 0 holds half of the examples, the others share the rest.

        Example::

            kind: my_partitions:FirstTakesHalf
        """

        def split(self, labels, users, ranking, streams):
            rows = streams.rng("rows").permutation(len(labels))
            first, rest = np.array_split(rows, 2)
            return [first, *np.array_split(rest, users - 1)]
'''

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.learning.blocks import Block
from netfl.streams import Streams
from netfl.types import Ints, Law

RankingSource = Literal["rho", "distance", "prerun"]
"""Source of the ranking of users by participation: the rates that the access states; the distance from a user's tower,
the farthest being the rarest; or a run of the access without learning."""


class Partition(Spec):
    """The contract of a partition."""

    @abstractmethod
    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        """Return the rows of each user, a list of *users* arrays without common rows.

        Args:
            labels: the labels of the training examples, or their users in the data, see `grouped_by`.
            users: the number of users.
            ranking: the users by falling participation, if `ranking_source` asks for it.
            streams: source of random draws.

        Raises:
            netfl.errors.ScenarioError: a user would hold no example; the message names users and reason.
        """

    @property
    def grouped_by(self) -> Literal["label", "user"]:
        """The property of the training examples that `split` gets: the label, or the user in the data."""
        return "label"

    @property
    def needs_labels(self) -> bool:
        """True if `split` depends on labels, which a regression does not have; there it gets zeros."""
        return self.grouped_by == "label"

    @property
    def ranking_source(self) -> RankingSource | None:
        """The source of the ranking of users that `split` needs; ``None`` for no ranking."""
        return None

    def user_blocks(self, users: int, ranking: Ints | None) -> tuple[Block, ...]:
        """Return the named groups of users, for which accuracies are reported; by default none.

        The arguments are those of `split`.
        """
        return ()

    @property
    def rare_labels(self) -> tuple[int, ...]:
        """The labels of the users with the least participation, if the partition names them."""
        return ()

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("random permutations of the examples; how many each user holds is exact"),)


__getattr__ = exported_models(__name__)
