"""Check of user-written objectives and aggregations: one trial on made-up values before a run.

The results must have the shapes of the contract: broadcasting would stretch a wrong shape silently.  No method may
write into its arguments, which other learners and later rounds read, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.errors import Fault, ScenarioError
from netfl.learning.aggregation import Aggregation, Updates
from netfl.learning.objective import Objective
from netfl.learning.spec import LearnerSpec
from netfl.registry import find_plugins, kind_of, one_line

_VERSION_SIZE = 7
_MAX_DELIVERIES = 3


def check_learner_plugins(learners: Mapping[str, LearnerSpec], users: int, max_deliveries: int) -> None:
    """Check the user-written parts of *learners*.

    Args:
        learners: by name.
        users: number of users.
        max_deliveries: maximum number of deliveries in a round.

    Raises:
        ScenarioError: a part violates its contract; keys begin with the learner's name.
    """
    with torch.no_grad(), torch.random.fork_rng(devices=[]):  # without inference mode, tensors count writes
        faults = [
            fault.under(f"{name}.{key}")
            for name, learner in learners.items()
            for key, part in find_plugins(learner)
            for fault in _faults(part, learner, users, max_deliveries)
        ]
    if faults:
        raise ScenarioError(faults)


def _faults(part: object, learner: LearnerSpec, users: int, max_deliveries: int) -> Iterator[Fault]:
    if isinstance(part, Objective):
        yield from _objective_faults(part)
    elif isinstance(part, Aggregation):
        yield from _aggregation_faults(part, learner, users, min(_MAX_DELIVERIES, users, max(1, max_deliveries)))


def _objective_faults(part: Objective) -> Iterator[Fault]:
    """Try two mini-batches, of three examples and of two, and the value for four users."""
    losses, t = torch.tensor([[0.5, 1.0, 2.0], [3.0, 1.5, 0.0]]), torch.zeros(2)
    share = torch.tensor([[1 / 3] * 3, [1 / 2, 1 / 2, 0]])
    h = {name: torch.full((2,), value) for name, value in part.hyper().items()}
    inputs: Inputs = {"losses": losses, "share": share, "t": t, **{f"h['{name}']": value for name, value in h.items()}}
    weights = _Trial(
        part,
        "weights",
        lambda: part.weights(losses, share, t, h),
        expected="(tensor [2, 3], tensor [2])",
        given="2 jobs with mini-batches of 3: weights, [jobs, batch], and the slope of t, [jobs]",
    )
    faults = [*weights.faults(inputs)]
    yield from faults
    if not faults and part.weights(losses, share, t, h)[0][share == 0].any():
        problem, remedy = "its method 'weights' gives padding a weight", "multiply by share, which is 0 there"
        yield Fault("", problem, kind_of(type(part)), remedy)
    f, rho = np.array([0.5, 1.0, 2.0, 3.0]), np.array([0.4, 0.3, 0.2, 0.1])
    value = _Trial(part, "value", lambda: part.value(f, rho, 0.0), "a number", "4 users: the global objective")
    yield from value.faults({"losses": f, "rho": rho})


def _aggregation_faults(part: Aggregation, learner: LearnerSpec, users: int, deliveries: int) -> Iterator[Fault]:
    """Try a first round with so many *deliveries*, and one without."""
    current = torch.linspace(-1.0, 1.0, _VERSION_SIZE)
    rates = torch.from_numpy(learner.rates(np.zeros(1, np.int64))[0]).float()
    part = part.with_participation(np.full(users, 0.5))
    version: Inputs = {"current": current}
    opening = _Trial(part, "open", lambda: part.open(users, current), "a mapping", "the state: tensors by name")
    faults = [*opening.faults(version)]
    if faults:
        yield from faults
        return
    state = part.open(users, current)
    message, senders = part.message(state), torch.arange(deliveries)
    bases, ones = current.expand(deliveries, -1).clone(), torch.ones(deliveries)
    updates = Updates(
        round=1,
        users=senders,
        base_rounds=torch.zeros_like(senders),
        bases=bases,
        models=bases + 0.1 * (senders + 1)[:, None],
        samples=ones,
        steps=ones.clone(),
        rates=rates.expand(deliveries, -1).clone(),
        newest_rates=rates,
        losses=ones.clone() if part.needs_losses else None,
        messages=None if message is None else torch.stack([message] * deliveries),
    )
    expected = f"(tensor [{_VERSION_SIZE}], a mapping)"
    given = f"versions of {_VERSION_SIZE} numbers, t among them: the next version, and the next state"
    columns = {f"updates.{field.name}": getattr(updates, field.name) for field in fields(updates)}
    inputs = version | {name: value for name, value in columns.items() if isinstance(value, Tensor)}
    step = _Trial(part, "step", lambda: part.step(state, current, updates), expected, given)
    yield from step.faults(inputs)
    idle = _Trial(part, "idle", lambda: part.idle(state, current, 1, rates), expected, given)
    yield from idle.faults(version | {"newest_rates": rates})


Inputs = dict[str, Tensor | NDArray[np.float64]]
"""Arguments by name, into which a method must not write."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """One call of a method.

    Args:
        part: the user-written model.
        method: its name.
        call: calls it.
        expected: description of the result.
        given: description of the arguments, for messages.
    """

    part: Objective | Aggregation
    method: str
    call: Callable[[], object]
    expected: str
    given: str

    def faults(self, inputs: Inputs) -> Iterator[Fault]:
        """Run the call; compare its result with the expected one, and *inputs* with their values before."""
        kind = kind_of(type(self.part))
        before = {name: (_write_count(value), deepcopy(value)) for name, value in inputs.items()}
        try:
            result = _describe(self.call())
        except Exception as error:  # whatever the user's class does
            problem = f"its method '{self.method}' fails on made-up figures: {one_line(error)}"
            yield Fault("", problem, kind, f"given: {self.given}")
            return
        if result != self.expected:
            problem = f"its method '{self.method}' gives {result}, not {self.expected}"
            yield Fault("", problem, kind, f"it was given {self.given}")
        for name, (writes, value) in before.items():
            if writes != _write_count(inputs[name]) or not np.array_equal(value, inputs[name]):
                remedy = f"make a new tensor: {name} + x, not {name} += x or {name}.add_(x)"
                yield Fault("", f"its method '{self.method}' writes into its argument {name}", kind, remedy)


def _write_count(value: Tensor | NDArray[np.float64]) -> int:
    """Count the writes into a tensor or a view of it; 0 for an array, which does not count them."""
    return value._version if isinstance(value, Tensor) else 0


def _describe(result: object) -> str:
    if isinstance(result, Tensor):
        return f"tensor {list(result.shape)}"
    if isinstance(result, tuple | list):
        return f"({', '.join(map(_describe, result))})"
    if isinstance(result, Mapping):
        return "a mapping"
    if isinstance(result, int | float | np.number):
        return "a number"
    return "nothing" if result is None else f"a {type(result).__name__}"
