"""Buffer of copies of versions, in which a newer version replaces waiting copies of older ones."""

from __future__ import annotations

from collections.abc import Sequence

from netfl.network.message import BroadcastCopy, Message
from netfl.network.queue import Buffer


class VersionBuffer(Buffer):
    """Buffer in which a copy of a newer version takes its users out of waiting copies of older versions.

    The newer copy takes the place of the first older copy that no user needs any more, whatever the discipline of the
    queue.  It so needs no room of its own.  An older copy that comes after a newer one loses its users to that.

    Args:
        buffer: queue of the port or tower, which holds one message for each place.
        by_user: whether every copy is for one user; if not, copies for one tower may be for different sets of users.
    """

    def __init__(self, buffer: Buffer, *, by_user: bool) -> None:
        self._buffer, self._by_user = buffer, by_user
        self._waiting: dict[int | str, dict[Message, BroadcastCopy]] = {}
        self._vacant: set[Message] = set()

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        assert isinstance(message, BroadcastCopy)
        copies = self._waiting.setdefault(self._receiver(message), {})
        superseded: list[Message] = []
        place: Message | None = None
        for held, copy in tuple(copies.items()):
            if copy.version > message.version:
                message.take_out(copy.users)
            elif copy.version < message.version:
                copy.take_out(message.users)
            if copy.users.size:
                continue
            superseded.append(copy)
            del copies[held]
            if place is None:
                place = held
            else:
                self._vacant.add(held)  # the queue passes over this place when its turn comes
        if not message.users.size:
            return (*superseded, message)
        if place is not None:
            copies[place] = message
            return superseded
        copies[message] = message
        dropped = self._buffer.push(message, time_s)
        vacant = self._vacant.intersection(dropped)
        self._vacant -= vacant
        return [self._remove(held) for held in dropped if held not in vacant]

    def pop(self, time_s: float) -> Message | None:
        while (held := self._buffer.pop(time_s)) is not None:
            if held not in self._vacant:
                return self._remove(held)
            self._vacant.remove(held)
        return None

    def __len__(self) -> int:
        return len(self._buffer) - len(self._vacant)

    def bypass(self, message: Message, time_s: float) -> bool:
        return self._buffer.bypass(message, time_s)

    def _receiver(self, message: Message) -> int | str:
        """Return the user, or else the tower, that a copy is for."""
        assert isinstance(message, BroadcastCopy)
        return message.flow if self._by_user else message.route[-1]

    def _remove(self, held: Message) -> BroadcastCopy:
        """Return the copy at the place of *held*, which has left the queue."""
        receiver = self._receiver(held)
        copy = self._waiting[receiver].pop(held)
        if not self._waiting[receiver]:
            del self._waiting[receiver]
        return copy
