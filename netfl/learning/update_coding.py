"""Coding of updates and of versions: what the receiver reads of θ, for all lanes at once.

`UpdateCoder` codes the changes of the delivered updates, between local training and the aggregation.  For each user and
lane, it keeps in the store of the devices what the last delivered update did not carry.  `VersionCoder` codes the
versions that the server sends.  The codecs themselves are the family `netfl.learning.codec`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from netfl.learning.codec import NUMBER_BITS
from netfl.learning.codec_draws import CodecDraws
from netfl.learning.device_store import CODEC_ERRORS, DeviceStore, UserRows
from netfl.learning.stream_keys import StreamKeys
from netfl.learning.tensors import runs_on_gpu, upload
from netfl.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from netfl.learning.codec import Codec, Encoded
    from netfl.learning.cohort import Cohort
    from netfl.streams import Streams

_NUMBERS_AT_ONCE = 1 << 18
"""Numbers of θ that are coded at once, in all lanes together: they fit into the cache of a processor."""
_GPU_NUMBERS_AT_ONCE = 1 << 24
"""Numbers of θ that are coded at once on a GPU."""
_ROUNDING = 1e-6
"""Share of a part by which an entry may reach into the next one and still lie in this one."""

Received = Sequence[tuple[bool, ...] | None]
"""``Delivery.received`` of several updates."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Updates of a cohort that are coded together.

    Args:
        index: their rows in the tensors of the cohort.
        bases: from which the users trained, ``[rows, members, size + 1]``.
        models: after training, in the same shape.
        users: ``[rows]``.
        lanes: of each user and member, ``[rows, members]``.
        draws: random numbers of the updates.
        received: ``Delivery.received`` of each; ``None`` if all are whole.
    """

    index: slice | Tensor
    bases: Tensor
    models: Tensor
    users: Ints
    lanes: Ints
    draws: CodecDraws
    received: Received | None


class CodedUpdates(NamedTuple):
    """Updates as the server reads them.

    Args:
        models: base and decoded change, with buffers and t, ``[users, members, size + 1]``.
        received: whether the server knows each number, ``[users, members or 1, size + 1]``; ``None`` if it knows all.
    """

    models: Tensor
    received: Tensor | None


class UpdateCoder:
    """Codes the change of θ of delivered updates, with the error feedback of each user in each lane.

    Args:
        codec: of all updates.
        streams: of each replica.
        parameters: length of θ without buffers.
        store: keeps the errors of the devices.
        whole_numbers: how many numbers an update holds after θ: its buffers, and t if it is sent.
    """

    def __init__(
        self,
        codec: Codec,
        streams: Sequence[Streams],
        parameters: int,
        store: DeviceStore,
        whole_numbers: int = 0,
    ) -> None:
        self._codec = codec
        self._parameters = parameters
        self._whole_numbers = whole_numbers
        self._theta_bits = codec.bits(parameters)
        self._bits = self._theta_bits + NUMBER_BITS * whole_numbers  # of an update
        self._keys = StreamKeys(streams, "codec")
        self._store = store

    def code(self, bases: Tensor, models: Tensor, cohort: Cohort, lanes: Ints) -> CodedUpdates:
        """Return the models as the server reads them.

        Of a codec that sends only some parameters, the server knows those that were not sent to be unchanged, except
        where they may be in a lost part: next to a lost entry, up to the neighbours that arrived, unless it knows the
        places.  Several updates of one user are coded one after the other, as each uses what the one before has left.

        Args:
            bases: from which the users trained, ``[users, members, size + 1]``.
            models: after training, in the same shape; not changed.
            cohort: the users.
            lanes: of each user and member, ``[users, members]``.
        """
        if cohort.received is None and self._codec.is_whole:
            return CodedUpdates(models, None)
        members = models.shape[1]
        coded = torch.empty_like(models)
        coded[..., self._parameters :] = self._read_rest(bases, models, cohort)
        known: Tensor | None = None
        if cohort.received is not None:
            known_members = members if self._codec.is_sparse else 1  # only places differ between the members
            known = models.new_empty(len(models), known_members, self._parameters, dtype=torch.bool)

        # batches of updates, and of members if one update in all of them is too large
        changes_at_once = self._changes_at_once(models.device)
        updates_at_once = max(1, changes_at_once // members)
        for wave in self._waves(cohort):
            for start in range(0, len(wave), updates_at_once):
                rows = wave[start : start + updates_at_once]
                batch = self._batch(rows, bases, models, cohort, lanes)
                self._code_theta(batch, coded, known, max(1, changes_at_once // len(rows)))

        if cohort.received is None or known is None:
            return CodedUpdates(coded, None)
        received_rest = self._received_rest(cohort.received, models)[:, None].expand(-1, known.shape[1], -1)
        return CodedUpdates(coded, torch.cat([known, received_rest], dim=-1))

    def _changes_at_once(self, device: torch.device) -> int:
        """Return how many changes of θ, each of one update in one lane, are coded at once."""
        numbers = _NUMBERS_AT_ONCE
        if runs_on_gpu(device):
            numbers = _GPU_NUMBERS_AT_ONCE
        return max(1, numbers // self._parameters)

    def _waves(self, cohort: Cohort) -> Iterator[Ints]:
        """Yield rows of updates that may be coded together: with an error feedback, one of each user at most."""
        count = len(cohort.users)
        if not self._codec.has_error_feedback:
            yield np.arange(count)
            return
        earlier_updates = Counter[tuple[int, int]]()
        wave_of = np.empty(count, np.int64)
        for row, user in enumerate(zip(cohort.replicas.tolist(), cohort.users.tolist(), strict=True)):
            wave_of[row] = earlier_updates[user]
            earlier_updates[user] += 1
        for wave in range(wave_of.max() + 1):
            yield np.flatnonzero(wave_of == wave)

    def _batch(self, rows: Ints, bases: Tensor, models: Tensor, cohort: Cohort, lanes: Ints) -> _Batch:
        """Return these *rows* of a cohort; the other arguments are those of `code`."""
        index: slice | Tensor = slice(None)  # all rows, without a copy
        if len(rows) < len(models):
            index = upload(rows, models.device)
        users = cohort.users[rows]
        repeats = np.zeros_like(users)
        if cohort.repeats is not None:
            repeats = cohort.repeats[rows]
        nodes = None if cohort.nodes is None else cohort.nodes[rows]
        keys = self._keys.of(cohort.replicas[rows], nodes)
        draws = CodecDraws(keys, users, cohort.bases[rows], repeats, models)
        received = None
        if cohort.received is not None:
            received = [cohort.received[row] for row in rows.tolist()]
        return _Batch(index, bases[index], models[index], users, lanes[rows], draws, received)

    def _code_theta(self, batch: _Batch, coded: Tensor, known: Tensor | None, members_at_once: int) -> None:
        """Write θ of a batch into *coded*, as the server reads it, and into *known* whether it knows each number."""
        of_theta = slice(0, self._parameters)
        for start in range(0, coded.shape[1], members_at_once):
            members = slice(start, start + members_at_once)
            base = batch.bases[:, members, of_theta]
            change = batch.models[:, members, of_theta] - base  # [rows, members, parameters]

            # the user sends C(v + e): its change v, and the errors e of its last delivered update
            if self._codec.has_error_feedback:
                errors = self._errors(batch.users, batch.lanes[:, members], change)
                for of_update, error in zip(change.flatten(0, 1), errors, strict=True):
                    of_update.add_(error)
            encoded = self._codec.encode(change, batch.draws)

            # the server reads what arrived
            received: Tensor | None = None
            if batch.received is not None:
                received = self._received_theta(batch.received, encoded.values.shape[-1], change.device)[:, None]
            decoded = self._codec.decode(encoded, received)
            if known is not None and received is not None:
                known[batch.index, members] = self._known(encoded, received)
            if self._codec.has_error_feedback:
                lost = change - decoded  # e = v + e - C(v + e)
                for error, of_update in zip(errors, lost.flatten(0, 1), strict=True):
                    error.copy_(of_update)
            coded[batch.index, members, of_theta] = decoded + base

    def _known(self, encoded: Encoded, received: Tensor) -> Tensor:
        """Return whether the server knows each parameter, ``[updates, lanes or 1, parameters]``.

        *received* is whether each entry arrived, ``[updates, 1, entries]``.
        """
        positions = encoded.positions
        if positions is None:
            return received
        arrived = received.expand_as(positions)
        known = arrived.new_ones(*positions.shape[:-1], encoded.parameters)
        if not self._codec.knows_positions:
            # a parameter lies in the gap after as many entries as come before it; a gap is known between known entries
            at_edges = pad(arrived, (1, 1), value=True)
            known_gaps = at_edges[..., :-1] & at_edges[..., 1:]
            parameters = torch.arange(encoded.parameters, device=positions.device).expand_as(known)
            gaps = torch.searchsorted(positions.contiguous(), parameters.contiguous())
            known = known_gaps.gather(-1, gaps)
        return known.scatter(-1, positions, arrived)

    def _received_theta(self, received: Received, entries: int, device: torch.device) -> Tensor:
        """Return whether each entry of θ arrived, ``[updates, entries]``; θ is at the front of an update."""
        edges = np.linspace(0.0, self._theta_bits, entries + 1) / self._bits
        return upload(_arrived(received, edges), device)

    def _received_rest(self, received: Received, like: Tensor) -> Tensor:
        """Return whether each number after θ arrived, ``[updates, size + 1 - parameters]``.

        A t that is not sent is constant, and counts as received.
        """
        edges = np.linspace(self._theta_bits, self._bits, self._whole_numbers + 1) / self._bits
        arrived = _arrived(received, edges)
        not_sent = like.shape[-1] - self._parameters - self._whole_numbers
        arrived = np.pad(arrived, ((0, 0), (0, not_sent)), constant_values=True)
        return upload(arrived, like.device)

    def _read_rest(self, bases: Tensor, models: Tensor, cohort: Cohort) -> Tensor:
        """Return buffers and t as the server reads them: those of the base where they are lost."""
        rest = slice(self._parameters, None)
        if cohort.received is None:
            return models[..., rest]
        received = self._received_rest(cohort.received, models)[:, None]
        return models[..., rest].where(received, bases[..., rest])

    def _errors(self, users: Ints, lanes: Ints, like: Tensor) -> list[Tensor]:
        """Return what the last delivered update of each user and lane did not carry: views of rows in the store."""
        pairs: list[tuple[UserRows, int]] = []
        for user, of_user in zip(users.tolist(), lanes.tolist(), strict=True):
            for lane in of_user:
                rows = self._store.rows(CODEC_ERRORS, lane, like)
                pairs.append((rows, rows.places.add(user)))
        return [rows.table[place] for rows, place in pairs]  # after all are added, as a table may grow


def _arrived(received: Received, edges: Floats) -> Bools:
    """Return whether each entry arrived, ``[updates, entries]``: all parts in which it has bits did.

    Args:
        received: whether each part of an update arrived; parts have equal sizes.
        edges: where the entries begin and end, in shares of the update, ``[entries + 1]``.
    """
    arrived = np.ones((len(received), len(edges) - 1), np.bool_)
    for row, parts in zip(arrived, received, strict=True):
        if parts is None:
            continue
        first = np.floor(edges[:-1] * len(parts) + _ROUNDING).astype(np.int64)
        end = np.ceil(edges[1:] * len(parts) - _ROUNDING).astype(np.int64)  # one after the last part
        lost_before = np.concatenate([[0], np.cumsum(~np.array(parts))])
        row[:] = lost_before[end] == lost_before[first]
    return arrived


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
        theta = versions[:, : self._parameters].reshape(-1, replicas, self._parameters).transpose(0, 1)
        zeros = np.zeros(replicas, np.int64)
        draws = CodecDraws(self._keys, zeros, np.full(replicas, number), zeros, versions)
        sent = versions.clone()
        read = self._codec.decode(self._codec.encode(theta, draws))
        sent[:, : self._parameters] = read.transpose(0, 1).flatten(0, 1)
        return sent
