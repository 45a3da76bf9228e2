"""Facts about the scenario that a model may use when it validates itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from netfl.errors import Fault


@dataclass(frozen=True, slots=True)
class ScenarioFacts:
    """Facts about the scenario that a model may use when it validates itself, before anything runs.

    Args:
        users: the number of users.
        rounds: the number of rounds, or where only `stop_s` ends the run, a bound that no run reaches.
        classes: number of labels in the data; ``None`` without data.
        example_shape: shape of an example, such as channels, height and width of an image; ``None`` without data.
        max_deliveries: the largest number of deliveries in a round.
        rho_known: whether the access states each user's participation rate, up to a factor; not without learning.
        participation_known: whether it states each user's participation rate exactly; not without learning.
        placed: whether users have positions.
        ranked: whether the access has a recorded order of the users by participation.
        sized: whether the model gives the size of an update.
        trained: whether there are learners, whose work gives the computing time of a user.
        duration_s: simulated time of a run with traffic in place of rounds; ``None`` with rounds.
        stop_s: simulated time at which a run with rounds ends; ``None`` if only their number ends it.
        replicas: the number of replicas.
        learners: the learners' names.
        networked: whether participation emerges from a network.
        coded: the keys of the codecs that give the sizes of messages: ``codec``, ``codec_down``.
        weighed: whether a learner's aggregation states the weights of users.
    """

    users: int
    rounds: int
    classes: int | None = None
    example_shape: tuple[int, ...] | None = None
    max_deliveries: int = 1
    rho_known: bool = False
    participation_known: bool = False
    placed: bool = False
    ranked: bool = False
    sized: bool = False
    trained: bool = False
    duration_s: float | None = None
    stop_s: float | None = None
    replicas: int = 1
    learners: tuple[str, ...] = ()
    networked: bool = False
    coded: tuple[str, ...] = ()
    weighed: bool = False

    def unknown_users(self, key: str, nodes: Iterable[int | str]) -> Iterator[Fault]:
        """Yield the error, at *key*, of users among *nodes* that do not exist; names of other nodes pass."""
        unknown = [user for user in nodes if isinstance(user, int) and user >= self.users]
        if unknown:
            yield Fault(key, "no such users", unknown, f"users are numbered 0 to {self.users - 1}")

    def too_many_users(self, key: str, number: int | None) -> Iterator[Fault]:
        """Yield the error, at *key*, of a *number* of users above the number of all."""
        if number is not None and number > self.users:
            yield Fault(key, f"more than the {self.users} users", number, "use at most the number of users")
