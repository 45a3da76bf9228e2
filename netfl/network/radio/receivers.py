"""Several receivers of one frame: the towers that hear the users of a cell, of which one passes a copy on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from netfl.network.layout import NodeId
from netfl.network.message import Message
from netfl.network.radio.connection import mark_unpaid
from netfl.network.radio.medium import Hearer, Medium, ReceptionResult
from netfl.network.radio.transmission import Transmission
from netfl.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class FirstCopies:
    """The copies of the frames of a transmission that go on to the server.

    Args:
        causes: cause of failure of each frame; an empty string if a tower has received it.
        snr_db: SNR of each frame at the tower that passes it on, or at the cell's own if none does, ``[n]``.
        places: place of this tower among the receivers, of each frame; empty if only the cell's own tower hears them.
    """

    causes: Sequence[str]
    snr_db: Floats
    places: Sequence[int] = ()


class Receivers:
    """The towers that hear the frames of a cell, each of which judges by its own gain and interference.

    A frame that several of them have received goes on from the one with the smallest delay to the server, of equals the
    first; the server would drop the other copies, which are counted.

    Args:
        towers: the cell's own tower, then the others in the order of the network.
        medium: of the cell.

    Attributes:
        duplicates: number of copies that were received, but do not go on.
        strongest: the tower that has received the last frame of a user with the highest SNR, by the user's number in
            the network.
    """

    def __init__(self, towers: Sequence[Hearer], medium: Medium) -> None:
        self.towers = towers
        self._medium = medium
        self.duplicates = 0
        self.strongest: dict[int, NodeId] = {}

    def begin(self, transmission: Transmission, now_s: float) -> None:
        """Let each tower take the start of a transmission."""
        for each in self.towers:
            if each.receiver is not None:
                each.receiver.begin(transmission, now_s)

    def interrupted(
        self,
        ids: Ints,
        start_s: float,
        sent_s: float,
        end_s: float,
        own_cuts: Sequence[bool] | None,
        shares: Floats | None,
    ) -> Sequence[Sequence[bool] | None]:
        """Return which transmissions an outage will interrupt at each tower, as `Connection.interrupted`.

        *own_cuts* are those at the cell's own tower, and *shares* what batteries have paid.
        """
        cut_off = self._medium.connection.interrupted
        others = (cut_off(ids, each.tower.number, start_s, sent_s, end_s) for each in self.towers[1:])
        return [own_cuts, *(mark_unpaid(each, shares) for each in others)]

    def outcomes(self, transmission: Transmission) -> list[ReceptionResult]:
        """Return which frames each tower has received, at the end of a transmission."""
        results = []
        for place, (each, interrupted) in enumerate(zip(self.towers, transmission.interrupted_at, strict=True)):
            at_tower = replace(self._at(transmission, place), interrupted=interrupted)
            causes, snr_db = self._medium.outcomes(at_tower)
            if each.receiver is not None:
                causes = each.receiver.end(transmission, causes)
            results.append((causes, snr_db))
        return results

    def first_copies(self, transmission: Transmission, results: Sequence[ReceptionResult]) -> FirstCopies:
        """Return the copies that go on, of the *results* of `outcomes`."""
        is_received = np.array([[not cause for cause in causes] for causes, _ in results])  # [towers, n]
        snr_db = np.array([at_tower_db for _, at_tower_db in results])
        is_heard = is_received.any(axis=0)
        self.duplicates += int((is_received.sum(axis=0) - 1)[is_heard].sum())

        strongest = np.where(is_received, np.nan_to_num(snr_db, nan=-np.inf), -np.inf).argmax(axis=0)
        for user, place in zip(transmission.ids[is_heard].tolist(), strongest[is_heard].tolist(), strict=True):
            self.strongest[user] = self.towers[place].tower

        delays_s = np.array([each.delay_s() for each in self.towers])
        first = np.where(is_received, delays_s[:, None], np.inf).argmin(axis=0)
        first[~is_heard] = 0  # the cause at the cell's own tower stands for all
        places = first.tolist()
        causes = [results[place][0][frame] for frame, place in enumerate(places)]
        return FirstCopies(causes, snr_db[first, np.arange(len(first))], places)

    def pass_on(self, messages: Sequence[Message], transmission: Transmission, copies: FirstCopies) -> None:
        """Let each of *messages* go on from the tower whose copy is the first."""
        place_of = dict(zip(transmission.ids.tolist(), copies.places, strict=True))
        for message in messages:
            hearer = self.towers[place_of[message.user]]
            message.note_tower(hearer.tower.name)
            hearer.uplink(message)

    def gain_db(self, transmission: Transmission, copies: FirstCopies) -> Floats:
        """Return the gain of each link to the tower that passes its frame on, as `Medium.gain_db`."""
        gains_db = [
            self._medium.gain_db(self._at(transmission, place), copies.snr_db) for place in range(len(self.towers))
        ]
        return np.array(gains_db)[copies.places, np.arange(len(copies.places))]

    def _at(self, transmission: Transmission, place: int) -> Transmission:
        """Return a transmission as the tower at *place* hears it."""
        if place == 0:
            return transmission
        return replace(transmission, heard_at=self.towers[place].tower)
