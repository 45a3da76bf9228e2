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
        self._buffer = buffer
        self._by_user = by_user
        # for each receiver, the copies that wait, by the message that holds the place of each in the queue
        self._waiting: dict[int | str, dict[Message, BroadcastCopy]] = {}
        self._vacant: set[Message] = set()  # messages whose places no copy has any more

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        assert isinstance(message, BroadcastCopy)
        copies = self._waiting.setdefault(self._receiver(message), {})

        # users stay in the newest copy for them; copies without users leave their places
        superseded: list[Message] = []
        free_place: Message | None = None
        for place, copy in tuple(copies.items()):
            if copy.version > message.version:
                message.take_out(copy.users)
            elif copy.version < message.version:
                copy.take_out(message.users)
            if copy.users.size:
                continue
            superseded.append(copy)
            del copies[place]
            if free_place is None:
                free_place = place
            else:
                self._vacant.add(place)  # the queue passes over this place when its turn comes

        if not message.users.size:
            return (*superseded, message)
        if free_place is not None:
            copies[free_place] = message
            return superseded
        copies[message] = message
        dropped = self._buffer.push(message, time_s)
        vacant = self._vacant.intersection(dropped)
        self._vacant -= vacant
        return [self._remove(place) for place in dropped if place not in vacant]

    def pop(self, time_s: float) -> Message | None:
        while (place := self._buffer.pop(time_s)) is not None:
            if place not in self._vacant:
                return self._remove(place)
            self._vacant.remove(place)
        return None

    def __len__(self) -> int:
        return len(self._buffer) - len(self._vacant)

    def bypass(self, message: Message, time_s: float) -> bool:
        return self._buffer.bypass(message, time_s)

    def _receiver(self, message: Message) -> int | str:
        """Return the user, or else the tower, that a copy is for."""
        assert isinstance(message, BroadcastCopy)
        return message.flow if self._by_user else message.route[-1]

    def _remove(self, place: Message) -> BroadcastCopy:
        """Return the copy at *place*, which has left the queue."""
        receiver = self._receiver(place)
        copy = self._waiting[receiver].pop(place)
        if not self._waiting[receiver]:
            del self._waiting[receiver]
        return copy
