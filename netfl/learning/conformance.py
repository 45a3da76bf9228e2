"""Checks of parts of learners from outside netfl, models and codecs against the contracts of their families.

When a scenario is read, `model_faults` and `payload_faults` check what decides the size of an update.  Before learning
starts, in ``netfl check`` as in a run, `check_plugins` tries all parts on made-up values (`plugin_trials`).  Only the
latter imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from netfl.core.family_members import find_plugins
from netfl.core.kinds import kind_of
from netfl.core.plugins import is_plugin, try_call
from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation
from netfl.learning.codec import WHOLE, Codec, Codecs
from netfl.learning.data import Data
from netfl.learning.device import DeviceRule, Layout
from netfl.learning.model import Model
from netfl.learning.payload import learner_payloads
from netfl.learning.spec import LearnerSpec

_TRIED = 1000
"""Length of the model with which an aggregation is asked what it sends."""


def model_faults(
    model: Model, shape: tuple[int, ...], classes: int, tokens: int | None, *, is_regression: bool
) -> Iterator[Fault]:
    """Yield why *model* cannot take such examples, or, if it is from outside netfl, cannot count its parameters."""

    def misfits() -> list[Fault]:
        faults = [*model.misfits(shape, classes, tokens)]
        return faults or [*model.target_misfits(shape, classes, tokens, is_regression)]

    if not is_plugin(model):
        yield from misfits()
        return
    kind = kind_of(type(model))
    shown = f"examples of shape {list(shape)}, {classes} classes and {tokens or 'no'} tokens"
    faults, failure = try_call(model, misfits)
    size = None
    if not (faults or failure):
        size, failure = try_call(model, lambda: model.parameters(shape, classes, tokens))
    if failure:
        remedy = "correct its methods 'misfits' and 'parameters', or let 'misfits' refuse such examples"
        yield Fault("", f"fails on {shown}: {failure}", kind, remedy)
    elif faults:
        yield from faults
    elif not (isinstance(size, int | np.integer) and size > 0):
        problem = f"its method 'parameters' gives {size!r} for {shown}"
        yield Fault("", problem, kind, "return the number of parameters, a whole number")


def payload_faults(
    learners: Mapping[str, LearnerSpec], model: Model, data: Data, codecs: Codecs = WHOLE
) -> Iterator[Fault]:
    """Yield the errors of parts from outside netfl whose payloads cannot be computed."""
    faults = []
    for name, learner in learners.items():
        if any(find_plugins(learner.aggregation)):
            faults += [fault.under(f"learners.{name}.aggregation") for fault in _extra_faults(learner.aggregation)]
    for key, codec in codecs.named.items():
        if is_plugin(codec):
            faults += [fault.under(key) for fault in _bits_faults(codec)]
    yield from faults
    if faults or not any(find_plugins(model)):
        return
    _, failure = try_call(model, lambda: learner_payloads(learners, model, data, codecs))
    if failure:
        remedy = "correct its method 'open', or override 'buffers'"
        yield Fault("model", f"its buffers cannot be counted: {failure}", kind_of(type(model)), remedy)


def layer_faults(learners: Mapping[str, LearnerSpec], model: Model, data: Data) -> Iterator[Fault]:
    """Yield the errors of rules of devices whose personal layers *model* does not have."""
    rules = {}
    for name, learner in learners.items():
        if learner.device is not None and learner.device.has_personal_layers:
            rules[name] = learner.device
    if not rules:
        return
    architecture, failure = try_call(model, lambda: model.open(data.shape, data.classes, data.tokens))
    if architecture is None:
        remedy = "correct its method 'open', which rules of devices ask for layers"
        yield Fault("model", f"its layers cannot be listed: {failure}", kind_of(type(model)), remedy)
        return
    for name, rule in rules.items():
        faults, failure = try_call(rule, partial(_listed_faults, rule, architecture.layout))
        if failure:
            problem = f"its method 'personal' fails for {', '.join(architecture.layout)}: {failure}"
            faults = [Fault("", problem, kind_of(type(rule)), "return the names of what stays on the device")]
        for fault in faults or ():
            yield fault.under(f"learners.{name}.device")


def _listed_faults(rule: DeviceRule, layout: Layout) -> list[Fault]:
    return list(rule.layer_faults(layout))


def check_plugins(
    learners: Mapping[str, LearnerSpec],
    model: Model | None,
    data: Data | None,
    users: int,
    max_deliveries: int,
    codecs: Codecs = WHOLE,
) -> None:
    """Try the parts from outside netfl on made-up examples and small tensors.

    Args:
        learners: the learners, by name.
        model: the model that they train.
        data: the examples that they train with.
        users: number of users.
        max_deliveries: largest number of deliveries in a round of a replica.
        codecs: of updates and of broadcasts.

    Raises:
        ScenarioError: one of them violates the contract of its family.
    """
    parts = (model, *learners.values(), *codecs.named.values())
    if not any(any(find_plugins(part)) for part in parts):  # torch is not imported for netfl's own
        return
    from netfl.learning import plugin_trials

    plugin_trials.try_learners(learners, users, max_deliveries)
    plugin_trials.try_codecs(codecs)
    if model is not None and data is not None and any(find_plugins(model)):
        plugin_trials.try_model(model, data)


def _bits_faults(codec: Codec) -> Iterator[Fault]:
    """Yield the error of a codec that cannot state the size of what it sends."""
    kind = kind_of(type(codec))
    bits, failure = try_call(codec, lambda: codec.bits(_TRIED))
    if failure:
        problem = f"its method 'bits' fails for {_TRIED} parameters: {failure}"
    elif not (isinstance(bits, int | float | np.number) and 0 < bits < np.inf):
        problem = f"its method 'bits' gives {bits!r} for {_TRIED} parameters"
    else:
        return
    yield Fault("", problem, kind, "return the size of an encoded change in bits, a positive number")


def _extra_faults(rule: Aggregation) -> Iterator[Fault]:
    """Yield the errors of an aggregation that cannot state what it sends beside the model."""
    kind = kind_of(type(rule))
    for name in ("uplink_extra", "downlink_extra"):
        numbers, failure = try_call(rule, partial(_count_extra, rule, name))
        if failure:
            problem = f"its method '{name}' fails for {_TRIED} parameters: {failure}"
            yield Fault("", problem, kind, "return how many numbers are sent beside the model")
        elif not (isinstance(numbers, int | np.integer) and numbers >= 0):
            problem = f"its method '{name}' gives {numbers!r} for {_TRIED} parameters"
            yield Fault("", problem, kind, "return a whole number that is not negative")


def _count_extra(rule: Aggregation, name: str) -> object:
    return getattr(rule, name)(_TRIED)
