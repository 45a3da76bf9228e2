"""Divergence on a GPU: versions are checked there, and the host reads later which lanes have diverged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from netfl.learning.tensors import upload
from netfl.types import Ints

if TYPE_CHECKING:
    from netfl.learning.cohort import Cohort


class DeviceCheck:
    """Detects on a GPU which lanes have diverged, without a read by the host in each round.

    Args:
        lanes: number of lanes.
        device: of the versions.
    """

    def __init__(self, lanes: int, device: torch.device) -> None:
        self._none = torch.full((), -1, device=device)
        self._rounds = self._none.repeat(lanes)  # in which each lane has diverged, and -1 before
        self._users = self._none.repeat(lanes)  # whose model was then not finite, or -1
        self._broken = self._none.repeat(lanes)  # the same for the updates of this round
        self._reported: set[int] = set()  # lanes

    def add_updates(self, lanes: Ints, cohort: Cohort, users: Tensor, models: Tensor) -> None:
        """Remember for each lane the first of the users whose model is not finite.

        Args:
            lanes: of each user and member, ``[users, members]``.
            cohort: the users.
            users: the users of *cohort* on the device, ``[users]``.
            models: the updates, ``[users, members, size + 1]``.
        """
        device = users.device
        count = len(users)  # stands for no user
        is_broken = ~models.sum(2).isfinite()
        broken = torch.arange(count, device=device)[:, None].where(is_broken, count)  # [users, members]
        # the smallest of each part, a replica, [parts, members]
        parts = cohort.parts
        part_of_user = upload(np.repeat(np.arange(len(parts)), [part.stop - part.start for part in parts]), device)
        first = broken.new_full((len(parts), lanes.shape[1]), count)
        first.scatter_reduce_(0, part_of_user[:, None].expand_as(broken), broken, "amin")
        lanes_of_parts = upload(lanes[[part.start for part in parts]], device)
        self._broken[lanes_of_parts] = torch.cat([users, self._none[None]])[first]

    def accept_finite(self, versions: Tensor, newest: Tensor, index: int) -> Tensor:
        """Return *versions* of round *index*; lanes that have diverged, now or earlier, keep those in *newest*."""
        is_new = ~versions.sum(1).isfinite() & (self._rounds < 0)
        self._rounds = self._rounds.masked_fill(is_new, index)
        self._users = self._broken.where(is_new, self._users)
        self._broken = torch.full_like(self._broken, -1)
        is_finite = self._rounds < 0
        return versions.where(is_finite[:, None], newest)

    def diverged(self) -> Iterator[tuple[int, int, int]]:
        """Yield lane, round and user, or -1, of the lanes that have diverged since the last call."""
        rounds, users = torch.stack([self._rounds, self._users]).tolist()
        for lane, (index, user) in enumerate(zip(rounds, users, strict=True)):
            if index >= 0 and lane not in self._reported:
                self._reported.add(lane)
                yield lane, index, user

    def restore(self, rounds: Mapping[int, int]) -> None:
        """Restore the lanes that have diverged, with the *rounds* in which they did."""
        self._reported = set(rounds)
        values = np.full(len(self._broken), -1)
        values[[*rounds]] = [*rounds.values()]
        self._rounds = upload(values, self._rounds.device)
