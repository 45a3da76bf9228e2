"""Coding of updates and of versions: what the receiver reads of θ, for all lanes at once.

`UpdateCoder` codes the changes of the delivered updates, between local training and the aggregation.  It keeps the
memory of the devices: for each user and lane what the last delivered update did not carry.  `VersionCoder` codes the
versions that the server sends.  The codecs themselves are the family `netfl.learning.codec`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from netfl.learning.device_draws import philox
from netfl.learning.tensors import upload
from netfl.types import Ints

if TYPE_CHECKING:
    from netfl.learning.codec import Codec
    from netfl.learning.cohort import Cohort
    from netfl.streams import Streams

_NUMBERS_AT_ONCE = 1 << 22
"""Numbers of θ that are coded at once, in all lanes together."""
_WORDS = 4
"""Random words of one call of Philox."""
_SIGN, _HALF, _LOW = 1 << 31, 32, 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class CodecDraws:
    """Random numbers of updates: functions of (replica, user, base version, repeat, place), the same in all lanes.

    They are the words of Philox4x32 for the stream ``codec`` of a replica, counted by user, block of four places,
    repeat and base, as those of mini-batches are.

    Args:
        keys: of the streams, ``[updates, 2]``, int64.
        users: ``[updates]``, int64.
        bases: the versions from which the updates started, ``[updates]``, int64.
        repeats: earlier deliveries of the same user from the same base, ``[updates]``, int64.
        dtype: type of the numbers of `uniform`.
    """

    keys: Tensor
    users: Tensor
    bases: Tensor
    repeats: Tensor
    dtype: torch.dtype

    def words(self, count: int) -> Tensor:
        """Return independent whole numbers below 2³², ``[updates, 1, count]``, int64."""
        blocks = torch.arange(-(-count // _WORDS), device=self.users.device)
        columns = self.users[:, None], blocks, self.repeats[:, None], self.bases[:, None]
        words = philox(columns, (self.keys[:, :1], self.keys[:, 1:]))
        return torch.stack(words, dim=2).flatten(1)[:, None, :count]

    def uniform(self, count: int) -> Tensor:
        """Return independent uniform numbers from [0, 1), with 24 random bits, ``[updates, 1, count]``."""
        return (self.words(count) >> 8).to(self.dtype).mul_(2.0**-24)

    def choose(self, places: int, count: int) -> Tensor:
        """Return *count* different numbers below *places* in rising order, all sets equally likely.

        These are the places with the smallest words; among equal words the first.  The result is ``[updates, 1,
        count]``, int64.
        """
        ranked = self.words(places) - _SIGN << _HALF | torch.arange(places, device=self.users.device)
        return (ranked.topk(count, largest=False, sorted=False).values & _LOW).sort().values


class UpdateCoder:
    """Codes the change of θ of delivered updates, with the error feedback of each user in each lane.

    Args:
        codec: of all updates.
        streams: of each replica.
        parameters: length of θ without buffers.
    """

    def __init__(self, codec: Codec, streams: Sequence[Streams], parameters: int) -> None:
        self._codec = codec
        self._parameters = parameters
        self._keys = np.array([stream.field("codec").key for stream in streams], np.int64)
        self._memory: defaultdict[int, dict[int, Tensor]] = defaultdict(dict)  # by lane and user, [parameters] each

    def code(self, bases: Tensor, models: Tensor, cohort: Cohort, lanes: Ints) -> Tensor:
        """Return the models as the server reads them: base and decoded change, with buffers and t of *models*.

        Several updates of one user are coded one after the other, as each uses what the one before has left.

        Args:
            bases: from which the users trained, ``[users, members, size + 1]``.
            models: after training, in the same shape; not changed.
            cohort: the users.
            lanes: of each user and member, ``[users, members]``.
        """
        coded = models.clone()
        members = models.shape[1]
        at_once = max(1, _NUMBERS_AT_ONCE // (members * self._parameters))
        for wave in self._waves(cohort):
            for start in range(0, len(wave), at_once):
                rows = wave[start : start + at_once]
                index: Any = upload(rows, models.device)
                if len(rows) == len(models):
                    index = slice(None)
                coded[index, :, : self._parameters] = self._read(bases[index], models[index], cohort, lanes, rows)
        return coded

    def state(self) -> dict[int, dict[int, Tensor]]:
        """Return the memory of the devices, by lane and user."""
        return {lane: dict(rows) for lane, rows in self._memory.items()}

    def restore(self, state: Mapping[int, Mapping[int, Tensor]], device: torch.device) -> None:
        """Restore a `state`."""
        self._memory.clear()
        for lane, rows in state.items():
            self._memory[int(lane)] = {int(user): row.to(device) for user, row in rows.items()}

    def _waves(self, cohort: Cohort) -> Iterator[Ints]:
        """Yield indices of updates that are coded at once: with a memory, one of each user at most."""
        count = len(cohort.users)
        if not self._codec.has_error_feedback:
            yield np.arange(count)
            return
        earlier = Counter[tuple[int, int]]()
        numbers = np.empty(count, np.int64)
        for row, user in enumerate(zip(cohort.replicas.tolist(), cohort.users.tolist(), strict=True)):
            numbers[row] = earlier[user]
            earlier[user] += 1
        for number in range(numbers.max() + 1):
            yield np.flatnonzero(numbers == number)

    def _read(self, bases: Tensor, models: Tensor, cohort: Cohort, lanes: Ints, rows: Ints) -> Tensor:
        """Return θ as the server reads it of the updates in *rows*, ``[rows, members, parameters]``."""
        of_theta = slice(0, self._parameters)
        base = bases[..., of_theta]
        change = models[..., of_theta] - base
        users = cohort.users[rows].tolist()
        lanes_of = lanes[rows].tolist()
        if self._codec.has_error_feedback:
            self._add_memory(change, users, lanes_of)
        decoded = self._codec.decode(self._codec.encode(change, self._draws(cohort, rows, change)))
        if self._codec.has_error_feedback:
            self._keep(change - decoded, users, lanes_of)
        return base + decoded

    def _draws(self, cohort: Cohort, rows: Ints, like: Tensor) -> CodecDraws:
        repeats = np.zeros_like(cohort.users) if cohort.repeats is None else cohort.repeats
        columns = (self._keys[cohort.replicas[rows]], cohort.users[rows], cohort.bases[rows], repeats[rows])
        return CodecDraws(*(upload(column, like.device) for column in columns), dtype=like.dtype)

    def _add_memory(self, change: Tensor, users: Sequence[int], lanes: Sequence[Sequence[int]]) -> None:
        for row, user in enumerate(users):
            for member, lane in enumerate(lanes[row]):
                left = self._memory[lane].get(user)
                if left is not None:
                    change[row, member] += left

    def _keep(self, left: Tensor, users: Sequence[int], lanes: Sequence[Sequence[int]]) -> None:
        for row, user in enumerate(users):
            for member, lane in enumerate(lanes[row]):
                self._memory[lane][user] = left[row, member].clone()  # a view would keep the whole batch


class VersionCoder:
    """Codes θ of the versions that the server sends, once for all users.

    Args:
        codec: of all broadcasts.
        streams: of each replica.
        parameters: length of θ without buffers.
    """

    def __init__(self, codec: Codec, streams: Sequence[Streams], parameters: int) -> None:
        self._codec = codec
        self._parameters = parameters
        self._keys = np.array([stream.field("codec_down").key for stream in streams], np.int64)

    def code(self, versions: Tensor, number: int) -> Tensor:
        """Return the versions with this *number* as users read them, ``[lanes, size + 1]``; lanes by learner."""
        replicas = len(self._keys)
        theta = versions[:, : self._parameters].unflatten(0, (-1, replicas)).transpose(0, 1)
        zeros = np.zeros(replicas, np.int64)
        columns = (self._keys, zeros, np.full(replicas, number), zeros)
        draws = CodecDraws(*(upload(column, versions.device) for column in columns), dtype=versions.dtype)
        sent = versions.clone()
        read = self._codec.decode(self._codec.encode(theta, draws))
        sent[:, : self._parameters] = read.transpose(0, 1).flatten(0, 1)
        return sent
