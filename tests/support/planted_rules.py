"""Aggregations with a planted difference from the average, for tests of tuned comparisons."""

from netfl.learning.aggregation import Average


class Tripled(Average):
    """The average with a step that is three times as long; it does not state so, and inherits the weight 1."""

    def step(self, state, current, updates):
        mean, state = super().step(state, current, updates)
        return current + 3 * (mean - current), state
