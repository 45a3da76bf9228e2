"""Training in turns."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.network.trains_when import TrainingOccasion, TrainingRule
from netfl.types import Bools


class Every(TrainingRule):
    """Groups of users train in turns: user i from version v only if v mod k = i mod k.

    Version v is the one that round v + 1 sends.  Of k versions in a row a user can train from one, and saves energy in
    the meantime.  A user that misses the version of its turn waits for the next turn.  The short form is
    ``{every: 4}``.

    The schedule is that of FedBacys (E. Jeong and N. Pappas, arXiv 2504.12181 and 2511.11949, 2025), in which groups of
    users train one after the other, just before they send.  There the server forms the groups by the charges of
    batteries, and forms them again in each cycle; here they follow from the numbers of the users.  A user of FedBacys
    needs enough energy, too: ``trains_when: [{every: 4}, {battery_above: 0.5}]``.

    Example::

        kind: every
        versions: 4
    """

    short_key: ClassVar[str] = "versions"

    versions: Annotated[int, Field(ge=1)]
    """k, the number of groups, and of versions from one turn of a user to its next."""

    def trains(self, occasion: TrainingOccasion) -> Bools:
        return np.asarray((occasion.versions - occasion.users) % self.versions == 0)
