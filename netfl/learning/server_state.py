"""The server of every lane: what it remembers, how it makes the next version, and whether its training diverged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from netfl.errors import ModelError
from netfl.learning.aggregation import Updates
from netfl.types import Divergence

if TYPE_CHECKING:
    from netfl.learning.aggregation import State
    from netfl.learning.spec import LearnerSpec

_HINT = "is not finite: training diverged; a smaller lr may help"


class LaneServers:
    """The servers.  One whose training diverged keeps its last good version, and hears nothing any more.

    Args:
        lanes: learner and replica of each.
        specs: the learner of each.
        users: the number of users.
        origins: version 0 of each lane, ``[lanes, parameters + 1]``.
        alone: whether there are no other lanes elsewhere, which go on when all of these are lost.
    """

    def __init__(
        self,
        lanes: Sequence[tuple[str, int]],
        specs: Sequence[LearnerSpec],
        users: int,
        origins: Tensor,
        alone: bool = True,
    ) -> None:
        self._lanes, self._specs, self._alone = lanes, specs, alone
        self._rules, self._like = [spec.aggregation for spec in specs], origins
        self._states: list[State] = [rule.open(users, own) for rule, own in zip(self._rules, origins, strict=True)]
        self._updates: dict[int, Updates] = {}
        self._lost: dict[int, Divergence] = {}
        self._fresh: list[Divergence] = []

    @property
    def lost(self) -> tuple[int, ...]:
        """The lanes whose training diverged."""
        return tuple(self._lost)

    @property
    def diverged(self) -> tuple[Divergence, ...]:
        """How they did."""
        return tuple(self._lost.values())

    def name(self, lane: int) -> str:
        """A lane in words."""
        learner, replica = self._lanes[lane]
        return f"{learner}, replica {replica}"

    def wants_losses(self, lane: int) -> bool:
        """Whether the server of *lane* must know how well users' bases do."""
        return lane not in self._lost and self._rules[lane].wants_losses

    def drift(self, lane: int, users: Tensor, messages: Tensor | None) -> Tensor | None:
        """What *users* add to their gradients; see `Aggregation.drift`."""
        return self._rules[lane].drift(self._states[lane], users, messages)

    def now(self, lane: int, index: int) -> Tensor:
        """Step sizes on θ, and on t, of users of *lane* that start from the version before *index*, ``[2]``."""
        return self._like.new_tensor(self._specs[lane].rates(np.array([index - 1]))[0])

    def step(self, lane: int, current: Tensor, updates: Updates, time_s: float) -> Tensor:
        """The next version of *lane*, which `settled` wants to see; the current one if it is lost."""
        if lane in self._lost:
            return current
        try:
            following, self._states[lane] = self._rules[lane].step(self._states[lane], current, updates)
        except ValueError as error:
            raise ModelError(self.name(lane), str(error), time_s=time_s) from error
        self._updates[lane] = updates
        return following

    def release(self, following: Sequence[Tensor]) -> None:
        """Let go of what was heard, but for those whose versions *following* are not finite: it may be large."""
        self._updates = {lane: one for lane, one in self._updates.items() if not following[lane].sum().isfinite()}

    def settled(self, following: Sequence[Tensor], newest: Tensor, index: int) -> Tensor:
        """The versions *following* of all lanes in round *index*, ``[lanes, parameters + 1]``.

        A lane whose version is not finite is lost, and stays where it is in *newest*.
        """
        versions, heard = torch.stack([*following]), self._updates
        self._updates = {}
        for lane in (~versions.sum(1).isfinite()).nonzero()[:, 0].tolist():
            versions[lane] = newest[lane]
            updates = heard.get(lane)
            broken = [] if updates is None else updates.users[~updates.models.sum(1).isfinite()].tolist()
            user = broken[0] if broken else None
            whose = "version" if user is None else "update"
            self.lose(lane, index, f"the {whose} in round {index} {_HINT}", user)
        return versions

    def idle(self, lane: int, current: Tensor, index: int) -> Tensor:
        """The next version of *lane* after round *index*, in which nobody was heard."""
        if lane in self._lost:
            return current
        following, self._states[lane] = self._rules[lane].idle(
            self._states[lane], current, index, self.now(lane, index)
        )
        return following

    def messages(self) -> dict[int, Tensor]:
        """What servers send beside their newest versions, by lane."""
        sent = {lane: rule.message(state) for lane, (rule, state) in enumerate(self._pairs())}
        return {lane: one for lane, one in sent.items() if one is not None}

    def reported(self, newest: Tensor) -> Tensor:
        """The models that are evaluated, ``[lanes, parameters + 1]``."""
        return torch.stack(
            [rule.reported(state, own) for (rule, state), own in zip(self._pairs(), newest, strict=True)]
        )

    def worth(self) -> dict[int, Tensor]:
        """How much users' changes count, ``[users]``, by lane, where that is a figure."""
        found = {lane: rule.worth(state) for lane, (rule, state) in enumerate(self._pairs())}
        return {lane: one for lane, one in found.items() if one is not None}

    def lose(self, lane: int, index: int, problem: str, user: int | None = None) -> None:
        """Count *lane* as lost from round *index* on."""
        if lane not in self._lost:
            self._lost[lane] = Divergence(*self._lanes[lane], index, user, problem)
            self._fresh.append(self._lost[lane])

    def lose_broken(self, lane: int, index: int) -> None:
        """Count *lane* as lost because the loss of its version *index* is not finite."""
        self.lose(lane, index, f"the loss after round {index} {_HINT}")

    def fresh(self, heeded: Sequence[int], time_s: float) -> tuple[Divergence, ...]:
        """The lanes lost since this was last asked.

        Args:
            heeded: lanes to which an access listens.
            time_s: the simulated time, in seconds.

        Raises:
            ModelError: no lane is left, or one is lost that an access listens to.
        """
        fresh, self._fresh = tuple(self._fresh), []
        needed = [lane for lane in heeded if lane in self._lost]
        if fresh and (needed or (self._alone and len(self._lost) == len(self._lanes))):
            one = self._lost[needed[0]] if needed else fresh[0]
            raise ModelError(f"{one.learner}, replica {one.replica}", one.problem, user=one.user, time_s=time_s)
        return fresh

    def state(self) -> dict[str, Any]:
        """All that `restore` needs, lane by lane."""
        lost = {
            lane: [one.round, -1 if one.user is None else one.user, one.problem] for lane, one in self._lost.items()
        }
        return {"aggregations": [dict(state) for state in self._states], "lost": lost}

    def restore(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Go back to a kept state."""
        self._states = [{name: kept.to(device) for name, kept in one.items()} for one in state["aggregations"]]
        self._lost = {
            int(lane): Divergence(*self._lanes[int(lane)], index, None if user < 0 else user, problem)
            for lane, (index, user, problem) in state["lost"].items()
        }

    def _pairs(self) -> zip[tuple[Any, State]]:
        """Rule and state of each lane."""
        return zip(self._rules, self._states, strict=True)
