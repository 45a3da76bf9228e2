"""User-defined objectives and aggregations, correct and faulty."""

import math
from typing import Annotated

from netfl.core.family_members import FamilyMember
from netfl.learning.aggregation import Aggregation
from netfl.learning.aggregation.average import Average
from netfl.learning.objective import Objective
from netfl.learning.objective.erm import Erm


class Softened(Objective):
    """A correct objective."""

    power: float = 0.5

    @staticmethod
    def gradient_weights(losses, share, t, h):
        return share * losses ** h["power"][:, None], 0 * t

    def value(self, losses, rho, t):
        return rho @ losses

    def hyper(self):
        return {"power": self.power}


class Normalised(Erm):
    """Accepts only mini-batches whose shares add up to 1."""

    @staticmethod
    def gradient_weights(losses, share, t, h):
        if ((share.sum(1) - 1).abs() > 1e-6).any():
            raise ValueError(share)
        return share, 0 * t


class NoWeights(Erm):
    @staticmethod
    def gradient_weights(losses, share, t, h):
        pass


class OneWeight(Erm):
    @staticmethod
    def gradient_weights(losses, share, t, h):
        return share


class WeightOfAll(Erm):
    """Returns one number per user, which would be broadcast over its examples."""

    @staticmethod
    def gradient_weights(losses, share, t, h):
        return losses.mean(1, keepdim=True), 0 * t


class OnPadding(Erm):
    """Gives weight to the padding of a batch."""

    @staticmethod
    def gradient_weights(losses, share, t, h):
        return 0 * losses + 1 / 3, 0 * t


class NoKey(Erm):
    @staticmethod
    def gradient_weights(losses, share, t, h):
        return share * h["tau"], 0 * t


class Wordy(Erm):
    def value(self, losses, rho, t):
        return "much"


class Kept(Aggregation):
    """A correct aggregation that keeps state and uses losses and messages."""

    def open(self, users, current):
        return {"rounds": current.new_zeros(())}

    def step(self, state, current, updates):
        moved = (updates.losses[:, None] * (updates.models - updates.bases) + updates.messages).mean(0)
        return current + moved, {"rounds": state["rounds"] + 1}

    def message(self, state):
        return state["rounds"].expand(1)

    @property
    def needs_losses(self):
        return True


class Sized(Average):
    """Accepts only 5 users and 6 parameters."""

    def memory(self, users, parameters):
        if (users, parameters) != (5, 6):
            raise ValueError(users, parameters)
        return super().memory(users, parameters)


class Weighing(Average):
    """States a weight that may be wrong."""

    gives: str

    def largest_weight(self, users, deliveries):
        return {"negative": -1.0, "zero": 0.0, "infinite": math.inf, "nan": math.nan, "half": 0.5}[self.gives]


class WeighingInWords(Average):
    def largest_weight(self, users, deliveries):
        return "one"


class Single(Average):
    """Correct only for rounds with one delivery."""

    def step(self, state, current, updates):
        (model,) = updates.models
        return model, state


class OnlyVersion(Average):
    def step(self, state, current, updates):
        return updates.models.mean(0)


class NotSummed(Average):
    def step(self, state, current, updates):
        return current + updates.models - updates.bases, state


class Failing(Average):
    def step(self, state, current, updates):
        raise LookupError("no such\nuser")


class FailingHook(Average):
    """Fails in the method named *hook*."""

    hook: str

    def with_participation(self, rates):
        return self._fail() if self.hook == "with_participation" else self

    def with_examples(self, examples):
        return self._fail() if self.hook == "with_examples" else self

    def message(self, state):
        return self._fail() if self.hook == "message" else None

    def _fail(self):
        raise LookupError("no rates")


class NoState(Average):
    def open(self, users, current):
        return None


class Idle(Average):
    def idle(self, state, current, index, now):
        return None


class InPlace(Average):
    """Returns the result of `Average`, but modifies one of its arguments in place."""

    where: str = "current"

    def step(self, state, current, updates):
        given = {"current": current, "models": updates.models, "samples": updates.samples, "users": updates.users}
        following, state = super().step(state, current, updates)
        if self.where in given:
            given[self.where].mul_(2)
        return following.clone(), state

    def idle(self, state, current, index, now):
        if self.where == "idle":
            current += 1.0
        return current.clone(), state

    def open(self, users, current):
        if self.where == "open":
            current.numpy()[0] += 1.0  # hidden from torch
        return {"count": current.new_zeros(users)}


class CountsInPlace(Average):
    """A correct aggregation that modifies its own state in place."""

    def open(self, users, current):
        return {"count": current.new_zeros(users)}

    def step(self, state, current, updates):
        state["count"][updates.users] += 1
        return updates.models.mean(0), state


class WeightsInPlace(Erm):
    """Modifies the shares of a mini-batch in place."""

    @staticmethod
    def gradient_weights(losses, share, t, h):
        return share.mul_(losses), 0 * t


class ValueInPlace(Erm):
    """Sorts its argument in place."""

    def value(self, losses, rho, t):
        losses.sort()
        losses[0] += 1.0
        return float(losses @ rho)


class Inside(Average):
    """A wrapper that is correct unless the inner aggregation needs participation rates."""

    inner: Annotated[Aggregation, FamilyMember()]

    def open(self, users, current):
        return self.inner.open(users, current)

    def step(self, state, current, updates):
        return self.inner.step(state, current, updates)


class Telling(Inside):
    """A correct wrapper for every inner aggregation."""

    def with_participation(self, rates):
        return self.model_copy(update={"inner": self.inner.with_participation(rates)})

    def with_examples(self, examples):
        return self.model_copy(update={"inner": self.inner.with_examples(examples)})


class Around(Average):
    """An aggregation that ignores its inner aggregation."""

    inner: Annotated[Aggregation, FamilyMember()]


class Remembering(Average):
    """Has a faulty state, from the first or the second round on."""

    fault: str

    def open(self, users, current):
        return {"last": [1.0] if self.fault == "list" else current.new_zeros(users)}

    def step(self, state, current, updates):
        if self.fault == "second" and state["last"].any():
            raise LookupError("no such row")
        new = {"last": state["last"] + 1} if self.fault == "second" else dict(state)
        if self.fault == "later":
            new["last"] = new["last"].tolist()
        if self.fault == "shape":
            new["last"] = new["last"][:2]
        version = updates.models.mean(0)
        return (version.double() if self.fault == "type" else version), new

    def memory(self, users, parameters):
        return "many" if self.fault == "memory" else users


class Nan(Average):
    """Returns NaN from its third round on."""

    def open(self, users, current):
        return {"rounds": current.new_zeros(())}

    def step(self, state, current, updates):
        version, _ = super().step(state, current, updates)
        return version / (state["rounds"] < 2), {"rounds": state["rounds"] + 1}
