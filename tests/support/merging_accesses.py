"""Accesses from outside netfl in which other nodes than the server merge: edges, and users that exchange models."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.access import Access
from netfl.types import Delivery, Event, Law, Merge, Round
from netfl.units import Seconds


def closed_round(context, index, opened_s, closed_s, merges, deliveries=()):
    """Return a round, and record that its deliveries have arrived, each once."""
    result = Round(
        index=index,
        opened_s=opened_s,
        closed_s=closed_s,
        deliveries=deliveries,
        oldest=index,
        merges=tuple(merges),
    )
    for delivery in result.all_deliveries():
        context.recorder.record(
            Event("delivered", delivery.arrived_s, round=index, user=delivery.user, value=delivery.base)
        )
    return result


class Edges(Access):
    """Users are dealt to edges in turn; each edge aggregates all of its users ``edge_rounds`` times a round.

    Source: Liu et al., "Client-edge-cloud hierarchical federated learning", ICC 2020 (HierFAVG).

    Example::

        kind: edges
        edges: 2
        edge_rounds: 3
        round_length: 10 s
    """

    edges: Annotated[int, Field(ge=1)]
    """Number of edges."""
    edge_rounds: Annotated[int, Field(ge=1)] = 1
    """Aggregations of each edge in a round."""
    round_length: Annotated[Seconds, Field(gt=0)] = 1.0
    """Length of a round."""

    def rounds(self, context):
        members = [np.arange(edge, context.users, self.edges).tolist() for edge in range(self.edges)]
        step_s = self.round_length / self.edge_rounds
        number = 0
        for index in range(1, context.rounds + 1):
            opened_s = (index - 1) * self.round_length
            number += 1
            clock = {"number": number, "round": index - 1}  # all versions of edges follow version index - 1
            merges = [
                Merge(node=edge + 1, time_s=opened_s, models=((0, index - 1, 1.0),), **clock)
                for edge in range(self.edges)
            ]
            for count in range(self.edge_rounds):
                times = {"sent_s": opened_s + count * step_s, "arrived_s": opened_s + (count + 1) * step_s}
                number += 1
                for edge, users in enumerate(members):
                    deliveries = tuple(Delivery(user=user, base=number - 1, **times) for user in users)
                    merges.append(
                        Merge(
                            node=edge + 1,
                            number=number,
                            round=index - 1,
                            time_s=times["arrived_s"],
                            deliveries=deliveries,
                        )
                    )
            closed_s = index * self.round_length
            models = tuple((edge + 1, number, float(len(users))) for edge, users in enumerate(members))
            merges.append(Merge(node=0, number=index, round=index, time_s=closed_s, models=models))
            yield closed_round(context, index, opened_s, closed_s, merges)

    def merging_nodes(self, users):
        return self.edges

    def max_deliveries(self, users, rounds):
        return users * self.edge_rounds

    def laws(self):
        return (Law.none("draws nothing"),)


class Gossip(Access):
    """Each user trains its own model, and then averages it with those of its neighbours: D-PSGD.

    ``x_u <- Σ_v W_uv (x_v - lr g_v)`` with Metropolis weights W.  The version of a round is the mean of all users'
    models, for the evaluation alone.

    Source: Lian et al., "Can decentralized algorithms outperform centralized algorithms?", NeurIPS 2017.

    Example::

        kind: gossip
        graph: ring
        round_length: 10 s
    """

    graph: Literal["ring", "complete"] = "ring"
    """Neighbours of each user."""
    round_length: Annotated[Seconds, Field(gt=0)] = 1.0
    """Length of a round."""

    def rounds(self, context):
        weights = metropolis(self.graph, context.users)
        users = range(context.users)
        for index in range(1, context.rounds + 1):
            opened_s, closed_s = (index - 1) * self.round_length, index * self.round_length
            trained, mixed = 2 * index - 1, 2 * index
            merges = []
            for user in users:
                delivery = Delivery(user=user, base=mixed - 2, sent_s=opened_s, arrived_s=closed_s)
                merges.append(
                    Merge(node=user + 1, number=trained, round=index - 1, time_s=closed_s, deliveries=(delivery,))
                )
            for user in users:
                models = tuple((v + 1, trained, weights[user, v]) for v in np.flatnonzero(weights[user]).tolist())
                merges.append(Merge(node=user + 1, number=mixed, round=index, time_s=closed_s, models=models))
            models = tuple((user + 1, mixed, 1.0) for user in users)
            merges.append(Merge(node=0, number=index, round=index, time_s=closed_s, models=models))
            yield closed_round(context, index, opened_s, closed_s, merges)

    def merging_nodes(self, users):
        return users

    def laws(self):
        return (Law.none("draws nothing"),)


class Everyone(Access):
    """The server aggregates all users in each round, as in FedAvg with full participation.

    Example::

        kind: everyone
        round_length: 10 s
    """

    round_length: Annotated[Seconds, Field(gt=0)] = 1.0
    """Length of a round."""

    def rounds(self, context):
        for index in range(1, context.rounds + 1):
            opened_s, closed_s = (index - 1) * self.round_length, index * self.round_length
            deliveries = tuple(
                Delivery(user=user, base=index - 1, sent_s=opened_s, arrived_s=closed_s)
                for user in range(context.users)
            )
            yield closed_round(context, index, opened_s, closed_s, (), deliveries)

    def laws(self):
        return (Law.none("draws nothing"),)


class Asynchronous(Access):
    """Edges whose rounds do not meet: they train on older versions of their own, and the server takes what is there.

    In replica r, edge e merges in each round with ``(round + e + r) % 3 != 0``; every second time its user starts from
    the version before its newest.  The server merges the edges' newest versions in even rounds, and takes an update of
    user 0 itself in odd ones.

    Example::

        kind: asynchronous
        edges: 2
    """

    edges: Annotated[int, Field(ge=1)] = 2
    """Number of edges."""

    def rounds(self, context):
        newest = [0] * self.edges
        oldest = [0] * self.edges
        for index in range(1, context.rounds + 1):
            opened_s, closed_s = float(index - 1), float(index)
            merges = []
            for edge in range(self.edges):
                if (index + edge + context.replica) % 3 == 0:
                    continue
                base = max(oldest[edge], newest[edge] - index % 2)
                user = (index + edge) % context.users
                delivery = Delivery(user=user, base=base, sent_s=opened_s, arrived_s=opened_s + 0.5)
                oldest[edge] = newest[edge]
                newest[edge] += 1
                merges.append(
                    Merge(
                        node=edge + 1,
                        number=newest[edge],
                        round=index - 1,
                        time_s=opened_s + 0.5,
                        deliveries=(delivery,),
                        oldest=oldest[edge],
                    )
                )
            deliveries = ()
            if index % 2:
                deliveries = (Delivery(user=0, base=index - 1, sent_s=opened_s, arrived_s=closed_s),)
            else:
                models = (*((edge + 1, newest[edge], 1.0 + edge) for edge in range(self.edges)), (0, index - 1, 0.5))
                merges.append(Merge(node=0, number=index, round=index, time_s=closed_s, models=models))
            yield closed_round(context, index, opened_s, closed_s, merges, deliveries)

    def merging_nodes(self, users):
        return self.edges

    def laws(self):
        return (Law.none("draws nothing"),)


class TwoHomes(Access):
    """User 0 delivers to both edges at one instant, from versions of the same number, and user 1 twice to the first.

    Example::

        kind: two_homes
    """

    def rounds(self, context):
        for index in range(1, context.rounds + 1):
            opened_s, closed_s = float(index - 1), float(index)
            times = {"sent_s": opened_s, "arrived_s": closed_s}
            base = index - 1
            own = Delivery(user=0, base=base, **times)
            twice = Delivery(user=1, base=base, **times)
            clock = {"number": index, "round": index, "time_s": closed_s}
            merges = (
                Merge(node=1, deliveries=(own, twice, twice), **clock),
                Merge(node=2, deliveries=(own,), **clock),
                Merge(node=0, models=((1, index, 1.0), (2, index, 1.0)), **clock),
            )
            yield closed_round(context, index, opened_s, closed_s, merges)

    def merging_nodes(self, users):
        return 2

    def laws(self):
        return (Law.none("draws nothing"),)


def metropolis(graph, users):
    """Return the weights ``1 / (1 + max(d_u, d_v))`` of neighbours, and the rest at the user, ``[users, users]``."""
    is_near = np.ones((users, users), np.bool_)
    if graph == "ring":
        distance = np.abs(np.subtract.outer(np.arange(users), np.arange(users)))
        is_near = np.minimum(distance, users - distance) <= 1
    degrees = is_near.sum(1) - 1
    weights = np.where(is_near, 1.0 / (1 + np.maximum.outer(degrees, degrees)), 0.0)
    np.fill_diagonal(weights, 0.0)
    np.fill_diagonal(weights, 1.0 - weights.sum(1))
    return weights
