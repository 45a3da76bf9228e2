"""The server of every lane: it aggregates updates into the next version, and detects training that diverged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from netfl.errors import ModelError
from netfl.learning.aggregation import Aggregation, Updates
from netfl.types import Divergence

if TYPE_CHECKING:
    from netfl.learning.aggregation import State
    from netfl.learning.spec import LearnerSpec

_HINT = "is not finite: training diverged; a smaller lr may help"


class LaneServers:
    """The servers of all lanes.  A diverged lane keeps its last finite version and ignores all further updates.

    Args:
        lanes: learner and replica of each.
        specs: the learner of each lane.
        users: number of users.
        origins: version 0 of each lane, ``[lanes, parameters + 1]``.
        is_whole_run: whether the run has no other lanes elsewhere, which continue if all of these diverge.
    """

    def __init__(
        self,
        lanes: Sequence[tuple[str, int]],
        specs: Sequence[LearnerSpec],
        users: int,
        origins: Tensor,
        is_whole_run: bool = True,
    ) -> None:
        self.specs, self._lanes, self._is_whole_run = specs, lanes, is_whole_run
        self._rules, self._like = [spec.aggregation for spec in specs], origins
        self._states: list[State] = [
            rule.open(users, origin) for rule, origin in zip(self._rules, origins, strict=True)
        ]
        self._updates: dict[int, Updates] = {}
        self._diverged: dict[int, Divergence] = {}
        self._new_divergences: list[Divergence] = []

    @property
    def diverged_lanes(self) -> tuple[int, ...]:
        """The lanes whose training has diverged."""
        return tuple(self._diverged)

    @property
    def diverged(self) -> tuple[Divergence, ...]:
        """Descriptions of the lanes whose training has diverged."""
        return tuple(self._diverged.values())

    def name(self, lane: int) -> str:
        """Return learner and replica of *lane* for messages."""
        learner, replica = self._lanes[lane]
        return f"{learner}, replica {replica}"

    def needs_losses(self, lane: int) -> bool:
        """Whether the aggregation of *lane* needs the losses of the users' bases."""
        return lane not in self._diverged and self._rules[lane].needs_losses

    def drift(self, lane: int, users: Tensor, messages: Tensor | None) -> Tensor | None:
        """Return the `Aggregation.drift` of *users*."""
        return self._rules[lane].drift(self._states[lane], users, messages)

    def newest_rates(self, lane: int, index: int) -> Tensor:
        """Return the step sizes on θ and t of users that start from the version before round *index*, ``[2]``."""
        return self._like.new_tensor(self.specs[lane].rates(np.array([index - 1]))[0])

    def step(self, lane: int, current: Tensor, updates: Updates, time_s: float) -> Tensor:
        """Aggregate *updates* into the next version of *lane*, which `accept_finite` then checks."""
        if lane in self._diverged:
            return current
        try:
            following, self._states[lane] = self._rules[lane].step(self._states[lane], current, updates)
        except ValueError as error:
            raise ModelError(self.name(lane), str(error), time_s=time_s) from error
        self._updates[lane] = updates
        return following

    def idle(self, lane: int, current: Tensor, index: int) -> Tensor:
        """Return the next version of *lane* after round *index* without deliveries."""
        if lane in self._diverged:
            return current
        rates = self.newest_rates(lane, index)
        following, self._states[lane] = self._rules[lane].idle(self._states[lane], current, index, rates)
        return following

    def release_updates(self, following: Sequence[Tensor]) -> None:
        """Free the memory of updates whose versions in *following* are finite."""
        self._updates = {
            lane: updates for lane, updates in self._updates.items() if not following[lane].sum().isfinite()
        }

    def accept_finite(self, following: Sequence[Tensor], newest: Tensor, index: int) -> Tensor:
        """Stack the versions *following* of round *index*, ``[lanes, parameters + 1]``.

        A lane whose version is not finite has diverged and keeps its version in *newest*.
        """
        versions, updates_of = torch.stack([*following]), self._updates
        self._updates = {}
        for lane in (~versions.sum(1).isfinite()).nonzero()[:, 0].tolist():
            versions[lane] = newest[lane]
            updates = updates_of.get(lane)
            broken = [] if updates is None else updates.users[~updates.models.sum(1).isfinite()].tolist()
            user = broken[0] if broken else None
            subject = "version" if user is None else "update"
            self.mark_diverged(lane, index, f"the {subject} in round {index} {_HINT}", user)
        return versions

    def messages(self) -> dict[int, Tensor]:
        """Return the `Aggregation.message` of each lane that sends one."""
        messages = {lane: rule.message(state) for lane, (rule, state) in enumerate(self._pairs())}
        return {lane: message for lane, message in messages.items() if message is not None}

    def reported(self, newest: Tensor) -> Tensor:
        """Return the versions that are evaluated, ``[lanes, parameters + 1]``."""
        return torch.stack(
            [rule.reported(state, version) for (rule, state), version in zip(self._pairs(), newest, strict=True)]
        )

    def user_weights(self) -> dict[int, Tensor]:
        """Return the `Aggregation.user_weights`, ``[users]``, of each lane that has them."""
        weights = {lane: rule.user_weights(state) for lane, (rule, state) in enumerate(self._pairs())}
        return {lane: values for lane, values in weights.items() if values is not None}

    def mark_diverged(self, lane: int, index: int, problem: str, user: int | None = None) -> None:
        """Record that *lane* diverged in round *index*."""
        if lane not in self._diverged:
            self._diverged[lane] = Divergence(*self._lanes[lane], index, user, problem)
            self._new_divergences.append(self._diverged[lane])

    def mark_infinite_loss(self, lane: int, index: int) -> None:
        """Record that *lane* diverged because the loss of its version *index* is not finite."""
        self.mark_diverged(lane, index, f"the loss after round {index} {_HINT}")

    def new_divergences(self, feedback_lanes: Sequence[int], time_s: float) -> tuple[Divergence, ...]:
        """Return the lanes that diverged since the last call.

        Args:
            feedback_lanes: lanes that must answer an access.
            time_s: the simulated time, in seconds.

        Raises:
            ModelError: all lanes of the run have diverged, or one of *feedback_lanes*.
        """
        new, self._new_divergences = tuple(self._new_divergences), []
        needed = [lane for lane in feedback_lanes if lane in self._diverged]
        if new and (needed or (self._is_whole_run and len(self._diverged) == len(self._lanes))):
            lost = self._diverged[needed[0]] if needed else new[0]
            raise ModelError(f"{lost.learner}, replica {lost.replica}", lost.problem, user=lost.user, time_s=time_s)
        return new

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`, lane by lane."""
        lost = {
            lane: [entry.round, -1 if entry.user is None else entry.user, entry.problem]
            for lane, entry in self._diverged.items()
        }
        return {"aggregations": [dict(state) for state in self._states], "lost": lost}

    def restore(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Restore a `state`."""
        self._states = [{name: kept.to(device) for name, kept in lane.items()} for lane in state["aggregations"]]
        self._diverged = {
            int(lane): Divergence(*self._lanes[int(lane)], index, None if user < 0 else user, problem)
            for lane, (index, user, problem) in state["lost"].items()
        }

    def _pairs(self) -> zip[tuple[Aggregation, State]]:
        return zip(self._rules, self._states, strict=True)
