"""The state of the server of every lane: its aggregation, and whether its training has diverged.

`LaneServers` aggregates updates into the next version.  `netfl.learning.model_versions` has the versions in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.core.family_members import find_plugins
from netfl.core.kinds import kind_of
from netfl.errors import ModelError
from netfl.learning.aggregation import Aggregation, SingleUpdates, Updates
from netfl.learning.codec import WHOLE, Codecs
from netfl.learning.device_check import DeviceCheck
from netfl.learning.device_store import DeviceStore, UserRows
from netfl.learning.reported_values import ReportedValues
from netfl.learning.step_sizes import StepSizes
from netfl.learning.tensors import runs_on_gpu, upload
from netfl.types import SERVER, SMALLER_STEP, Divergence, Ints

if TYPE_CHECKING:
    from netfl.learning.aggregation import State
    from netfl.learning.cohort import Cohort
    from netfl.learning.model import Model
    from netfl.learning.spec import LearnerSpec


class LaneServers:
    """The servers of all lanes.  A diverged lane keeps its last finite version and ignores all further updates.

    If all lanes diverge, the run ends, unless *is_whole_run* is false: then it has other lanes elsewhere.
    Messages name *model* and *codecs* if they are from outside netfl.  *lanes* maps learner and replica to the
    learner's settings.

    A GPU checks the versions itself, and the host reads later which lanes have diverged: see `find_diverged`.

    A version is ``[size + 1]``: parameters, *buffers*, and t.  Aggregations see the parameters and t; the buffers have
    a rule of their own (`Aggregation.next_buffers`).

    Numbers that stay on the devices, *personal*, are those of version 0 in all versions: no user sends them, but an
    aggregation may move them, such as by the rounding of its weights, which an optimiser makes large.

    Other nodes than the server merge, if *has_nodes*: each has a state of each lane's aggregation of its own.  The
    *store* holds the `UserRows` of all states, and their part of a checkpoint.
    """

    def __init__(
        self,
        lanes: Mapping[tuple[str, int], LearnerSpec],
        users: int,
        origins: Tensor,
        is_whole_run: bool = True,
        model: Model | None = None,
        buffers: int = 0,
        codecs: Codecs = WHOLE,
        has_nodes: bool = False,
        *,
        store: DeviceStore,
        personal: Mapping[int, Tensor] | None = None,
    ) -> None:
        self._lanes = [*lanes]
        self.specs = [*lanes.values()]
        self._is_whole_run = is_whole_run
        self._shared = {"model": model, **codecs.named}

        # the rules, and the classes of those that step together: one number for each, -1 for a rule that does not
        self._rules = [spec.aggregation for spec in self.specs]
        self.has_drift = any(type(rule).drift is not Aggregation.drift for rule in self._rules)
        """True if an aggregation adds a term to the gradients of the users."""
        class_numbers: dict[type[Aggregation], int] = {}
        for rule in self._rules:
            if "step_together" in vars(type(rule)) and not rule.reports:
                class_numbers.setdefault(type(rule), len(class_numbers))
        self._classes = np.array([class_numbers.get(type(rule), -1) for rule in self._rules])
        self.reported_values: ReportedValues | None = None
        """Values that aggregations report; ``None`` if none reports any."""
        if any(rule.reports for rule in self._rules):
            names = [self.name(lane) for lane in range(len(lanes))]
            self.reported_values = ReportedValues(self._rules, names, origins.device)
        self._step_sizes = StepSizes(self.specs, origins)
        self._buffers: slice | None = None  # place of the buffers in a version
        if buffers:
            self._buffers = slice(origins.shape[1] - 1 - buffers, origins.shape[1] - 1)

        self._personal = dict(personal or {})  # indices of the numbers that stay on the devices, by lane
        self._personal_values = {lane: origins[lane, stays] for lane, stays in self._personal.items()}

        # their states at the server, and at nodes that have merged
        self._store = store
        self._users = users
        self._states: list[State] = [
            rule.open(users, self._without_buffers(origin)) for rule, origin in zip(self._rules, origins, strict=True)
        ]
        for lane, state in enumerate(self._states):
            store.adopt(lane, state)
        self._node_states: dict[tuple[int, int], State] = {}  # by node and lane
        self._origins: Tensor | None = None  # from which the states of nodes are opened
        if has_nodes:
            self._origins = origins

        # divergence: the updates of the open round, in which the user is found, and the lanes that are lost
        self._updates: dict[int, Updates] = {}
        self._singles: list[tuple[Ints, SingleUpdates]] = []  # lanes that stepped together, and their updates
        self._diverged: dict[int, Divergence] = {}
        self._new_divergences: list[Divergence] = []
        self._check: DeviceCheck | None = None
        if runs_on_gpu(origins.device):
            self._check = DeviceCheck(len(lanes), origins.device)

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
        """Return whether the aggregation of *lane* needs the losses of the users' bases."""
        return lane not in self._diverged and self._rules[lane].needs_losses

    def drift(self, lane: int, node: int, users: Tensor, messages: Tensor | None) -> Tensor | None:
        """Return the `Aggregation.drift` of *users* of a node, ``[users, size + 1]``; it is 0 for buffers."""
        drift = self._rules[lane].drift(self._state(node, lane), users, messages)
        if drift is None or self._buffers is None:
            return drift
        return self._with_buffers(drift, drift.new_zeros(len(drift), self._buffers.stop - self._buffers.start))

    def all_newest_rates(self, index: int) -> Tensor:
        """Return the step sizes of `newest_rates` of all lanes, ``[lanes, 2]``."""
        return self._step_sizes.of(np.array([index - 1]))[0]

    def newest_rates(self, lane: int, index: int) -> Tensor:
        """Return the step sizes on θ and t of users that start from the version before round *index*, ``[2]``."""
        return self._step_sizes.of_version(index - 1)[lane]

    def step(self, lane: int, current: Tensor, updates: Updates, time_s: float) -> Tensor:
        """Aggregate *updates* into the next version of *lane*, which `accept_finite` then checks.

        `Updates.received` has to be there if numbers are lost, for any rule.
        """
        if lane in self._diverged:
            return current
        following = self._aggregate(lane, SERVER, current, updates, time_s)
        if self._check is None:
            self._updates[lane] = updates
        return following

    def _aggregate(self, lane: int, node: int, current: Tensor, updates: Updates, time_s: float) -> Tensor:
        """Return the next version of *lane* at a node, whose state follows."""
        rule = self._rules[lane]
        try:
            updates_of_parameters = _select(updates, self._without_buffers, rule.reads_parts)
            before = self._without_buffers(current)
            after, state = rule.step(self._state(node, lane), before, updates_of_parameters)
            self._keep_state(node, lane, state)
            if self.reported_values is not None and rule.reports:
                self.reported_values.add(lane, state, before, updates_of_parameters, after)
            buffers = self._next_buffers(rule, current, updates)
            following = self._with_buffers(after, buffers)
        except ValueError as error:
            raise ModelError(self.name(lane), str(error), time_s=time_s) from error
        return self._with_personal(lane, following)

    def merge_models(self, lane: int, current: Tensor, models: Tensor, weights: Sequence[float]) -> Tensor:
        """Return the mean of *models* of *lane*, ``[models, size + 1]``, by their *weights*; buffers and t, too."""
        if lane in self._diverged:
            return current
        shares = models.new_tensor(weights).double()
        shares = (shares / shares.sum()).to(models)
        return self._with_personal(lane, shares @ models)

    def step_node(self, lane: int, node: int, current: Tensor, updates: Updates, time_s: float) -> Tensor:
        """Aggregate *updates* into the next version of *lane* at another node; one that is not finite is not accepted.

        A GPU finds that out at the server.
        """
        if lane in self._diverged:
            return current
        following = self._aggregate(lane, node, current, updates, time_s)
        if self._check is None and not isfinite(following.sum().item()):
            self._mark_version(lane, updates.round, _first_broken(updates.users, updates.models))
            return current
        return following

    def step_together(self, lanes: Ints, updates: SingleUpdates, following: list[Tensor]) -> NDArray[np.bool_]:
        """Aggregate one update of each of *lanes*, ``[lanes]``, into their next versions in *following*.

        Returns:
            A mask of the lanes that are done, ``[lanes]``; the rules of the others step lane by lane.
        """
        classes = self._classes[lanes]
        has_common_step = classes >= 0
        has_diverged = np.isin(lanes, [*self._diverged])  # these lanes keep their versions
        for number in np.unique(classes[has_common_step]):
            rows = np.flatnonzero((classes == number) & ~has_diverged)
            if len(rows):
                selected = updates if len(rows) == len(lanes) else _select_rows(updates, rows)
                self._step_class(lanes[rows], selected, following)
        return has_common_step

    def _step_class(self, lanes: Ints, updates: SingleUpdates, following: list[Tensor]) -> None:
        """Aggregate one update of each of *lanes*, whose rules are of one class, into *following*."""
        of_rows = lanes.tolist()
        rules = [self._rules[lane] for lane in of_rows]
        states = [self._states[lane] for lane in of_rows]
        current = torch.stack([following[lane] for lane in of_rows])
        versions, next_states = type(rules[0]).step_together(rules, states, current, updates)
        for lane, version, state in zip(of_rows, versions, next_states, strict=True):
            following[lane] = self._with_personal(lane, version)
            self._states[lane] = state
        self._singles.append((lanes, updates))

    def _next_buffers(self, rule: Aggregation, current: Tensor, updates: Updates) -> Tensor:
        """Return the buffers of the next version; those that are lost count as unchanged from the *current* one."""
        before = self._only_buffers(current)
        if self._buffers is None:
            return before
        of_buffers = _select(updates, self._only_buffers, rule.reads_parts)
        if updates.received is not None:
            has_arrived = self._only_buffers(updates.received)
            of_buffers = replace(of_buffers, models=of_buffers.models.where(has_arrived, before))
        return rule.next_buffers(before, of_buffers)

    def check_updates(self, lanes: Ints, cohort: Cohort, users: Tensor, models: Tensor) -> None:
        """Let a GPU check the updates that the server got; see `DeviceCheck.add_updates`."""
        if self._check is not None and cohort.nodes is None:
            self._check.add_updates(lanes, cohort, users, models)

    def idle(self, lane: int, current: Tensor, index: int, node: int = SERVER) -> Tensor:
        """Return the next version of *lane* at a node, which got no delivery in round *index*."""
        if lane in self._diverged:
            return current
        parameters = self._without_buffers(current)
        rates = self.newest_rates(lane, index)
        following, state = self._rules[lane].idle(self._state(node, lane), parameters, index, rates)
        self._keep_state(node, lane, state)
        if following is parameters:  # most rules keep the version
            return current
        buffers = self._only_buffers(current)
        return self._with_personal(lane, self._with_buffers(following, buffers))

    def release_updates(self, following: Sequence[Tensor]) -> None:
        """Free the memory of updates whose versions in *following* are finite."""

        def is_finite(lane: int) -> bool:
            return bool(following[lane].sum().isfinite())

        self._updates = {lane: updates for lane, updates in self._updates.items() if not is_finite(lane)}
        self._singles = [
            (lanes, updates) for lanes, updates in self._singles if not all(map(is_finite, lanes.tolist()))
        ]

    def accept_finite(self, following: Sequence[Tensor], newest: Tensor, index: int) -> Tensor:
        """Stack the versions *following* of round *index*, ``[lanes, size + 1]``.

        A lane whose version is not finite has diverged and keeps its version in *newest*.
        """
        if self._check is not None:
            return self._check.accept_finite(torch.stack([*following]), newest, index)
        trained = [updates.models for updates in self._updates.values()]
        trained += [updates.models for _, updates in self._singles]
        versions = _stack(following, trained)
        for lane, total in enumerate(versions.sum(1).tolist()):
            if not isfinite(total):
                row = upload(np.array([lane]), versions.device)
                versions = versions.index_copy(0, row, newest[lane : lane + 1])  # not in place: memory of updates
                self._mark_version(lane, index, self._broken_user(lane))
        self._updates = {}
        self._singles = []
        return versions

    def _broken_user(self, lane: int) -> int | None:
        """Return the first user of this round whose update of *lane* is not finite; ``None`` if all are."""
        if lane in self._updates:
            updates = self._updates[lane]
            return _first_broken(updates.users, updates.models)
        for lanes, singles in self._singles:
            rows = np.flatnonzero(lanes == lane).tolist()
            if rows:
                row = slice(rows[0], rows[0] + 1)  # a lane has one of these updates
                return _first_broken(singles.users[row], singles.models[row])
        return None

    def find_diverged(self) -> None:
        """Read from a GPU which lanes have diverged since the last call; on a CPU they are known already."""
        if self._check is None:
            return
        for lane, index, user in self._check.diverged():
            self._mark_version(lane, index, None if user < 0 else user)

    def _mark_version(self, lane: int, index: int, user: int | None) -> None:
        """Record that the version of *lane* in round *index* is not finite, because of the update of *user* if any."""
        subject = "version" if user is None else "update"
        self.mark_diverged(lane, index, f"{subject} in round {index}", user)

    def messages(self) -> dict[int, Tensor]:
        """Return the `Aggregation.message` of each lane that sends one."""
        messages = {lane: rule.message(state) for lane, (rule, state) in enumerate(self._pairs())}
        return {lane: message for lane, message in messages.items() if message is not None}

    def messages_of_node(self, node: int, lanes: Sequence[int]) -> dict[int, Tensor]:
        """Return the `Aggregation.message` of each of *lanes* that sends one, at another node than the server."""
        messages = {lane: self._rules[lane].message(self._state(node, lane)) for lane in lanes}
        return {lane: message for lane, message in messages.items() if message is not None}

    @property
    def reports_newest(self) -> bool:
        """True if the newest versions themselves are evaluated, and no mean of them."""
        return all(type(rule).reported is Aggregation.reported for rule in self._rules)

    def reported(self, newest: Tensor) -> Tensor:
        """Return the versions that are evaluated, ``[lanes, size + 1]``."""
        models = [
            rule.reported(state, self._without_buffers(version))
            for (rule, state), version in zip(self._pairs(), newest, strict=True)
        ]
        versions = self._with_buffers(torch.stack(models), self._only_buffers(newest))
        if not self._personal:
            return versions
        return torch.stack([self._with_personal(lane, version) for lane, version in enumerate(versions)])

    def user_weights(self) -> dict[int, Tensor]:
        """Return the `Aggregation.user_weights`, ``[users]``, of each lane that has them."""
        weights = {lane: rule.user_weights(state) for lane, (rule, state) in enumerate(self._pairs())}
        return {lane: values for lane, values in weights.items() if values is not None}

    def mark_diverged(self, lane: int, index: int, subject: str, user: int | None = None) -> None:
        """Record that *lane* diverged in round *index*, because *subject* is not finite."""
        if lane in self._diverged:
            return
        learner, replica = self._lanes[lane]
        divergence = Divergence(learner, replica, index, user, self.divergence_text(lane, subject))
        self._diverged[lane] = divergence
        self._new_divergences.append(divergence)

    def divergence_text(self, lane: int, subject: str) -> str:
        """Return the message that *subject* of *lane* is not finite, which parts from outside netfl may also cause."""
        plugins = [*find_plugins(self._shared), *find_plugins(self.specs[lane])]
        kinds = dict.fromkeys(f"'{kind_of(type(part))}'" for _, part in plugins)  # each once
        cause = ""
        if kinds:
            cause = f", or {' or '.join(kinds)} returned such numbers"
        return f"the {subject} is not finite: training diverged{cause}; {SMALLER_STEP}"

    def new_divergences(self, feedback_lanes: Sequence[int], time_s: float) -> tuple[Divergence, ...]:
        """Return the lanes that diverged since the last call.

        Args:
            feedback_lanes: lanes that must answer an access.
            time_s: the simulated time, in seconds.

        Raises:
            ModelError: all lanes of the run have diverged, or one of *feedback_lanes*.
        """
        new = tuple(self._new_divergences)
        self._new_divergences = []
        needed = [lane for lane in feedback_lanes if lane in self._diverged]
        is_end_of_run = self._is_whole_run and len(self._diverged) == len(self._lanes)
        if new and (needed or is_end_of_run):
            lost = self._diverged[needed[0]] if needed else new[0]
            raise ModelError(f"{lost.learner}, replica {lost.replica}", lost.problem, user=lost.user, time_s=time_s)
        return new

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`, lane by lane."""
        lost = {}
        for lane, divergence in self._diverged.items():
            user = -1 if divergence.user is None else divergence.user
            lost[lane] = [divergence.round, user, divergence.problem]
        state: dict[str, Any] = {"aggregations": [_without_rows(kept) for kept in self._states], "lost": lost}
        if self._node_states:
            state["nodes"] = [[node, lane, _without_rows(kept)] for (node, lane), kept in self._node_states.items()]
        if self.reported_values is not None:
            state["reported"] = self.reported_values.state()
        return state

    def restore(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Restore a `state`, once the store of the devices is restored."""
        pairs = zip(self._states, state["aggregations"], strict=True)
        self._states = [_restored(opened, saved, device) for opened, saved in pairs]
        self._node_states = {}
        for node, lane, saved in state.get("nodes", ()):
            self._node_states[node, lane] = _restored(self._state(node, lane), saved, device)
        self._diverged = {}
        for lane, (index, user, problem) in state["lost"].items():
            learner, replica = self._lanes[int(lane)]
            self._diverged[int(lane)] = Divergence(learner, replica, index, None if user < 0 else user, problem)
        if self.reported_values is not None:
            self.reported_values.restore(state["reported"])
        if self._check is not None:
            self._check.restore({lane: lost.round for lane, lost in self._diverged.items()})

    def _state(self, node: int, lane: int) -> State:
        """Return the state of a lane's aggregation at a node, which is new when the node first needs it."""
        if node == SERVER:
            return self._states[lane]
        if (node, lane) not in self._node_states:
            assert self._origins is not None
            state = self._rules[lane].open(self._users, self._without_buffers(self._origins[lane]))
            self._store.adopt(lane, state, node)
            self._node_states[node, lane] = state
        return self._node_states[node, lane]

    def _keep_state(self, node: int, lane: int, state: State) -> None:
        if node == SERVER:
            self._states[lane] = state
        else:
            self._node_states[node, lane] = state

    def _without_buffers(self, versions: Tensor) -> Tensor:
        """Return parameters and t of *versions*, ``[…, size + 1]``."""
        if self._buffers is None:
            return versions
        return torch.cat([versions[..., : self._buffers.start], versions[..., -1:]], dim=-1)

    def _only_buffers(self, versions: Tensor) -> Tensor:
        """Return the buffers of *versions*, ``[…, size + 1]``."""
        return versions[..., self._buffers or slice(0, 0)]

    def _with_buffers(self, parameters: Tensor, buffers: Tensor) -> Tensor:
        """Insert *buffers* between the parameters and t of ``[…, parameters + 1]``."""
        if self._buffers is None:
            return parameters
        return torch.cat([parameters[..., :-1], buffers, parameters[..., -1:]], dim=-1)

    def _with_personal(self, lane: int, version: Tensor) -> Tensor:
        """Return *version* of a lane, ``[size + 1]``, with the numbers of version 0 where they stay on the devices."""
        if lane not in self._personal:
            return version
        return version.index_copy(0, self._personal[lane], self._personal_values[lane])

    def _pairs(self) -> zip[tuple[Aggregation, State]]:
        return zip(self._rules, self._states, strict=True)


def _without_rows(state: State) -> dict[str, Tensor]:
    """Return the tensors of the *state* of an aggregation, without the rows that the store has."""
    return {name: kept for name, kept in state.items() if not isinstance(kept, UserRows)}


def _restored(opened: State, saved: Mapping[str, Tensor], device: torch.device) -> State:
    """Return the *saved* state of an aggregation, with the rows of its *opened* one.

    In a checkpoint of before the store, rows of all users are a tensor of the state, ``[users, size]``.
    """
    state = {name: kept.to(device) for name, kept in saved.items()}
    for name, rows in opened.items():
        if not isinstance(rows, UserRows):
            continue
        if name in saved:
            users = saved[name].any(1).nonzero()[:, 0]
            rows.restore(users, saved[name][users])
        state[name] = rows
    return state


def _select(updates: Updates, select: Callable[[Tensor], Tensor], reads_parts: bool) -> Updates:
    """Return *updates* of some of their numbers, as `Aggregation.step` and `Aggregation.next_buffers` get them."""
    received = None
    if updates.received is not None and reads_parts:
        received = select(updates.received)
    not_summed = None
    if updates.not_summed is not None:
        not_summed = select(updates.not_summed)
    bases = select(updates.bases)
    models = select(updates.models)
    return replace(updates, bases=bases, models=models, received=received, not_summed=not_summed)


def _first_broken(users: Tensor, models: Tensor) -> int | None:
    """Return the first of *users* whose model is not finite; ``None`` if all are."""
    broken = users[~models.sum(1).isfinite()].tolist()
    return broken[0] if broken else None


def _select_rows(updates: SingleUpdates, rows: Ints) -> SingleUpdates:
    """Return the updates of some lanes, those in *rows*."""
    index = upload(rows, updates.users.device)
    return SingleUpdates(*(getattr(updates, column.name)[index] for column in fields(updates)))


def _stack(following: Sequence[Tensor], trained: Sequence[Tensor]) -> Tensor:
    """Stack versions of all lanes, ``[size + 1]`` each.

    Versions that are relayed lie one after the other in the memory of the *trained* models, and are not copied.  Other
    versions are, because an aggregation may keep and change them.
    """
    first = following[0]
    memories = {tensor.untyped_storage().data_ptr() for tensor in (*trained, *following)}
    begins = [version.data_ptr() for version in following]
    distances = {end - begin for begin, end in pairwise(begins)}
    are_adjacent = distances <= {first.numel() * first.element_size()}
    if trained and len(memories) == 1 and are_adjacent and first.is_contiguous():
        return first.as_strided((len(following), len(first)), (len(first), 1))
    return torch.stack([*following])
