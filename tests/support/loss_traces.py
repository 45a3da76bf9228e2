"""Rounds of random updates with losses, for rules that read `Updates.losses`, beside their papers in NumPy."""

import numpy as np
import torch

from netfl.learning.aggregation import Updates
from support.paper_algorithms import DeliveredUpdate

USERS = 7
SIZE = 4
ABSENT = 5
"""A user that comes for the first time after two thirds of the rounds."""


def play_beside(rule, reference, seed, rounds=60):
    """Yield the version of *rule* and that of the *reference* of its paper after each of the *rounds*, and the state.

    Users come with different chances, some twice in a round, from versions of up to six rounds before.
    """
    rng = np.random.default_rng(seed)
    chances = np.array([0.9, 0.6, 0.5, 0.3, 0.2, 0.7, 0.1])
    samples = rng.integers(1, 30, USERS)
    level = rng.uniform(0.3, 2.0, USERS)
    current = torch.tensor(rng.normal(size=SIZE))
    version = current.numpy()
    state = rule.open(USERS, current)
    for index in range(1, rounds + 1):
        comes = rng.random(USERS) < chances
        comes[ABSENT] &= index > 2 * rounds // 3
        users = rng.permutation(np.flatnonzero(comes))
        if index % 9 == 4:
            users = users[:0]
        if index % 4 == 3:
            users = np.append(users, users[:1])
        since = np.maximum(index - 1 - rng.integers(0, 7, len(users)) * (rng.random(len(users)) < 0.4), 0)
        bases = rng.normal(size=(len(users), SIZE))
        models = bases + rng.normal(size=(len(users), SIZE))
        losses = level[users] * rng.uniform(0.5, 1.5, len(users)) / index**0.3
        delivered = [
            DeliveredUpdate(int(user), int(base), row, model, int(samples[user]), 1, 1.0, 1.0, float(loss))
            for user, base, row, model, loss in zip(users, since, bases, models, losses, strict=True)
        ]
        version = reference.step(version, delivered)
        if len(users):
            current, state = rule.step(state, current, updates_of(index, users, since, bases, models, samples, losses))
        else:
            current, state = rule.idle(state, current, index, torch.ones(2))
        yield current.numpy(), version, state


def updates_of(index, users, since, bases, models, samples, losses):
    """Return the updates of *users* in round *index*, with the number of examples of every user, *samples*."""
    ones = torch.ones(len(users), dtype=torch.float64)
    return Updates(
        index,
        torch.tensor(users),
        torch.tensor(since),
        torch.tensor(bases),
        torch.tensor(models),
        torch.tensor(samples[users]).double(),
        ones,
        torch.ones(len(users), 2),
        torch.ones(2),
        torch.tensor(losses),
    )
