"""The versions of every lane's model that are in use: the newest, and those that users may still have started from.

What a server sends beside a version, its message, is kept as long as that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.tensors import tensor
from netfl.types import Round


class Versions:
    """Versions by their number, each stacked over lanes: ``[lanes, parameters + 1]``, θ and, last, t.

    Args:
        origin: version 0.
        messages: what the servers send beside it, by the number of the lane.
    """

    def __init__(self, origin: Tensor, messages: Mapping[int, Tensor]) -> None:
        self.number = 0
        self._kept = {0: origin}
        self._messages = {0: messages}

    @property
    def newest(self) -> Tensor:
        """The newest version, ``[lanes, parameters + 1]``."""
        return self._kept[self.number]

    @property
    def oldest(self) -> int:
        """The number of the oldest version that is kept."""
        return min(self._kept)

    def add(self, version: Tensor, messages: Mapping[int, Tensor], rounds: Sequence[Round]) -> None:
        """Make *version* the newest, with its *messages*; let go of those from which nothing starts after *rounds*."""
        wanted: set[int] = set().union(*(self._after(one) for one in rounds))
        self.number += 1
        self._kept = {old: kept for old, kept in self._kept.items() if old in wanted}
        self._kept[self.number] = version
        self._messages = {old: sent for old, sent in self._messages.items() if old in wanted}
        self._messages[self.number] = messages

    def of(self, numbers: NDArray[np.int64], lanes: NDArray[np.int64]) -> Tensor:
        """What each user started from, ``[users, members, parameters + 1]``; not to be written to.

        Args:
            numbers: the version of each user, ``[users]``.
            lanes: of each user and member, ``[users, members]``.
        """
        missing = set(numbers.tolist()) - set(self._kept)
        if missing:
            raise ValueError(f"version {min(missing)} was said to be out of use")
        where = tensor(lanes).to(self.newest.device)
        if (numbers == numbers[0]).all():
            return _at(self._kept[int(numbers[0])], lanes, where)
        return torch.stack([self._kept[one][own] for one, own in zip(numbers.tolist(), where, strict=True)])

    def messages(self, numbers: NDArray[np.int64], lane: int) -> Tensor | None:
        """What the server of *lane* sent beside the versions *numbers*, ``[n, …]``; ``None`` if it sends nothing.

        Not to be written to.
        """
        if (numbers == numbers[0]).all():
            own = self._messages[int(numbers[0])].get(lane)
            return None if own is None else own.expand(len(numbers), *own.shape)
        sent = [self._messages[number].get(lane) for number in numbers.tolist()]
        there = [one for one in sent if one is not None]
        return torch.stack(there) if there else None

    def state(self) -> dict[str, Any]:
        """All of them, by their numbers, and the messages."""
        return {"kept": dict(self._kept), "messages": {number: dict(sent) for number, sent in self._messages.items()}}

    def restore(self, number: int, state: Mapping[str, Any]) -> None:
        """Go back to a kept state, in which version *number* is the newest."""
        device = self.newest.device
        self.number = number
        self._kept = {int(one): version.to(device) for one, version in state["kept"].items()}
        self._messages = {
            int(one): {int(lane): sent.to(device) for lane, sent in own.items()}
            for one, own in state["messages"].items()
        }

    def _after(self, one: Round) -> Collection[int]:
        """The versions from which a delivery may start after round *one*."""
        return [old for old in self._kept if old >= one.oldest] if one.needed is None else one.needed


def _at(version: Tensor, lanes: NDArray[np.int64], where: Tensor) -> Tensor:
    """``version[where]``, *where* being *lanes* on the device; a view if that can be.

    It can if all users are of one replica, or if one learner has a user in each.
    """
    every = np.arange(len(version))
    if lanes.shape[1] == 1 and np.array_equal(lanes[:, 0], every):
        return version[:, None]
    if (lanes == lanes[0]).all():
        own = version if np.array_equal(lanes[0], every) else version[where[0]]
        return own.expand(len(lanes), -1, -1)
    return version[where]
