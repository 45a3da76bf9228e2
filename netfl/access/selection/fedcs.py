"""The largest number of users that can deliver by a deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo
from netfl.access.selection._base import selected_rounds
from netfl.errors import Fault, ScenarioError
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts, Users
from netfl.units import Seconds


class Fedcs(Selection):
    """Users that can together deliver by a deadline, added greedily: as many as possible.

    The server asks ``asked`` users, drawn uniformly in each round.  It knows the bit rate r_k, the speed and the work
    of each, and so expects the training time c_k = work / speed and the upload time u_k = bits / r_k.  All users of a
    set S receive the version together, in d(S) = bits / min r_k, train at once, and send one after another in the order
    in which they were added.  Θ is the time from the reception until the last of them has sent.  In each step, the
    server takes from the users that remain the one with the smallest ::

        d(S ∪ k) - d(S) + u_k + max(0, c_k - Θ)

    and adds it to S if d(S ∪ k) + Θ + u_k + max(0, c_k - Θ) < ``deadline``.  If it does not fit, none of the others
    does, as this sum is d(S) + Θ and the value above.  A uniform draw of the round decides among users of equal values.
    The deadline is also that of the round, if its rule has one.

    With ``order: random`` the users are tried in a random order instead, and each that fits is added: the same
    knowledge without the rule.

    The times are exact if users send one after another (``mac: round_robin`` without ``poll``, or ``max_snr``), rates
    stay as they were observed, and trainings have no ``jitter``.  Any MAC that always lets a user send ends no later
    than Θ, whatever its order.

    T. Nishio and R. Yonetani, "Client selection for federated learning with heterogeneous resources in mobile edge",
    ICC 2019, algorithm 3, without the times of selection and aggregation.

    Example::

        kind: fedcs
        deadline: 3 min
        asked: 4
        observe: {check_in: {airtime: 5 ms}, rate_bps: check_in}
    """

    can_observe: ClassVar[tuple[str, ...]] = ("check_in",)

    deadline: Annotated[Seconds, Field(gt=0)]
    """Time from the opening of a round by which all selected users should have delivered."""
    asked: Annotated[int, Field(ge=1)] | None = None
    """Number of users among which the server selects; ``null`` for all."""
    order: Literal["quickest", "random"] = "quickest"
    """Order in which users are tried: the one that adds the least time first, or at random."""
    download: Annotated[Seconds, Field(ge=0)] | None = None
    """d, the time of the download, whoever is selected; ``null`` for that of a multicast at the lowest bit rate of the
    set."""

    @property
    def observes(self) -> tuple[str, ...]:
        return ("rate_bps", "speed")

    @property
    def sets_deadline(self) -> bool:
        return True

    def max_selected(self, users: int) -> int:
        return min(self.asked or users, users)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.asked is not None:
            yield from facts.too_many_users("asked", self.asked)

    def open(self, population: UserInfo) -> Selector:
        if population.update_bits is None or population.work is None:
            problem = "needs the times of trainings and uploads, which a network has"
            raise ScenarioError([Fault("", problem, None, "use access.kind: network, or another selection")])
        return _Fedcs(self, population.streams, population.update_bits, population.work)

    def laws(self) -> tuple[Law, ...]:
        """Claim that users with equal times, which all fit, are selected as often as they are asked."""
        asked = self.asked or 3
        users = asked + 2
        share = asked / users
        # every user needs a small part of the deadline
        spec = self.model_copy(update={"asked": asked, "deadline": 10.0 * users, "download": None})
        values = {"rate_bps": np.ones(users), "speed": np.ones(users)}

        def draw(streams: Streams, size: int) -> Floats:
            selector = spec.open(UserInfo(users, streams, update_bits=1.0, work=np.ones(users)))
            return selected_rounds(selector, users, size, **values)[:, 0]

        statement = f"asked/K of K = {users} users that all fit"
        return (Law("selected users", statement, draw, share, share * (1 - share)),)


@dataclass(slots=True)
class _Fedcs(Selector):
    spec: Fedcs
    streams: Streams
    bits: float
    work: Floats

    def choose(self, moment: RoundInfo) -> Users:
        users = moment.candidates
        keys = self.streams.field("fedcs").uniform(users, moment.round)
        users = users[np.argsort(keys, kind="stable")[: self.spec.asked]]  # in this order, which decides among equals
        is_known = ~np.isnan(moment.rate_bps[users])
        users = users[is_known]
        train_s = self.work[users] / moment.speed[users]
        upload_s = self.bits / moment.rate_bps[users]
        download_s = upload_s
        if self.spec.download is not None:
            download_s = np.full(len(users), self.spec.download)
        if self.spec.order == "random":
            order = np.argsort(self.streams.field("order").uniform(users, moment.round), kind="stable")
            chosen = add_in_order(order, download_s, train_s, upload_s, self.spec.deadline)
        else:
            chosen = add_greedily(download_s, train_s, upload_s, self.spec.deadline)
        return np.sort(users[chosen])

    def deadline_s(self, moment: RoundInfo) -> float | None:
        return self.spec.deadline


def add_greedily(download_s: Floats, train_s: Floats, upload_s: Floats, deadline_s: float) -> list[int]:
    """Return the places of the users that are added to a round, in the order of their uploads.

    Args:
        download_s: time of a download by each user alone; that of a set is the longest of its users, ``[n]``.
        train_s: training time of each user, ``[n]``.
        upload_s: upload time of each user, ``[n]``.
        deadline_s: time by which the last upload must have ended.
    """
    chosen: list[int] = []
    remaining = np.arange(len(upload_s))
    common_download_s = 0.0  # d(S)
    uploads_end_s = 0.0  # Θ
    while remaining.size:
        longer_s = np.maximum(download_s[remaining] - common_download_s, 0.0)
        idle_s = np.maximum(train_s[remaining] - uploads_end_s, 0.0)
        place = int(np.argmin(longer_s + upload_s[remaining] + idle_s))
        user = int(remaining[place])
        common_download_s += float(longer_s[place])
        uploads_end_s += float(upload_s[user] + idle_s[place])
        if common_download_s + uploads_end_s >= deadline_s:
            break  # the others would end even later
        chosen.append(user)
        remaining = np.delete(remaining, place)
    return chosen


def add_in_order(order: Users, download_s: Floats, train_s: Floats, upload_s: Floats, deadline_s: float) -> list[int]:
    """Return those of the users, tried in this *order*, that fit; the other arguments are those of `add_greedily`."""
    chosen: list[int] = []
    common_download_s = 0.0
    uploads_end_s = 0.0
    for user in order.tolist():
        next_download_s = max(common_download_s, float(download_s[user]))
        next_end_s = max(uploads_end_s, float(train_s[user])) + float(upload_s[user])
        if next_download_s + next_end_s < deadline_s:
            chosen.append(user)
            common_download_s = next_download_s
            uploads_end_s = next_end_s
    return chosen
