"""Rules from outside netfl with and without a largest weight, most of which state none."""

from netfl.learning.aggregation import Aggregation, Average, Mifa
from netfl.learning.objective import Erm, Objective


class Seven(Aggregation):
    """Moves seven times the mean change."""

    def step(self, state, current, updates):
        return current + 7 * (updates.models - updates.bases).mean(0), state


class StatedSeven(Seven):
    """Moves seven times the mean change, and states *stated*."""

    stated: float

    def largest_weight(self, users, deliveries):
        return self.stated


class Inherited(Average):
    """Moves three times the mean change, and inherits a weight of 1 that is not meant for it."""

    def step(self, state, current, updates):
        return current + 3 * (updates.models - updates.bases).mean(0), state


class ByUser(Aggregation):
    """Adds the changes, each times the number of its user plus 1."""

    def step(self, state, current, updates):
        return current + (updates.users + 1.0) @ (updates.models - updates.bases), state


class HeavyBall(Aggregation):
    """Moves with a momentum of 0.8 along the mean change."""

    def open(self, users, current):
        return {"velocity": current.new_zeros(len(current))}

    def step(self, state, current, updates):
        velocity = 0.8 * state["velocity"] + (updates.models - updates.bases).mean(0)
        return current + velocity, {"velocity": velocity}


class MemoryInPlace(Mifa):
    """Moves along five times the mean of all users' last changes, which it writes into its state."""

    def open(self, users, current):
        return {"last": current.new_zeros(users, len(current))}

    def step(self, state, current, updates):
        state["last"][updates.users] = updates.models - updates.bases
        return self.idle(state, current, updates.round, updates.newest_rates)

    def idle(self, state, current, index, newest_rates):
        return current + 5 * state["last"].mean(0), state

    def largest_weight(self, users, deliveries):
        return None


class Buffer(Aggregation):
    """Moves only in every second round, along the mean of the changes of both."""

    def open(self, users, current):
        return {"waiting": current.new_zeros(len(current)), "rounds": current.new_zeros(())}

    def step(self, state, current, updates):
        waiting = state["waiting"] + (updates.models - updates.bases).mean(0) / 2
        rounds = state["rounds"] + 1
        if rounds % 2:
            return current, {"waiting": waiting, "rounds": rounds}
        return current + waiting, {"waiting": 0 * waiting, "rounds": rounds}


class Sign(Aggregation):
    """Moves by the sign of the mean change."""

    def step(self, state, current, updates):
        return current + (updates.models - updates.bases).mean(0).sign(), state


class Clipped(Aggregation):
    """Moves along the mean change, at most by a length of 2."""

    def step(self, state, current, updates):
        mean = (updates.models - updates.bases).mean(0)
        return current + mean * (2 / mean.norm()).clamp(max=1), state


class Middle(Aggregation):
    """Moves along the median of the changes, parameter by parameter."""

    def step(self, state, current, updates):
        return current + (updates.models - updates.bases).median(0).values, state


class Aside(Aggregation):
    """Moves each parameter by the change of its neighbour."""

    def step(self, state, current, updates):
        return current + (updates.models - updates.bases).mean(0).roll(1), state


class Falling(Aggregation):
    """Moves along the mean change, and less in each round."""

    def step(self, state, current, updates):
        return current + (updates.models - updates.bases).mean(0) / updates.round, state

    def open(self, users, current):
        return {"none": current.new_zeros(())}


class ByLoss(Aggregation):
    """Moves along the changes, weighted by the losses of their users."""

    def step(self, state, current, updates):
        return current + updates.losses @ (updates.models - updates.bases), state

    @property
    def needs_losses(self):
        return True


class BySize(Aggregation):
    """Moves along the changes, weighted by the numbers of examples."""

    def step(self, state, current, updates):
        return current + updates.samples @ (updates.models - updates.bases), state


class ByAbsence(Aggregation):
    """Moves along the changes, weighted by the rounds since the last delivery of their users."""

    def open(self, users, current):
        return {"absent": current.new_ones(users)}

    def step(self, state, current, updates):
        following = current + state["absent"][updates.users] @ (updates.models - updates.bases)
        absent = (state["absent"] + 1).index_fill(0, updates.users, 1.0)
        return following, {"absent": absent}

    def idle(self, state, current, index, newest_rates):
        return current, {"absent": state["absent"] + 1}


class Still(Aggregation):
    """Never moves."""

    def step(self, state, current, updates):
        return current, state


class Failing(Aggregation):
    def step(self, state, current, updates):
        raise RuntimeError


class Triple(Objective):
    """Three times the mean loss."""

    @staticmethod
    def gradient_weights(losses, share, t, h):
        return 3 * share, t.new_zeros(t.shape)

    def value(self, losses, rho, t):
        return 3 * float(losses @ rho)


class StatedOne(Triple):
    """Three times the mean loss, and states a weight of 1."""

    largest_weight = 1.0


class OfLoss(Erm):
    """Half of the squared loss, whose weights are the losses."""

    @staticmethod
    def gradient_weights(losses, share, t, h):
        return share * losses, t.new_zeros(t.shape)
