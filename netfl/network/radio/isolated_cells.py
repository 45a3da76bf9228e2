"""A cell in parts: users who have a medium of their own, and the crowd of all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from netfl.network.counterfactual import IsolatedStreams
from netfl.network.message import Message
from netfl.network.radio.cell import Cell
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.tx_queue import Frames, TxQueue, Users
from netfl.streams import Streams

Made = Callable[[TxQueue, SharedChannel, Streams], Cell]
"""Makes a cell of a load, the air that it meets others in, and the streams that its MAC draws from."""


def split_cells(
    load: TxQueue, alone: Sequence[int], ether: SharedChannel, streams: Streams, make: Made
) -> tuple[Cell, ...]:
    """One cell for each of the users who are *alone*, by their numbers in *load*, and, last, one for all others."""
    if not alone:
        return (make(load, ether, streams),)
    left: list[Frames] = []
    own = [
        make(_SingleUserQueue(load, user, left), SharedChannel(), IsolatedStreams.of(streams, int(load.ids[user])))
        for user in alone
    ]
    return (*own, make(_RemainingUsersQueue(load, np.array(alone), left), ether, streams))


class _Part(TxQueue):
    """A part of another load, which does the work.

    Args:
        load: the whole.
        left: what was on the air of other parts as the run ended.
    """

    def __init__(self, load: TxQueue, left: list[Frames]) -> None:
        self._load, self._left = load, left
        self.most_bits = load.most_bits

    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """As the whole says."""
        return self._load.end(frames, causes, snr_db, limit, now_s)

    def refresh(self, now_s: float) -> None:
        """As the whole says, of everybody."""
        self._load.refresh(now_s)


class _SingleUserQueue(_Part):
    """One user of a load, as number 0.

    Args:
        load: the whole.
        user: its number there.
        left: where what it has on the air goes as the run ends.
    """

    def __init__(self, load: TxQueue, user: int, left: list[Frames]) -> None:
        super().__init__(load, left)
        self._user, self._one = user, np.array([user])
        self.ids = load.ids[self._one]

    @property
    def ready_s(self) -> NDArray[np.float64]:  # type: ignore[override]
        """That of the user."""
        return np.asarray(self._load.ready_s[self._one])

    @property
    def on_air(self) -> NDArray[np.bool_]:  # type: ignore[override]
        """Whether the user is."""
        return np.asarray(self._load.on_air[self._one])

    def bits(self, users: Users) -> float | NDArray[np.float64]:
        """Of its frame."""
        return self._load.bits(self._one[users])

    def launch(self, users: Users, now_s: float) -> Frames:
        """Its frame goes on the air."""
        return self._load.launch(self._one[users], now_s)

    def still(self, frames: Frames) -> Users:
        """The user, or nobody."""
        return np.zeros_like(self._load.still(frames))

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """It waits."""
        self._load.defer(self._one[users], until_s)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """The crowd, which ends last, ends what is left here, too."""
        self._left.extend(on_air)


class _RemainingUsersQueue(_Part):
    """A load without some of its users: they keep their numbers, and never have anything to send.

    Args:
        load: the whole.
        without: those who are not in it.
        left: what these have on the air as the run ends.
    """

    def __init__(self, load: TxQueue, without: Users, left: list[Frames]) -> None:
        super().__init__(load, left)
        self._without, self.ids = without, load.ids

    @property
    def ready_s(self) -> NDArray[np.float64]:  # type: ignore[override]
        """Never, of those who are not here."""
        ready_s = np.array(self._load.ready_s)
        ready_s[self._without] = np.inf
        return ready_s

    @property
    def on_air(self) -> NDArray[np.bool_]:  # type: ignore[override]
        """Never, of those who are not here."""
        on_air = np.array(self._load.on_air)
        on_air[self._without] = False
        return on_air

    def bits(self, users: Users) -> float | NDArray[np.float64]:
        """As the whole says."""
        return self._load.bits(users)

    def launch(self, users: Users, now_s: float) -> Frames:
        """As the whole says."""
        return self._load.launch(users, now_s)

    def still(self, frames: Frames) -> Users:
        """As the whole says."""
        return self._load.still(frames)

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """As the whole says."""
        self._load.defer(users, until_s)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """All parts end."""
        self._load.finish(now_s, [*self._left, *on_air])
