"""The medium: what becomes of a transmission that nobody else disturbs, and who can transmit at all."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from netfl.network.presence import Presence
from netfl.network.radio import Air
from netfl.network.reception import Reception


class Medium(ABC):
    """What a cell asks; users and towers by their node numbers.

    Args:
        bits: the size of one update.
        airtime_s: how long it is on the air.
    """

    def __init__(self, bits: float, airtime_s: float) -> None:
        self.bits, self.airtime_s = bits, airtime_s

    @abstractmethod
    def connected(self, users: NDArray[np.int64], tower: int, time_s: float) -> NDArray[np.bool_]:
        """Whether each user and the tower are up, ``[n]``."""

    @abstractmethod
    def connected_from(self, users: NDArray[np.int64], tower: int, time_s: float) -> NDArray[np.float64]:
        """The first instant from *time_s* on at which each user and the tower are up, ``[n]``; infinity if never."""

    @abstractmethod
    def failure(self, user: int, tower: int, start_s: float, end_s: float) -> tuple[str, float]:
        """Why *user*, alone on the air, is not received, or an empty word; and its SNR in dB."""


class FadingMedium(Medium):
    """Channels between users and towers, and the outages of both.

    A transmission is ``lost`` if the user or the tower is down at any time of it, ``faded`` if the SNR at its start is
    not enough.

    Args:
        air: the SNR of every link.
        reception: which of them are enough.
        presence: who is up.
        bits: the size of one update.
    """

    def __init__(self, air: Air, reception: Reception, presence: Presence, bits: float) -> None:
        self._air, self._reception, self._presence = air, reception, presence
        self._bandwidth_hz = air.radio.bandwidth
        Medium.__init__(self, bits, bits / reception.rate_bps(self._bandwidth_hz))

    def connected(self, users: NDArray[np.int64], tower: int, time_s: float) -> NDArray[np.bool_]:
        """Whether each user and the tower are up, ``[n]``."""
        return self._presence.up(users, time_s) & (self._presence.node_until_s(tower, time_s) > time_s)

    def connected_from(self, users: NDArray[np.int64], tower: int, time_s: float) -> NDArray[np.float64]:
        """The first instant from *time_s* on at which each user and the tower are up, ``[n]``; infinity if never."""
        return self._presence.together_from_s(np.column_stack([users, np.full(len(users), tower)]), time_s)

    def failure(self, user: int, tower: int, start_s: float, end_s: float) -> tuple[str, float]:
        """Why *user*, alone on the air, is not received, or an empty word; and its SNR in dB."""
        if min(self._presence.node_until_s(node, start_s) for node in (user, tower)) < end_s:
            return "lost", np.nan
        snr_db = self._air.snr_db(np.array([user]), start_s)
        received = self._reception.received(snr_db, self._bandwidth_hz)[0]
        return "" if received else "faded", float(snr_db[0])


class ClearMedium(Medium):
    """A medium on which only collisions fail: what closed forms of MACs assume."""

    def connected(self, users: NDArray[np.int64], tower: int, time_s: float) -> NDArray[np.bool_]:
        """All are up."""
        return np.ones(len(users), np.bool_)

    def connected_from(self, users: NDArray[np.int64], tower: int, time_s: float) -> NDArray[np.float64]:
        """At once."""
        return np.full(len(users), time_s)

    def failure(self, user: int, tower: int, start_s: float, end_s: float) -> tuple[str, float]:
        """None."""
        return "", np.nan
