"""A strategy of Flower as an aggregation of netfl: what it does with the replies of a round makes the next version."""

from __future__ import annotations

import inspect
import logging
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from pydantic import Field, ValidationInfo, field_validator

from netfl.core.plugins import PluginError, import_plugin
from netfl.core.spec_errors import invalid
from netfl.flower.client_calls import FIRST_NODE, RUN_ID
from netfl.flower.versions import task_identity
from netfl.learning.aggregation import Aggregation, State, Tensor, Updates

_KEY = "model"
"""Name of the array that holds a model."""


class _Nodes:
    """The nodes from which a strategy samples: all users, as it waits until there are enough of them.

    Args:
        users: number of users.
    """

    def __init__(self, users: int) -> None:
        self._users = users

    def get_node_ids(self) -> list[int]:
        """Return the numbers of the nodes."""
        return [user + FIRST_NODE for user in range(self._users)]


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Flower from logging each step of each lane."""
    logger = logging.getLogger("flwr")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


class StrategyRule(Aggregation):
    """The version is what ``aggregate_train`` of a strategy of Flower returns for the updates of a round.

    The strategy gets the trained models as replies with the array ``model``, θ with t as its last entry, and the metric
    ``num-examples``.  It does not select users or evaluate: the access decides who delivers.  Its ``configure_train``
    is called with the present version, which strategies note there, and what it samples is ignored.  A round without
    deliveries, and one for which the strategy returns no model, leave the version as it is.  What a strategy remembers
    is kept by pickling it.

    Source: the strategies of `flwr.serverapp.strategy`, Flower 1.22 and newer.

    Example::

        kind: netfl.flower.strategy_rule:StrategyRule
        strategy: flwr.serverapp.strategy:FedAvg
        options: {fraction_evaluate: 0.5}
    """

    strategy: str
    """The class of the strategy, as ``module:Class``."""
    options: Mapping[str, Any] = Field(default_factory=dict, validate_default=True)
    """Arguments of the class."""

    @field_validator("strategy")
    @classmethod
    def _check_strategy(cls, value: str) -> str:
        try:
            strategy = import_plugin(value)
        except PluginError as error:
            raise invalid(error.problem, error.remedy) from None
        if not hasattr(strategy, "aggregate_train"):
            raise invalid("has no method aggregate_train", "name a strategy as those of flwr.serverapp.strategy")
        return value

    @field_validator("options")
    @classmethod
    def _check_options(cls, value: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        if "strategy" not in info.data:
            return value  # the strategy has an error of its own
        signature = inspect.signature(import_plugin(info.data["strategy"]))
        try:
            signature.bind(**value)
        except TypeError as error:
            raise invalid(str(error), f"give arguments of {info.data['strategy']}{signature}") from None
        return value

    def open(self, users: int, current: Tensor) -> State:
        strategy = import_plugin(self.strategy)(**self.options)
        return {"strategy": _pickled(strategy, current), "users": current.new_tensor(users)}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        strategy = pickle.loads(state["strategy"].cpu().numpy().astype(np.uint8).tobytes())  # noqa: S301 - of `_pickled`
        users = updates.users.tolist()
        with task_identity(RUN_ID, SUPERLINK_NODE_ID), _silence():
            strategy.configure_train(updates.round, _record(current), ConfigRecord(), _Nodes(int(state["users"])))
            replies = [
                _reply(user, model, int(samples))
                for user, model, samples in zip(users, updates.models, updates.samples.tolist(), strict=True)
            ]
            arrays, _ = strategy.aggregate_train(updates.round, replies)
        following = current
        if arrays is not None:
            following = current.new_tensor(arrays[_KEY].numpy())
        return following, {**state, "strategy": _pickled(strategy, current)}


def _pickled(strategy: object, current: Tensor) -> Tensor:
    """Return a strategy as the bytes of its pickle, one number each, which a checkpoint can hold."""
    return current.new_tensor(np.frombuffer(pickle.dumps(strategy), np.uint8))


def _record(model: Tensor) -> ArrayRecord:
    """Return a model as a record of Flower."""
    return ArrayRecord({_KEY: Array(model.cpu().numpy())})


def _reply(user: int, model: Tensor, samples: int) -> Message:
    """Return the reply of a user with its trained model and its number of examples."""
    asked = Message(content=RecordDict(), dst_node_id=user + FIRST_NODE, message_type="train")
    metrics = MetricRecord({"num-examples": samples})
    return Message(content=RecordDict({"arrays": _record(model), "metrics": metrics}), reply_to=asked)
