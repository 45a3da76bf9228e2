"""Counterfactual networks, in which some users are exempt from a cause of losses and delays.

The parts of a network know no exemptions.  Where users are exempt from a cause, the network is built with other parts
in place of the usual ones, which treat these users differently:

- ``outage``: `connection.UninterruptedConnection` for `Connection`, `routes.BypassRoutes` for `Routes`,
  `port.BypassPort` for `OutputPort`, `downlink.UninterruptedDownlink` for `IdealDownlink`, and at the server a sink
  that its outages do not concern (`Exemptions.divert`, in the simulator).
- ``selection``: `admission.InclusiveAdmission` around the selection.
- ``compute``: the training time of the fastest user for that of the exempt ones (`netfl.network.build`).
- ``airtime``: one short frame for each update (`population.cuts_of_users`, at each tower).
- ``contention``: a cell for each exempt user beside that of the others (`cells.isolate_users`, at each tower), and a
  decision of its own by the allocation (`netfl.network.allocator`).
- ``fading``: `medium.UnfadedMedium` for `FadingMedium`.
- ``backhaul``: the sink of the server at the tower, for that of its port (`Exemptions.divert`, in the simulator).
- ``downlink``: `downlink.DirectDownlink` around the downlink.
- ``superseded``: `population.PersistentPopulation` for `UserPopulation`.
- ``deadline``: the same, and `server.PatientServer` for `Server`.

To add a cause, add a field to `Exemptions`, a file with the other part, and `Exemptions.choose` where the usual part is
built.  `netfl.network.validation.inactive_causes` states where a cause affects nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Concatenate, ParamSpec, TypeVar

import numpy as np
from pydantic import BeforeValidator, Field

from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.network.compute import as_tuple
from netfl.network.message import Message
from netfl.types import Bools, Ints, ScenarioFacts

ArgumentsT = ParamSpec("ArgumentsT")
PartT = TypeVar("PartT")
UserNumbers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(as_tuple)]


class Exemptions(Spec):
    """Users that are exempt from causes of losses and delays.

    The difference between a run with a cause and one without it is the effect of that cause.  Random numbers are keyed
    by their purpose, so that both runs draw the same numbers for everything else.  Other users are affected only where
    they meet exempt ones: in rounds that close with the first few, in queues, and on a medium with one user less.

    Outages do not concern copies of a version, on a downlink over the network, that are for exempt users only.

    Example::

        contention: [3, 5]
        fading: 3
    """

    outage: UserNumbers = ()
    """Users without outages: of themselves, their battery, their tower, and the route from it to the server."""
    selection: UserNumbers = ()
    """Users that the server selects in every round, beside those that it would select."""
    compute: UserNumbers = ()
    """Users whose training takes as long as that of the fastest user."""
    airtime: UserNumbers = ()
    """Users whose updates are sent in one frame of a hundredth of their size, and so take little of a duty cycle."""
    contention: UserNumbers = ()
    """Users with a medium of their own: same tower and MAC, but without interference from and to others, and without
    waiting for others in a schedule.  The slots, turns and fixed shares of the band of the others stay.  With ``fdma``
    an exempt user has the whole band, and a band that the backlog divides is divided among the others.  An
    ``allocation`` decides on an exempt user as if it were alone, and on the others without it.  It has no effect where
    shares are given."""
    fading: UserNumbers = ()
    """Users whose signal always suffices, in the fastest mode.  Interference from and to others stays: the signal is
    compared with that of others, and no longer with noise."""
    backhaul: UserNumbers = ()
    """Users whose updates are at the server as soon as their tower has received them: without queue, loss or delay."""
    downlink: UserNumbers = ()
    """Users that receive every version at once, unless they are disconnected."""
    superseded: UserNumbers = ()
    """Users that finish an update before they begin from a newer version, also while they are not selected."""
    deadline: UserNumbers = ()
    """Users whose updates are never too late: they finish them as with ``superseded``, and the server takes them
    whenever they come."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if not any(getattr(self, cause) for cause in CAUSES):
            yield Fault("", "has no effect because no user is exempt from a cause", None, "list users, or leave it out")
        for cause in CAUSES:
            yield from facts.unknown_users(cause, getattr(self, cause))

    def among(self, cause: str, users: Ints) -> Bools:
        """Return whether each of *users* is exempt from *cause*, ``[n]``."""
        return np.isin(users, getattr(self, cause))

    def cover(self, cause: str, message: Message) -> bool:
        """Return whether all users whom *message* concerns are exempt from *cause*."""
        exempt_users = getattr(self, cause)
        return all(user in exempt_users for user in message.user_ids())

    def choose(
        self,
        usual: Callable[ArgumentsT, PartT],
        other: Callable[Concatenate[Exemptions, ArgumentsT], PartT],
        *causes: str,
    ) -> Callable[ArgumentsT, PartT]:
        """Return what builds a part of the network: *other* if any user is exempt from any of *causes*, else *usual*.

        The first argument of *other* is these exemptions, which are given to it here.
        """
        if any(getattr(self, cause) for cause in causes):
            return partial(other, self)
        return usual

    def divert(
        self, cause: str, usual: Callable[[Message], None], other: Callable[[Message], None]
    ) -> Callable[[Message], None]:
        """Return a sink that passes messages of users exempt from *cause* to the sink *other*, the rest to *usual*."""
        if not getattr(self, cause):
            return usual

        def take(message: Message) -> None:
            if self.cover(cause, message):
                other(message)
            else:
                usual(message)

        return take


CAUSES = tuple(Exemptions.model_fields)
"""Causes of missed deliveries."""
NO_EXEMPTIONS = Exemptions()
"""No user is exempt."""
