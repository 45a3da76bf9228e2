"""The versions of every lane's model that are in use: the newest, and older ones from which updates may still come."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.tensors import tensor
from netfl.types import Round


class ModelVersions:
    """Versions by number, ``[lanes, parameters + 1]`` each: θ and, last, t.  Messages are kept as long as versions.

    Args:
        origin: version 0.
        messages: the `Aggregation.message` of each lane that sends one with version 0.
    """

    def __init__(self, origin: Tensor, messages: Mapping[int, Tensor]) -> None:
        self.number = 0
        self._versions = {0: origin}
        self._messages = {0: messages}

    @property
    def newest(self) -> Tensor:
        """The newest version, ``[lanes, parameters + 1]``."""
        return self._versions[self.number]

    @property
    def oldest(self) -> int:
        """The number of the oldest version in use."""
        return min(self._versions)

    def add(self, version: Tensor, messages: Mapping[int, Tensor], rounds: Sequence[Round]) -> None:
        """Add the newest *version* and its *messages*; drop versions from which no update starts after *rounds*."""
        needed: set[int] = set().union(*(self._needed_after(round_) for round_ in rounds))
        self.number += 1
        self._versions = {old: kept for old, kept in self._versions.items() if old in needed}
        self._versions[self.number] = version
        self._messages = {old: kept for old, kept in self._messages.items() if old in needed}
        self._messages[self.number] = messages

    def of(self, numbers: NDArray[np.int64], lanes: NDArray[np.int64]) -> Tensor:
        """Return the base of each user and member, ``[users, members, parameters + 1]``.  It may be a view: read only.

        Args:
            numbers: the base version of each user, ``[users]``.
            lanes: of each user and member, ``[users, members]``.
        """
        missing = set(numbers.tolist()) - set(self._versions)
        if missing:
            raise ValueError(f"version {min(missing)} was said to be out of use")
        index = tensor(lanes).to(self.newest.device)
        if (numbers == numbers[0]).all():
            return _select_lanes(self._versions[int(numbers[0])], lanes, index)
        return torch.stack([self._versions[number][row] for number, row in zip(numbers.tolist(), index, strict=True)])

    def messages(self, numbers: NDArray[np.int64], lane: int) -> Tensor | None:
        """Return the messages of *lane* with the versions *numbers*, ``[n, …]``, or ``None``.  Read only."""
        if (numbers == numbers[0]).all():
            message = self._messages[int(numbers[0])].get(lane)
            return None if message is None else message.expand(len(numbers), *message.shape)
        messages = [self._messages[number].get(lane) for number in numbers.tolist()]
        sent = [message for message in messages if message is not None]
        return torch.stack(sent) if sent else None

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`."""
        messages = {number: dict(sent) for number, sent in self._messages.items()}
        return {"kept": dict(self._versions), "messages": messages}

    def restore(self, number: int, state: Mapping[str, Any]) -> None:
        """Restore a `state` with version *number* as the newest."""
        device = self.newest.device
        self.number = number
        self._versions = {int(old): version.to(device) for old, version in state["kept"].items()}
        self._messages = {
            int(old): {int(lane): message.to(device) for lane, message in sent.items()}
            for old, sent in state["messages"].items()
        }

    def _needed_after(self, round_: Round) -> Collection[int]:
        if round_.needed is not None:
            return round_.needed
        return [old for old in self._versions if old >= round_.oldest]


def _select_lanes(version: Tensor, lanes: NDArray[np.int64], index: Tensor) -> Tensor:
    """Return ``version[index]``, where *index* is *lanes* on the device.

    The result is a view if all users are in one replica, or if one learner has a user in each replica.
    """
    every = np.arange(len(version))
    if lanes.shape[1] == 1 and np.array_equal(lanes[:, 0], every):
        return version[:, None]
    if (lanes == lanes[0]).all():
        selected = version if np.array_equal(lanes[0], every) else version[index[0]]
        return selected.expand(len(lanes), -1, -1)
    return version[index]
