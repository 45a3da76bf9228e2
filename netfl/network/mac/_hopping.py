"""Hopping: the channel of each frame of a user, at random or in an order that the user repeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from netfl.core.spec import ByForm
from netfl.network.radio.device_state import DeviceState
from netfl.streams import RandomField, Streams
from netfl.types import Floats, Ints, Law, StatisticClaim, Users

_ChannelList = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
Hopping = Annotated[_ChannelList | Literal["random", "permutation"], ByForm()]
"""Random channels, one order of all channels for each user, or a given order for all users."""


def check_hopping(hopping: str | tuple[int, ...], channels: int) -> None:
    """Raise a ValueError if *hopping* is not possible on this number of channels, or has no effect on it."""
    if hopping == "random":
        return
    if channels == 1:
        raise ValueError("hopping has no effect on one channel; leave it out, or give more channels")
    if not isinstance(hopping, str) and max(hopping) >= channels:
        problem = f"hopping names channel {max(hopping)}, but the {channels} channels have the numbers 0 to"
        raise ValueError(f"{problem} {channels - 1}; name one of these")


class ChannelOrders:
    """The order of channels of each user of a cell, from which each frame takes the next one.

    Orders and places move with a device to another tower (`netfl.network.radio.device_state.DeviceState`).

    Args:
        field: random numbers of the orders.
        ids: numbers of the users in the network, ``[size]``.
        channels: number of channels, C.
        given: the order of all users; ``None``: each draws one of the C! orders of all channels.
    """

    def __init__(self, field: RandomField, ids: Ints, channels: int, given: tuple[int, ...] | None = None) -> None:
        if given is None:
            keys = field.uniform(ids[:, None], np.arange(channels))
            self._orders = np.argsort(keys, axis=1)
        else:
            self._orders = np.tile(np.array(given, np.int64), (len(ids), 1))
        self._frames = np.zeros(len(ids), np.int64)  # that each user has sent

    def channel_of(self, user: int) -> int:
        """Return the channel of the next frame of *user*."""
        order = self._orders[user]
        return int(order[self._frames[user] % len(order)])

    def next_of(self, user: int) -> int:
        """Return the channel of a frame that *user* sends now, and advance."""
        channel = self.channel_of(user)
        self._frames[user] += 1
        return channel

    def next(self, users: Users) -> Ints:
        """Return the channels of frames that *users* send now, ``[n]``, and advance."""
        channels = self._orders[users, self._frames[users] % self._orders.shape[1]]
        self._frames[users] += 1
        return np.asarray(channels)

    def take(self, users: Users) -> Mapping[str, Any]:
        """Take what is known of users who leave, as `DeviceState.take`."""
        return {"order": self._orders[users], "frames": self._frames[users]}

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        """Put back what is known of users who come, as `DeviceState.put`."""
        self._orders[users] = row["order"]
        self._frames[users] = row["frames"]


def open_orders(hopping: str | tuple[int, ...], field: RandomField, ids: Ints, channels: int) -> ChannelOrders | None:
    """Return the orders of the users of a cell; ``None`` for random channels.  The arguments are `ChannelOrders`'."""
    if hopping == "random":
        return None
    if isinstance(hopping, str):
        return ChannelOrders(field, ids, channels)
    return ChannelOrders(field, ids, channels, hopping)


class DevicesThatHop:
    """State of devices with their orders of channels beside another state.

    Args:
        orders: the orders.
        others: the other state.
    """

    def __init__(self, orders: ChannelOrders, others: DeviceState) -> None:
        self._orders = orders
        self._others = others

    def take(self, users: Users) -> Mapping[str, Any]:
        """Take what is known of users who leave, as `DeviceState.take`."""
        return {"orders": self._orders.take(users), "others": self._others.take(users)}

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        """Put back what is known of users who come, as `DeviceState.put`."""
        self._orders.put(users, row["orders"])
        self._others.put(users, row["others"])


def permutation_law(channels: int) -> Law:
    """Return the claim that a channel comes again after exactly C frames, and that each order is as likely."""

    def draw(streams: Streams, size: int) -> Floats:
        orders = ChannelOrders(streams.field("hopping"), np.arange(size), channels)
        frames = np.stack([orders.next(np.arange(size)) for _ in range(2 * channels)], axis=1)  # [size, 2 C]
        is_same = frames[:, None, :] == frames[:, :channels, None]  # [size, C, 2 C]
        is_later = np.arange(2 * channels) > np.arange(channels)[:, None]
        until = (is_same & is_later).argmax(axis=2) - np.arange(channels)  # the next frame of each channel
        is_first = frames[:, 0] == channels - 1
        return np.stack([until.min(axis=1), until.max(axis=1), is_first], axis=1).astype(float)

    statement = f"exactly C = {channels} frames after it was used; the first one is any with probability 1/C"
    places = ["the least number of frames", "the largest number of frames", "the last channel comes first"]
    claim = StatisticClaim("a channel comes again", statement, draw, [channels, channels, 1.0 / channels], places)
    return Law("channel of a frame", statement, statistics=(claim,))
