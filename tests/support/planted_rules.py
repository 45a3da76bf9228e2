"""Aggregations with a planted difference from the average, for tests of tuned comparisons."""

from dataclasses import replace

from netfl.learning.aggregation import Aggregation, Average


class Tripled(Average):
    """The average with a step that is three times as long; it does not state so, and inherits the weight 1."""

    def step(self, state, current, updates):
        mean, state = super().step(state, current, updates)
        return current + 3 * (mean - current), state


class Partial(Average):
    """The average without the users 0 to 3, whose labels the model then hardly learns: a rule that is truly worse."""

    def step(self, state, current, updates):
        kept = updates.users > 3
        if not kept.any():
            return current, state
        columns = {name: getattr(updates, name)[kept] for name in ("users", "bases", "models", "samples")}
        return super().step(state, current, replace(updates, **columns))


class Still(Aggregation):
    """Ignores all updates: its model is never trained.

    Example::

        kind: support.planted_rules:Still
    """

    def step(self, state, current, updates):
        return current, state
