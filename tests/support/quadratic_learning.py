"""Models and accesses of tests of optima, as plug-ins: quadratic losses, and users in a fixed order."""

from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from netfl.access import Access
from netfl.types import Delivery, Law, Round


class Point(nn.Module):
    """A point θ of *free* coordinates, which starts at 0; *fixed* coordinates are 0 and not trained."""

    def __init__(self, free, fixed=0):
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(free))
        self.register_buffer("origin", torch.zeros(fixed), persistent=False)

    def forward(self, x):
        return torch.cat([self.theta, self.origin]).expand(len(x), -1)


def half_square(scores, targets):
    """Return ``|θ - target|²/2`` of each example; the target of a fixed coordinate adds a constant."""
    return ((scores - targets) ** 2).sum(1) / 2


class InOrder(Access):
    """Deliver given users in each round, by a list that is repeated.

    Example::

        kind: support.quadratic_learning:InOrder
        order: [[0], [0, 1], [2]]
    """

    order: Annotated[tuple[tuple[int, ...], ...], Field(min_length=1)]
    """Users of each round."""

    def rounds(self, context):
        for index in range(1, context.rounds + 1):
            users = self.order[(index - 1) % len(self.order)]
            deliveries = tuple(
                Delivery(user=user, base=index - 1, sent_s=index - 1.0, arrived_s=float(index)) for user in users
            )
            yield Round(index=index, opened_s=index - 1.0, closed_s=float(index), deliveries=deliveries, oldest=index)

    def max_deliveries(self, users, rounds):
        return max(map(len, self.order))

    def laws(self):
        return (Law.none("draws nothing"),)
