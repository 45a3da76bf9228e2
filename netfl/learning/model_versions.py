"""The versions of the server's model that are in use: the newest, and older ones from which updates may still come."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netfl.learning.tensors import upload
from netfl.types import Ints, Round

if TYPE_CHECKING:
    from netfl.learning.update_coding import VersionCoder


class ModelVersions:
    """Versions by number, ``[lanes, size + 1]`` each: θ with its buffers and, last, t.

    Messages are kept as long as versions.  With a codec of broadcasts, the versions that are kept are those that users
    read, from which they train; the server itself knows its newest version as it has made it.

    Args:
        origin: version 0.
        messages: the `Aggregation.message` of each lane that sends one with version 0.
        coder: codes the versions that are sent; ``None`` if they travel whole.

    Attributes:
        number: number of the newest version.
        changed_in: number of the first version that is the same as the newest, as far as is known: no lane has changed
            since.
    """

    def __init__(self, origin: Tensor, messages: Mapping[int, Tensor], coder: VersionCoder | None = None) -> None:
        self.number = 0
        self.changed_in = 0
        self._coder = coder
        self._newest = origin
        self._versions = {0: self._sent(origin)}
        self._messages = {0: messages}

    @property
    def newest(self) -> Tensor:
        """The newest version, as the server has made it, ``[lanes, size + 1]``."""
        return self._newest

    @property
    def newest_sent(self) -> Tensor:
        """The newest version, as users read it, ``[lanes, size + 1]``."""
        return self._versions[self.number]

    @property
    def in_use(self) -> Collection[int]:
        """The numbers of the versions in use."""
        return self._versions.keys()

    def add(
        self,
        version: Tensor,
        messages: Mapping[int, Tensor],
        rounds: Sequence[Round | None],
        also_needed: Collection[int] = (),
    ) -> None:
        """Add the newest *version* and its *messages*; drop versions from which no update starts after *rounds*.

        Those that are *also_needed* stay.
        """
        needed = {*also_needed}
        for round_ in rounds:
            if round_ is None:  # no update follows in a replica that has ended
                continue
            if round_.needed is None:
                needed.update(number for number in self._versions if number >= round_.oldest)
            else:
                needed.update(round_.needed)
        for number in self._versions.keys() - needed:
            del self._versions[number]
            del self._messages[number]

        self.number += 1
        if version is not self._newest:
            self.changed_in = self.number
        self._newest = version
        self._versions[self.number] = self._sent(version)
        self._messages[self.number] = messages

    def of(self, numbers: Ints, lanes: Ints) -> Tensor:
        """Return the base of each user and member, ``[users, members, size + 1]``.  It may be a view: read only.

        Args:
            numbers: the base version of each user, ``[users, members]``, or ``[users, 1]`` if it is that of all lanes.
            lanes: of each user and member, ``[users, members]``.
        """
        distinct = set(numbers.ravel().tolist())
        missing = distinct - self._versions.keys()
        if missing:
            raise ValueError(f"version {min(missing)} was released as unused")
        if len(distinct) == 1:
            return _select_lanes(self._versions[distinct.pop()], lanes)
        if numbers.shape[1] == 1:
            lanes_of_users = upload(lanes, self.newest.device)
            pairs = zip(numbers[:, 0].tolist(), lanes_of_users, strict=True)
            return torch.stack([self._versions[number][of_user] for number, of_user in pairs])
        pairs = zip(numbers.ravel().tolist(), lanes.ravel().tolist(), strict=True)
        return torch.stack([self._versions[number][lane] for number, lane in pairs]).view(*lanes.shape, -1)

    def messages(self, numbers: Ints, lane: int) -> Tensor | None:
        """Return the messages of *lane* with the versions *numbers*, ``[n, …]``, or ``None``.  Read only."""
        distinct = set(numbers.tolist())
        if len(distinct) == 1:
            message = self._messages[distinct.pop()].get(lane)
            return None if message is None else message.expand(len(numbers), *message.shape)
        messages = [self._messages[number].get(lane) for number in numbers.tolist()]
        sent = [message for message in messages if message is not None]
        return torch.stack(sent) if sent else None

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`."""
        messages = {number: dict(sent) for number, sent in self._messages.items()}
        state = {"kept": dict(self._versions), "messages": messages}
        if self._coder is not None:
            state["newest"] = self._newest
        return state

    def restore(self, number: int, state: Mapping[str, Any]) -> None:
        """Restore a `state` with version *number* as the newest."""
        device = self.newest.device
        self.number = number
        self.changed_in = number
        self._versions = {int(old): version.to(device) for old, version in state["kept"].items()}
        self._newest = self._versions[number]
        if self._coder is not None:
            self._newest = state["newest"].to(device)
        self._messages = {}
        for old, sent in state["messages"].items():
            self._messages[int(old)] = {int(lane): message.to(device) for lane, message in sent.items()}

    def _sent(self, version: Tensor) -> Tensor:
        """Return a newest *version* as users read it."""
        if self._coder is None:
            return version
        return self._coder.code(version, self.number)


def _select_lanes(version: Tensor, lanes: Ints) -> Tensor:
    """Return ``version[lanes]``.

    The result is a view if all users are in one replica, or if one learner has a user in each replica.
    """
    all_lanes = [*range(len(version))]
    if lanes.shape[1] == 1 and lanes[:, 0].tolist() == all_lanes:
        return version[:, None]
    if len(lanes) == 1 or (lanes == lanes[0]).all():  # all users are in the same lanes
        selected = version
        if lanes[0].tolist() != all_lanes:
            selected = version[upload(lanes[0], version.device)]
        return selected.expand(len(lanes), -1, -1)
    rows = version.index_select(0, upload(lanes.ravel(), version.device))  # faster than an index of two dimensions
    return rows.view(*lanes.shape, -1)
