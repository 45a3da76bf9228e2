"""The rules of devices of all lanes: what devices start from, what they send, and what they keep.

The rules themselves are the family `netfl.learning.device`.  What they keep lies in the store of the devices
(`netfl.learning.device_store`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from netfl.errors import Fault, ScenarioError
from netfl.learning.device import DeviceRule
from netfl.learning.device_store import DeviceStore, UserRows
from netfl.learning.tensors import upload

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture
    from netfl.learning.cohort import Cohort
    from netfl.learning.spec import LearnerSpec
    from netfl.types import Ints

_OF_RULE = "device."
"""Prefix of the names of rows that a rule itself keeps."""
PERSONAL_LAYERS = "kept.layers"
OWN_MODEL = "kept.model"
MOMENTUM = "kept.momentum"
TRAINED = "kept.trained"
"""Names of rows that devices keep for a rule or a base: personal layers, a second model, a buffer, the last model."""


@dataclass(frozen=True, slots=True)
class _LaneDevices:
    """The devices of one lane in one part of a cohort.

    Args:
        lane: the lane.
        rows: of the cohort.
        member: the column of the lane.
        users: of the rows, on the host.
    """

    lane: int
    rows: slice
    member: int
    users: Sequence[int]


def personal_mask(rule: DeviceRule, architecture: Architecture) -> Tensor:
    """Return which numbers of a model stay on the device, ``[size + 1]``; t is always sent."""
    layout = architecture.layout
    names = {*rule.personal(layout)}
    parts = [torch.full((prod(shape),), name in names) for name, shape in layout.items()]
    return torch.cat([*parts, torch.zeros(1, dtype=torch.bool)])


class DeviceRules:
    """The rules and bases of the lanes whose devices keep something.

    A device that has kept nothing, in a lane, starts from what it has received, or from version 0 where it starts from
    models of its own.  Several updates of one user in a round start with what it has kept before the round, and are
    kept one after the other.

    Args:
        learners: of each lane, with its name.
        store: of what devices keep.
        architecture: of the models.
        origins: version 0 of each lane, ``[lanes, size + 1]``.
    """

    def __init__(
        self,
        learners: Sequence[tuple[str, LearnerSpec]],
        store: DeviceStore,
        architecture: Architecture,
        origins: Tensor,
    ) -> None:
        self._names = [name for name, _ in learners]
        self._rules = {lane: spec.device for lane, (_, spec) in enumerate(learners) if spec.device is not None}
        self._start_from_own = frozenset(lane for lane, (_, spec) in enumerate(learners) if spec.base == "own")
        self._store = store
        self._origins = origins
        self._changes_start = self._lanes_of(lambda rule: rule.changes_start)
        self._keeps_momentum = self._lanes_of(lambda rule: rule.keeps_momentum)
        self._personal: dict[int, Tensor] = {}
        for lane in self._lanes_of(lambda rule: rule.has_personal_layers):
            mask = personal_mask(self._rules[lane], architecture)
            self._personal[lane] = mask.nonzero()[:, 0].to(origins.device)

    @property
    def personal(self) -> Mapping[int, Tensor]:
        """Indices of the numbers of a model that stay on the devices, by lane; only of lanes that have some."""
        return self._personal

    def bases(self, bases: Tensor, cohort: Cohort, lanes: Ints) -> Tensor:
        """Return the models from which the server reads changes: *bases*, or the devices' own last models.

        Args:
            bases: versions that the users have received, ``[users, members, size + 1]``; not changed.
            cohort: the users.
            lanes: of each user and member, ``[users, members]``.
        """
        if not self._start_from_own:
            return bases
        models = bases.clone()
        for each in _devices(cohort, lanes, self._start_from_own):
            origins = self._origins[each.lane].expand(len(each.users), -1)
            models[each.rows, each.member] = self._read(TRAINED, each, origins)
        return models

    def starts(self, bases: Tensor, cohort: Cohort, lanes: Ints) -> Tensor:
        """Return the models from which the users train, in the shape of *bases*; *bases* itself without a rule.

        The arguments are those of `bases`, whose result *bases* are.
        """
        if not self._changes_start:
            return bases
        starts = bases.clone()
        for each in _devices(cohort, lanes, self._changes_start):
            starts[each.rows, each.member] = self._start(each, bases[each.rows, each.member])
        return starts

    def momentum(self, bases: Tensor, cohort: Cohort, lanes: Ints) -> Tensor | None:
        """Return the momentum with which the users begin, in the shape of *bases*; ``None`` if no device keeps it."""
        devices = [*_devices(cohort, lanes, self._keeps_momentum)]
        if not devices:
            return None
        momentum = torch.zeros_like(bases)
        for each in devices:
            momentum[each.rows, each.member] = self._read(MOMENTUM, each, momentum[each.rows, each.member])
        return momentum

    def own_starts(self, cohort: Cohort, lanes: Ints) -> Tensor:
        """Return the models from which the users train a second time, ``[users, members, size + 1]``.

        All *lanes* have a rule that asks for it.
        """
        starts = self._origins[upload(lanes, self._origins.device)]
        for each in _devices(cohort, lanes, self._rules):
            starts[each.rows, each.member] = self._read(OWN_MODEL, each, starts[each.rows, each.member])
        return starts

    def sent(self, bases: Tensor, models: Tensor, cohort: Cohort, lanes: Ints) -> Tensor:
        """Return *models* as they are sent, ``[users, members, size + 1]``: personal layers are those of *bases*."""
        if not self._personal:
            return models
        sent = models.clone()
        for each in _devices(cohort, lanes, self._personal):
            stays = self._personal[each.lane]
            sent[each.rows, each.member, stays] = bases[each.rows, each.member, stays]
        return sent

    def keep(self, starts: Tensor, models: Tensor, momentum: Tensor | None, cohort: Cohort, lanes: Ints) -> None:
        """Keep of delivered updates what rules and bases ask for.

        Args:
            starts: from which the users have trained, as of `starts`.
            models: after training, in the same shape.
            momentum: at its end, in the same shape, if `momentum` is not ``None``.
            cohort: the users.
            lanes: of each user and member, ``[users, members]``.
        """
        for each in _devices(cohort, lanes, self._start_from_own | self._rules.keys()):
            rule = self._rules.get(each.lane)
            trained = models[each.rows, each.member]
            if each.lane in self._start_from_own:
                self._write(TRAINED, each, trained)
            if each.lane in self._personal:
                self._write(PERSONAL_LAYERS, each, trained[:, self._personal[each.lane]])
            if rule is None:
                continue
            if rule.keeps_momentum and momentum is not None:
                self._write(MOMENTUM, each, momentum[each.rows, each.member])
            self._keep_by_rule(rule, each, starts[each.rows, each.member], trained)

    def keep_own(self, models: Tensor, cohort: Cohort, lanes: Ints) -> None:
        """Keep *models* of second trainings, ``[users, members, size + 1]``."""
        for each in _devices(cohort, lanes, self._rules):
            self._write(OWN_MODEL, each, models[each.rows, each.member])

    def own_models(self, version: Tensor, lane: int) -> Tensor:
        """Return the model of each user's own in *lane*, ``[users, size + 1]``; *version* for users without one.

        That is its second model where it trains one, its last model where it starts from that, and otherwise the model
        from which it would train if it received *version*, ``[size + 1]``.
        """
        devices = _LaneDevices(lane, slice(None), 0, range(self._store.users))
        models = version.expand(self._store.users, -1)
        if lane in self._start_from_own:
            models = self._read(TRAINED, devices, models)
        rule = self._rules.get(lane)
        if rule is None:
            return models
        if rule.own_pull is not None:
            return self._read(OWN_MODEL, devices, models)
        return self._start(devices, models)

    def has_own_models(self, lane: int) -> bool:
        """Return whether the `own_models` of *lane* may differ from the version: before a delivery, most do not."""
        rule = self._rules.get(lane)
        names = set()
        if lane in self._start_from_own:
            names.add(TRAINED)
        if rule is not None and rule.own_pull is not None:
            names.add(OWN_MODEL)
        elif rule is not None:
            if rule.moves_start:  # also from a version of which a device has kept nothing
                return True
            if rule.has_personal_layers:
                names.add(PERSONAL_LAYERS)
        kept = self._store.named("", lane)
        return any(name in kept and kept[name].places.end > 1 for name in names)

    def check_restored(self, deliveries: Ints) -> None:
        """Check that all users with *deliveries* so far, ``[replicas, users]``, have what devices keep.

        Raises:
            ScenarioError: a saved state lacks it.
        """
        for lane, names in self._expected.items():
            delivered_users = np.flatnonzero(deliveries[lane % len(deliveries)]).tolist()
            kept_rows = self._store.named("", lane)
            for name in names:
                missing = delivered_users
                if name in kept_rows:
                    places = kept_rows[name].places
                    missing = [user for user in delivered_users if not places.of_user(user)]
                if missing:
                    key = "base" if name == TRAINED else "device"
                    problem = f"the saved state lacks what the device of user {missing[0]} has kept"
                    fault = Fault(
                        f"learners.{self._names[lane]}.{key}", problem, None, "run the scenario from its start"
                    )
                    raise ScenarioError([fault])

    @property
    def _expected(self) -> dict[int, list[str]]:
        """Names of the rows that each delivered user has, by lane; those that a rule keeps itself may come later."""
        expected: dict[int, list[str]] = {lane: [TRAINED] for lane in self._start_from_own}
        for lane, rule in self._rules.items():
            names = expected.setdefault(lane, [])
            if rule.has_personal_layers:
                names.append(PERSONAL_LAYERS)
            if rule.own_pull is not None:
                names.append(OWN_MODEL)
            if rule.keeps_momentum:
                names.append(MOMENTUM)
        return expected

    def _lanes_of(self, has: Callable[[DeviceRule], bool]) -> frozenset[int]:
        """Return the lanes whose rule *has* a property."""
        return frozenset(lane for lane, rule in self._rules.items() if has(rule))

    def _start(self, devices: _LaneDevices, bases: Tensor) -> Tensor:
        """Return the models from which the devices of a lane train, given their *bases*, ``[users, size + 1]``."""
        rule = self._rules[devices.lane]
        starts = bases
        if rule.moves_start:
            models = []
            for user, base in zip(devices.users, bases, strict=True):
                models.append(rule.start(base, self._kept(devices.lane, user)))
            starts = torch.stack(models)
        if devices.lane in self._personal:
            stays = self._personal[devices.lane]
            starts = starts.clone()
            starts[:, stays] = self._read(PERSONAL_LAYERS, devices, starts[:, stays])
        return starts

    def _keep_by_rule(self, rule: DeviceRule, devices: _LaneDevices, starts: Tensor, trained: Tensor) -> None:
        """Keep what the rule itself wants of models after training, ``[users, size + 1]``."""
        if type(rule).keep is DeviceRule.keep:  # devices are not asked one by one
            return
        for user, start, model in zip(devices.users, starts, trained, strict=True):
            kept = self._kept(devices.lane, user)
            for name, values in rule.keep(start, model, kept).items():
                self._write(_OF_RULE + name, replace(devices, users=[user]), values[None])

    def _kept(self, lane: int, user: int) -> dict[str, Tensor]:
        """Return what the rule of *lane* has kept of *user*."""
        named = self._store.named(_OF_RULE, lane)
        places = {name: rows.places.of_user(user) for name, rows in named.items()}
        return {name: rows.table[places[name]] for name, rows in named.items() if places[name]}

    def _read(self, name: str, devices: _LaneDevices, otherwise: Tensor) -> Tensor:
        """Return the rows of devices in the shape of *otherwise*, ``[users, size]``, which is for those without one."""
        rows = self._store.rows(name, devices.lane, otherwise)
        places = upload(_places(rows, devices.users), otherwise.device)
        return rows.table[places].where(places[:, None] > 0, otherwise)

    def _write(self, name: str, devices: _LaneDevices, values: Tensor) -> None:
        """Set the rows of devices, ``[users, size]``; the last of several of one user stays."""
        rows = self._store.rows(name, devices.lane, values)
        last_rows = {user: row for row, user in enumerate(devices.users)}
        places = np.array([rows.places.add(user) for user in last_rows])
        last_values = values[upload(np.array([*last_rows.values()]), values.device)]
        rows.table[upload(places, values.device)] = last_values


def _devices(cohort: Cohort, lanes: Ints, wanted: Collection[int]) -> Iterator[_LaneDevices]:
    """Yield the devices of a cohort in the lanes that are *wanted*, lane by lane.

    *lanes* are of each user and member, ``[users, members]``.
    """
    if not wanted:
        return
    for part in cohort.parts:
        users = cohort.users[part].tolist()
        for member, lane in enumerate(lanes[part.start].tolist()):
            if lane in wanted:
                yield _LaneDevices(lane, part, member, users)


def _places(rows: UserRows, users: Sequence[int]) -> Ints:
    return np.array([rows.places.of_user(user) for user in users], np.int64)
