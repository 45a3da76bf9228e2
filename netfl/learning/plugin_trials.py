"""Trials of user-written models, objectives, aggregations, rules of devices and codecs before a run.

The results must have the shapes of the contract: broadcasting would stretch a wrong shape silently.  No method may
write into its arguments, which other learners and later rounds read, too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.core.family_members import find_plugins
from netfl.core.kinds import kind_of
from netfl.core.plugins import is_plugin, try_call
from netfl.core.spec import Spec
from netfl.errors import Fault, ScenarioError
from netfl.learning.aggregation import Aggregation, SingleUpdates, State, Updates
from netfl.learning.architecture import Architecture
from netfl.learning.codec import Codec, Codecs, Encoded
from netfl.learning.codec_draws import CodecDraws
from netfl.learning.data import Data
from netfl.learning.device import DeviceRule
from netfl.learning.device_store import UserRows
from netfl.learning.model import Model
from netfl.learning.model._trial import find_problem
from netfl.learning.objective import Objective
from netfl.learning.reported_values import values_problem
from netfl.learning.rule_draws import RuleDraws
from netfl.learning.spec import LearnerSpec
from netfl.streams import Streams
from netfl.types import DECLARE, SERVER, UNDECLARED, Floats, Ints

_VERSION_SIZE = 7
_MAX_DELIVERIES = 3
_BUFFERS = 2
_MANY_BATCHES = 1000
"""Mini-batches of a user with many examples."""


def try_learners(learners: Mapping[str, LearnerSpec], users: int, max_deliveries: int) -> None:
    """Try the user-written parts of *learners*; raise a ScenarioError."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        faults = []
        for name, learner in learners.items():
            for key, part in find_plugins(learner):
                trial = _faults(part, learner, users, max_deliveries)
                faults += [fault.under(f"learners.{name}.{key}") for fault in trial]
    if faults:
        raise ScenarioError(faults)


def try_codecs(codecs: Codecs) -> None:
    """Try user-written *codecs*; raise a ScenarioError."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        faults = []
        for key, codec in codecs.named.items():
            if is_plugin(codec):
                faults += [fault.under(key) for fault in _codec_faults(codec)]
    if faults:
        raise ScenarioError(faults)


def try_model(model: Model, data: Data) -> None:
    """Open a user-written *model* for examples like *data* and try it; raise a ScenarioError with the first problem."""
    with torch.random.fork_rng(devices=[]):
        wrong = _model_problem(model, data.shape, data.classes, data.tokens)
    if wrong is not None:
        problem, remedy = wrong
        raise ScenarioError([Fault("model", problem, kind_of(type(model)), remedy)])


def _model_problem(model: Model, shape: tuple[int, ...], classes: int, tokens: int | None) -> tuple[str, str] | None:
    """Return the first problem of *model* and its remedy; ``None`` without one."""
    remedy = "return ModuleArchitecture(module, start)"
    architecture, failure = try_call(model, lambda: model.open(shape, classes, tokens))
    if failure:
        return f"its method 'open' fails: {failure}", remedy
    if not isinstance(architecture, Architecture):
        return f"its method 'open' gives {_describe(architecture)}, not an Architecture", remedy
    size = model.parameters(shape, classes, tokens)  # which the scenario has tried
    if size != architecture.size:
        problem = f"its method 'parameters' gives {size}, but what it opens has {architecture.size}"
        return problem, "count all parameters, and the buffers of its state_dict: they decide the size of an update"
    return find_problem(architecture, shape, classes, tokens)


def _faults(part: object, learner: LearnerSpec, users: int, max_deliveries: int) -> Iterator[Fault]:
    if isinstance(part, Objective):
        yield from _objective_faults(part)
    elif isinstance(part, Aggregation):
        deliveries = min(_MAX_DELIVERIES, users, max(1, max_deliveries))
        yield from _aggregation_faults(part, learner, users, deliveries)
    elif isinstance(part, DeviceRule):
        yield from _device_faults(part, learner)


def _device_faults(part: DeviceRule, learner: LearnerSpec) -> Iterator[Fault]:
    """Try the first two updates of a device of *learner*, and the steps of two users."""
    base = torch.arange(float(_VERSION_SIZE)).cos()
    kept: Mapping[str, Tensor] = {}
    for number in ("first", "second"):
        given = f"a version of {_VERSION_SIZE} numbers, and what a device has before its {number} update"
        inputs = {"base": base, "kept": kept}
        start = yield from _try(part, "start", inputs, _describe(base), f"{given}; it returns the model to train")
        if start is None:
            return
        inputs = {"start": start, "trained": start.clone().mul_(0.5), "kept": kept}
        given = f"two models of {_VERSION_SIZE} numbers, and what a device has before its {number} update"
        newly_kept = yield from _try(part, "keep", inputs, "", f"{given}; it returns vectors by name")
        if newly_kept is None:
            return
        if not _are_vectors(newly_kept) or _changes_length(kept, newly_kept):
            problem = f"its method 'keep' gives {_describe(newly_kept)}, not vectors by name"
            remedy = "return tensors of one dimension; a name has always one length"
            yield Fault("", problem, kind_of(type(part)), remedy)
            return
        kept = {**kept, **newly_kept}
    yield from _head_faults(part, learner)


def _head_faults(part: DeviceRule, learner: LearnerSpec) -> Iterator[Fault]:
    """Try the steps of the head of a user with one mini-batch, and of one with many, unless a mini-batch has all."""
    width = 1
    if isinstance(learner.batch_size, int):
        width = learner.batch_size
    work = learner.local_work.count(width * np.array([1, _MANY_BATCHES]))
    inputs = {"per_pass": np.array(work.per_pass)}
    given = f"{_show(work.per_pass)} mini-batches of a pass of 2 users; it returns numbers of steps, [users], or None"
    steps = yield from _try(part, "steps_of_head", inputs, "", given)
    if steps is None:
        return
    kind = kind_of(type(part))
    problem = ""
    remedy = f"it was given {given}"
    if not isinstance(steps, np.ndarray) or steps.shape != (2,) or not np.issubdtype(steps.dtype, np.integer):
        problem = f"its method 'steps_of_head' gives {_describe(steps)}, not an array [2] of whole numbers"
    elif steps.min() < 0:
        problem = f"its method 'steps_of_head' gives {_show(steps)} steps, of which one is negative"
    elif steps[1] > work.steps[1]:  # of the user with the most; others may have fewer steps than the head needs
        problem = f"its method 'steps_of_head' gives {steps[1]} steps of the head, but an update has {work.steps[1]}"
        remedy = f"give at most {work.steps[1]}, for {work.per_pass[1]} mini-batches of a pass"
    elif not part.has_personal_layers:
        problem = "its method 'steps_of_head' states steps of the personal parameters, but it names none"
        remedy = "override personal(layout), too"
    if problem:
        yield Fault("", problem, kind, remedy)


def _show(numbers: Ints) -> str:
    return " and ".join(map(str, numbers.tolist()))


def _are_vectors(kept: object) -> bool:
    if not isinstance(kept, Mapping):
        return False
    return all(isinstance(vector, Tensor) and vector.ndim == 1 for vector in kept.values())


def _changes_length(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> bool:
    """Return whether a vector has another length than *before*."""
    return any(len(after[name]) != len(vector) for name, vector in before.items() if name in after)


def _codec_faults(part: Codec) -> Iterator[Fault]:
    """Try the changes of two updates in three lanes together, one of them alone, and both in float64."""
    change = torch.arange(6.0 * _VERSION_SIZE).sin().view(2, 3, _VERSION_SIZE)
    together = yield from _try_coding(part, change, np.arange(2))
    if together is None:
        return
    alone = yield from _try_coding(part, change[1:, 2:].clone(), np.array([1]))
    if alone is not None and not torch.allclose(alone, together[1:, 2:], rtol=1e-3, atol=1e-5, equal_nan=True):
        problem = "what is read of an update depends on the updates and lanes that are encoded with it"
        remedy = "encode each row of parameters by itself, over the last dimension, and draw from draws only"
        yield Fault("", problem, kind_of(type(part)), remedy)
    if alone is not None:
        yield from _try_coding(part, change.double(), np.arange(2))


def _try_coding(part: Codec, change: Tensor, users: Ints) -> Generator[Fault, None, Tensor | None]:
    """Try the *change* of *users*, ``[users, lanes, parameters]``; return what is read, ``None`` after an error."""
    kind = kind_of(type(part))
    stream_keys = np.ones((len(users), 2), np.int64)
    zeros = np.zeros_like(users)
    draws = CodecDraws(stream_keys, users, zeros, zeros, change)
    given = "changes, [updates, lanes, parameters], and draws; it returns Encoded(values)"
    encoded = yield from _try(part, "encode", {"change": change, "draws": draws}, "", given)
    if encoded is None:
        return None
    if not isinstance(encoded, Encoded):
        problem = f"its method 'encode' gives {_describe(encoded)}, not an Encoded"
        yield Fault("", problem, kind, "return Encoded(values), from netfl.learning.codec")
        return None
    if encoded.positions is not None and not part.is_sparse:
        problem = "its method 'encode' gives positions, but 'is_sparse' states that all parameters are sent"
        yield Fault("", problem, kind, "write is_sparse: ClassVar[bool] = True in the class")
        return None
    given = "what 'encode' has returned; it returns the changes that the receiver reads"
    decoded: Tensor | None = yield from _try(part, "decode", {"encoded": encoded}, _describe(change), given)
    return decoded


def _objective_faults(part: Objective) -> Iterator[Fault]:
    """Try two mini-batches, of three examples and of two, and the value for four users."""
    losses = torch.tensor([[0.5, 1.0, 2.0], [3.0, 1.5, 0.0]])
    share = torch.tensor([[1 / 3] * 3, [1 / 2, 1 / 2, 0]])
    t = torch.zeros(2)
    h: dict[str, Any] = {}
    for name, value in part.hyper().items():
        h[name] = value if isinstance(value, bool) else torch.full((2,), value)
    given = "2 jobs with mini-batches of 3; it returns weights, [jobs, batch], and the slope of t, [jobs]"
    inputs = {"losses": losses, "share": share, "t": t, "h": h}
    faults = [*_try(part, "gradient_weights", inputs, "(tensor [2, 3], tensor [2])", given)]
    yield from faults
    if not faults:
        weights, _ = part.gradient_weights(losses, share, t, h)
        if weights[share == 0].any():
            problem = "its method 'gradient_weights' gives padding a weight"
            yield Fault("", problem, kind_of(type(part)), "multiply by share, which is 0 there")
    user_losses = np.array([0.5, 1.0, 2.0, 3.0])
    rho = np.array([0.4, 0.3, 0.2, 0.1])
    inputs = {"losses": user_losses, "rho": rho, "t": 0.0}
    yield from _try(part, "value", inputs, "a number", "4 users; it returns the global objective")


def _aggregation_faults(part: Aggregation, learner: LearnerSpec, users: int, deliveries: int) -> Iterator[Fault]:
    """Try two rounds with so many *deliveries*, and one without."""
    current = torch.linspace(-1.0, 1.0, _VERSION_SIZE)
    rates = torch.from_numpy(learner.rates(np.zeros(1, np.int64))[0]).float()
    part = yield from _try(part, "with_participation", {"rates": np.full(users, 0.5)}, "", "the participation rates")
    if part is None:
        return
    given = "the numbers of examples of all users; it returns the aggregation itself, or a copy"
    part = yield from _try(part, "with_examples", {"examples": np.arange(1, users + 1)}, "", given)
    if part is None:
        return
    sizes = {"users": users, "parameters": _VERSION_SIZE - 1}
    given = "the numbers of users and of parameters; it returns the size of the state in numbers"
    yield from _try(part, "memory", sizes, "a number", given)
    given = f"a first version of {_VERSION_SIZE} numbers; it returns the state, tensors by name"
    state = yield from _try(part, "open", {"users": users, "current": current}, "tensors by name", given)
    if state is None:
        return
    message = yield from _try(part, "message", {"state": state}, "", "the state, tensors by name")
    yield from _message_faults(part, message)
    updates = _trial_updates(part, current, deliveries, rates, message)
    expected = f"({_describe(current)}, {_describe(state)})"
    given = (
        f"versions of {_VERSION_SIZE} numbers, the last of which is t; it returns the next version and the next state"
    )
    for index in (1, 2):
        inputs = {"state": state, "current": current, "updates": replace(updates, round=index)}
        result = yield from _try(part, "step", inputs, expected, given)
        if result is None:
            return
        following, state = result
        is_right = yield from _report_faults(part, state, current, inputs["updates"], following)
        if not is_right:
            return
        current = following
    inputs = {"state": state, "current": current, "index": 3, "newest_rates": rates}
    yield from _try(part, "idle", inputs, expected, given)
    yield from _faults_beside_steps(part, state, current, updates, users)


def _trial_updates(
    part: Aggregation, current: Tensor, deliveries: int, rates: Tensor, message: Tensor | None
) -> Updates:
    """Return the updates of so many *deliveries*, all from the version *current*, with what *part* reads of them."""
    users = torch.arange(deliveries)
    bases = current.expand(deliveries, -1).clone()
    ones = torch.ones(deliveries)
    return Updates(
        round=1,
        users=users,
        base_rounds=torch.zeros_like(users),
        bases=bases,
        models=bases + 0.1 * (users + 1)[:, None],
        samples=ones,
        steps=ones.clone(),
        rates=rates.expand(deliveries, -1).clone(),
        newest_rates=rates,
        losses=ones.clone() if part.needs_losses else None,
        messages=None if message is None else torch.stack([message] * deliveries),
        links={name: ones.clone() for name in part.reads_links},
        draws=RuleDraws(Streams(0), SERVER, 1, current),
        not_summed=torch.zeros(1, _VERSION_SIZE) if part.reads_not_summed else None,
    )


def _faults_beside_steps(
    part: Aggregation, state: State, current: Tensor, updates: Updates, users: int
) -> Iterator[Fault]:
    """Try what an aggregation gives beside its steps, and the step of several lanes at once, after two rounds."""
    shown = f"the state and a version of {_VERSION_SIZE} numbers"
    inputs: dict[str, Any] = {"state": state, "current": current}
    yield from _try(part, "reported", inputs, _describe(current), f"{shown}; it returns the model to evaluate")
    inputs = {"state": state, "users": updates.users, "messages": updates.messages}
    given = f"the state, {len(updates.users)} users and their messages; it returns a row of numbers for each, or None"
    yield from _try(part, "drift", inputs, _describe(updates.models), given, may_be_none=True)
    yield from _try(part, "user_weights", {"state": state}, "", "the state; it returns a weight for each user, or None")
    given = "the numbers of examples of all users; it returns a weight for each user, or None"
    yield from _try(part, "merge_weights", {"examples": np.arange(1, users + 1)}, "", given)
    buffers = current[:_BUFFERS].clone()
    of_buffers = replace(updates, bases=updates.bases[:, :_BUFFERS], models=updates.models[:, :_BUFFERS])
    given = f"{_BUFFERS} buffers of the version and of each update; it returns those of the next version"
    yield from _try(part, "next_buffers", {"current": buffers, "updates": of_buffers}, _describe(buffers), given)
    if "step_together" in vars(type(part)):
        single = SingleUpdates(
            users=updates.users[:1],
            bases=updates.bases[:1],
            models=updates.models[:1],
            rates=updates.rates[:1],
            newest_rates=updates.newest_rates[None],
        )
        inputs = {"rules": [part], "states": [state], "current": current[None], "updates": single}
        expected = f"({_describe(current[None])}, ({_describe(state)}))"
        given = f"one lane with one update, {shown}; it returns the next versions and the next states"
        yield from _try(part, "step_together", inputs, expected, given)


def _report_faults(
    part: Aggregation, state: State, current: Tensor, updates: Updates, following: Tensor
) -> Generator[Fault, None, bool]:
    """Try what an aggregation reports of a step; return whether there was no error."""
    kind = kind_of(type(part))
    if not part.reports and type(part).metrics is Aggregation.metrics:
        return True
    inputs = {"state": state, "current": current, "updates": updates, "following": following}
    given = f"the state, two versions of {_VERSION_SIZE} numbers and updates; it returns tensors by name"
    values = yield from _try(part, "metrics", inputs, "", given)
    if values is None:
        return False
    if not part.reports:
        yield Fault("", UNDECLARED, kind, DECLARE)
        return False
    wrong = values_problem(part, values)
    if wrong is not None:
        problem, remedy = wrong
        yield Fault("", f"its method 'metrics' {problem}", kind, remedy)
        return False
    for name, value in values.items():
        if not torch.isfinite(value):
            shown = f"'{name}', which is not finite ({float(value):g})"
            yield Fault("", f"its method 'metrics' gives {shown}", kind, "return a finite number in each step")
            return False
    return True


def _message_faults(part: Aggregation, message: Tensor | None) -> Iterator[Fault]:
    """Yield the error of a message that `Aggregation.downlink_extra` does not count."""
    if message is None or message.numel() <= 1 or part.downlink_extra(_VERSION_SIZE) > 0:
        return
    problem = f"its method 'message' sends {message.numel()} numbers, but 'downlink_extra' states 0"
    remedy = "override downlink_extra(parameters), and uplink_extra if users return something, as networks bill them"
    yield Fault("", problem, kind_of(type(part)), remedy)


def _try(
    part: Spec, method: str, inputs: Mapping[str, Any], expected: str, given: str, *, may_be_none: bool = False
) -> Generator[Fault, None, Any]:
    """Call a method with *inputs*, which it must not change except for its state; compare the form of its result.

    Returns:
        The result; ``None`` if there was an error.
    """
    kind = kind_of(type(part))
    before = deepcopy(_numbers(inputs))
    result, failure = try_call(part, lambda: getattr(part, method)(*inputs.values()))
    if failure:
        yield Fault("", f"its method '{method}' fails on test values: {failure}", kind, f"it was given {given}")
        return None
    is_right = True
    if may_be_none and result is None:
        expected = ""  # any form is right
    form = _describe(result)
    if expected and form != expected and not form.startswith(f"{expected} ("):  # names of tensors may follow
        is_right = False
        yield Fault("", f"its method '{method}' gives {form}, not {expected}", kind, f"it was given {given}")
    for name, value in _numbers(inputs).items():
        if not np.array_equal(before[name], value):
            is_right = False
            remedy = f"make a new tensor: {name} + x, not {name} += x or {name}.add_(x)"
            yield Fault("", f"its method '{method}' writes into its argument {name}", kind, remedy)
    return result if is_right else None


def _numbers(inputs: Mapping[str, Any]) -> dict[str, Tensor | Floats]:
    """Return the tensors and arrays among arguments, also those of `Updates` and of hyper-parameters, by name."""
    named = dict(inputs)
    for name, value in inputs.get("h", {}).items():
        named[f"h['{name}']"] = value
    if "updates" in inputs:
        updates = inputs["updates"]
        for field in fields(updates):
            named[f"updates.{field.name}"] = getattr(updates, field.name)
    return {name: value for name, value in named.items() if isinstance(value, Tensor | np.ndarray)}


def _describe(result: object) -> str:
    """Return the form of a result in words: types, shapes, and numbers that are not float32."""
    if isinstance(result, Tensor | np.ndarray):
        return _describe_array(result)
    if isinstance(result, UserRows):
        return f"rows of {len(result)} users"
    if isinstance(result, tuple | list):
        return f"({', '.join(map(_describe, result))})"
    if isinstance(result, Mapping):
        return _describe_mapping(result)
    if isinstance(result, int | float | np.number):
        return "a number"
    return "nothing" if result is None else f"a {type(result).__name__}"


def _describe_mapping(result: Mapping[Any, Any]) -> str:
    are_tensors = all(isinstance(value, Tensor | UserRows) for value in result.values())
    form = "tensors by name" if are_tensors else "a mapping"
    if not result:
        return form
    entries = ", ".join(f"{name}: {_describe(value)}" for name, value in sorted(result.items()))
    return f"{form} ({entries})"


def _describe_array(result: Tensor | NDArray[Any]) -> str:
    if isinstance(result, np.ndarray):
        return f"an array {list(result.shape)} of {result.dtype}"
    if result.dtype == torch.float32:
        return f"tensor {list(result.shape)}"
    return f"tensor {list(result.shape)} of {result.dtype}".replace("torch.", "")
