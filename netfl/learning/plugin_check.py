"""Objectives and aggregations of the user's own, tried once on made-up figures before a run relies on them.

What they give is held to the shapes of their contracts: a wrong one may well be stretched to the right one without a
word, and something else would be learned than is meant.  No method may write into its arguments, which other learners
and later rounds read, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy as copy
from dataclasses import fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.errors import Fault, ScenarioError
from netfl.learning.aggregation import Aggregation, Updates
from netfl.learning.objective import Objective
from netfl.learning.spec import LearnerSpec
from netfl.registry import find_plugins, kind_of, one_line

_SIZE = 7
"""The length of a made-up version: parameters, and t."""
_HEARD = 3
"""Made-up deliveries, where an access can bring so many."""


def check_learner_plugins(learners: Mapping[str, LearnerSpec], users: int, most: int) -> None:
    """Try what is the user's own in *learners*.

    Args:
        learners: by name.
        users: the number of users.
        most: how many deliveries a round can bring.

    Raises:
        ScenarioError: something is not as its contract says; keys begin with the learner's name.
    """
    with torch.no_grad(), torch.random.fork_rng(devices=[]):  # without inference mode, for tensors count writes
        faults = [
            fault.under(f"{name}.{key}")
            for name, learner in learners.items()
            for key, part in find_plugins(learner)
            for fault in _faults(part, learner, users, most)
        ]
    if faults:
        raise ScenarioError(faults)


def _faults(part: object, learner: LearnerSpec, users: int, most: int) -> Iterator[Fault]:
    """What is wrong with one model; nothing with those of families that are not tried."""
    if isinstance(part, Objective):
        yield from _of_objective(part)
    elif isinstance(part, Aggregation):
        yield from _of_aggregation(part, learner, users, min(_HEARD, users, max(1, most)))


def _of_objective(part: Objective) -> Iterator[Fault]:
    """The weights of two mini-batches, of three examples and of two, and the value for four users."""
    losses, t = torch.tensor([[0.5, 1.0, 2.0], [3.0, 1.5, 0.0]]), torch.zeros(2)
    share = torch.tensor([[1 / 3] * 3, [1 / 2, 1 / 2, 0]])
    h = {name: torch.full((2,), value) for name, value in part.hyper().items()}
    given = "2 jobs with mini-batches of 3: weights, [jobs, batch], and the slope of t, [jobs]"
    wanted = "(tensor [2, 3], tensor [2])"
    inputs: Inputs = {"losses": losses, "share": share, "t": t, **{f"h['{name}']": value for name, value in h.items()}}
    wrong = [*_held(part, "weights", lambda: part.weights(losses, share, t, h), wanted, given, inputs)]
    yield from wrong
    if not wrong and part.weights(losses, share, t, h)[0][share == 0].any():
        problem, remedy = "its method 'weights' gives padding a weight", "multiply by share, which is 0 there"
        yield Fault("", problem, kind_of(type(part)), remedy)
    f, rho = np.array([0.5, 1.0, 2.0, 3.0]), np.array([0.4, 0.3, 0.2, 0.1])
    given = "4 users: the global objective"
    yield from _held(part, "value", lambda: part.value(f, rho, 0.0), "a number", given, {"losses": f, "rho": rho})


def _of_aggregation(part: Aggregation, learner: LearnerSpec, users: int, heard: int) -> Iterator[Fault]:
    """A first round with so many deliveries, and one without."""
    current, rates = torch.linspace(-1.0, 1.0, _SIZE), torch.from_numpy(learner.rates(np.zeros(1, np.int64))[0]).float()
    often, state_is = np.full(users, 0.5), "the state: tensors by name"
    version: Inputs = {"current": current}
    opened = [*_held(part, "open", lambda: part.informed(often).open(users, current), "a mapping", state_is, version)]
    if opened:
        yield from opened
        return
    part = part.informed(often)
    state = part.open(users, current)
    message, who = part.message(state), torch.arange(heard)
    bases, each = current.expand(heard, -1).clone(), torch.ones(heard)
    updates = Updates(
        1, who, torch.zeros_like(who), bases, bases + 0.1 * (who + 1)[:, None], each, each.clone(),
        rates.expand(heard, -1).clone(), rates, each.clone() if part.wants_losses else None,
        None if message is None else torch.stack([message] * heard),
    )  # fmt: skip
    wanted = f"(tensor [{_SIZE}], a mapping)"
    given = f"versions of {_SIZE} numbers, t among them: the next version, and the next state"
    columns = {f"updates.{field.name}": getattr(updates, field.name) for field in fields(updates)}
    inputs = version | {name: value for name, value in columns.items() if isinstance(value, Tensor)}
    yield from _held(part, "step", lambda: part.step(state, current, updates), wanted, given, inputs)
    yield from _held(part, "idle", lambda: part.idle(state, current, 1, rates), wanted, given, version | {"now": rates})


Inputs = dict[str, Tensor | NDArray[np.float64]]
"""Arguments by name, which a method only reads."""


def _held(
    part: Objective | Aggregation,
    method: str,
    call: Callable[[], object],
    wanted: str,
    given: str,
    inputs: Inputs,
) -> Iterator[Fault]:
    """Compare the result of a *call* of a *method* with what is *wanted*, and its *inputs* with what they were."""
    kind = kind_of(type(part))
    before = {name: (_writes(value), copy(value)) for name, value in inputs.items()}
    try:
        found = _described(call())
    except Exception as error:  # whatever the user's class does
        yield Fault("", f"its method '{method}' fails on made-up figures: {one_line(error)}", kind, f"given: {given}")
        return
    if found != wanted:
        yield Fault("", f"its method '{method}' gives {found}, not {wanted}", kind, f"it was given {given}")
    for name, (writes, value) in before.items():
        if writes != _writes(inputs[name]) or not np.array_equal(value, inputs[name]):
            remedy = f"make a new tensor: {name} + x, not {name} += x or {name}.add_(x)"
            yield Fault("", f"its method '{method}' writes into its argument {name}", kind, remedy)


def _writes(value: Tensor | NDArray[np.float64]) -> int:
    """How often a tensor, or a view of it, was written into; 0 of an array, which does not count that."""
    return value._version if isinstance(value, Tensor) else 0


def _described(found: object) -> str:
    """What a method gave, in a few words."""
    if isinstance(found, Tensor):
        return f"tensor {list(found.shape)}"
    if isinstance(found, tuple | list):
        return f"({', '.join(map(_described, found))})"
    if isinstance(found, Mapping):
        return "a mapping"
    if isinstance(found, int | float | np.number):
        return "a number"
    return "nothing" if found is None else f"a {type(found).__name__}"
