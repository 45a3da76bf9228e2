"""Versions at the users: the downlink over which they come, and what a user does with them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from netfl.core.spec import Spec
from netfl.units import DecibelMilliwatts

OnNewVersion = Literal["restart", "finish", "ignore"]
"""Reaction of a user with an unfinished update to a newer version."""


class Downlink(Spec):
    """A downlink over the same network, on which versions can be late or get lost.

    A copy of the version crosses the links to each tower, in the direction away from the server, with queues like those
    of the uplink; a copy that is dropped or lost on the way reaches no user.  A tower sends one copy at a time, in a
    band of its own, at the rates of the reception.  Users and channels are those of the uplink.  ``multicast``: one
    copy for each tower, sent in the most robust mode to all its users at once.  ``unicast``: a copy for each user, sent
    in the mode that its signal allows; the order of the copies of a version is drawn.  A user that is disconnected
    while the signal arrives, or whose signal is too weak, misses that sending.  A tower knows at once which users have
    received it.

    A user misses a version if no copy reaches it, in all sendings.  It then does not know that a round has begun.  A
    version that no user has received is sent again until one has it, a newer one follows, or no user can ever receive
    it: by the towers that have it, once a user is connected, and by the server where a copy was lost on the way.
    """

    mode: Literal["multicast", "unicast"]
    """``multicast`` sends a version to all users of a tower at once, ``unicast`` to one after the other."""
    power: DecibelMilliwatts | None = None
    """Power of towers whose radio (``radio.tower``) states none; ``null`` is the users' power."""
    max_attempts: Annotated[int, Field(ge=1)] = 1
    """Number of times that a tower sends to users that have not received the version yet."""
    duty_cycle: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Largest share of time that a tower may be on the air: after an airtime A it sends nothing for A / duty_cycle - A,
    and copies wait; 0.1 in the sub-band of EU868 in which LoRaWAN gateways answer."""
    queued_versions: Literal["replace", "keep"] = "replace"
    """Copies that still wait at a port or a tower when a newer version for the same users arrives there: the newer one
    takes their place (``replace``), or waits behind them (``keep``), so that users may receive old versions."""
    on_missed_version: Literal["wait", "train_again"] = "wait"
    """Behaviour of a user without an outstanding update that misses a version: it starts no training until it receives
    one (``wait``); or it notices when the tower gives up, and trains again from the version that it has, if updates
    from that still count (``train_again``).  An outstanding update continues in both cases."""
