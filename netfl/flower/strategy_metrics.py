"""Metrics of Flower's strategies while they run, for both of Flower's strategy interfaces.

Flower gives a strategy's metrics back at the end.  `recorded_strategies` observes each round of a strategy instead, and
sends the messages of the older interface as one exchange, which Flower sends one by one, from threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from flwr.server import server as legacy_server
from flwr.server.history import History
from flwr.serverapp.strategy import Strategy

from netfl.flower.legacy_clients import evaluate_clients, fit_clients

MetricValues = Mapping[str, float | int | Sequence[float]]

_LEGACY_PREFIXES = {
    "add_loss_centralized": "",
    "add_metrics_centralized": "",
    "add_loss_distributed": "clients_",
    "add_metrics_distributed": "clients_",
    "add_metrics_distributed_fit": "train_",
}
"""Prefixes of the metrics that the methods of `History` add."""


class StrategyObserver:
    """Observer of strategies; derive from it and override what is needed."""

    def on_strategy(self, name: str, rounds: int) -> None:
        """Observe the start of a strategy: the name of its class, and its number of rounds."""

    def on_values(self, values: Mapping[str, float]) -> None:
        """Observe metrics by name, after a round or an evaluation."""


@contextmanager
def recorded_strategies(observer: StrategyObserver) -> Iterator[None]:
    """Pass the metrics of all strategies that run inside to *observer*."""
    with (
        _replaced(Strategy, "start", lambda start: _observed_start(start, observer)),
        _replaced(legacy_server.Server, "fit", lambda fit: _observed_fit(fit, observer)),
        _replaced(legacy_server, "fit_clients", lambda _: fit_clients),
        _replaced(legacy_server, "evaluate_clients", lambda _: evaluate_clients),
        _recorded_history(observer),
    ):
        yield


def named_values(prefix: str, values: MetricValues | None) -> dict[str, float]:
    """Return the metrics of a record by netfl's names.

    A metric of training has the prefix ``train_``, one of the ClientApps' evaluation ``clients_``.  A list becomes one
    metric for each of its elements.

    >>> named_values("train_", {"train_loss": 0.5, "error": [1.0, 2.0]})
    {'train_loss': 0.5, 'train_error/item:0': 1.0, 'train_error/item:1': 2.0}
    """
    named: dict[str, float] = {}
    for key, value in (values or {}).items():
        name = (key if key.startswith(prefix) else prefix + key).replace("/", "_")
        if isinstance(value, (list, tuple)):
            named |= {f"{name}/item:{place}": float(item) for place, item in enumerate(value)}
        elif isinstance(value, (int, float)):
            named[name] = float(value)
    return named


def _observed_start(start: Callable[..., Any], observer: StrategyObserver) -> Callable[..., Any]:
    """Return `Strategy.start` that also passes on the metrics of each round."""
    signature = inspect.signature(start)

    def observed(strategy: Strategy, *args: Any, **kwargs: Any) -> Any:
        call = signature.bind(strategy, *args, **kwargs)
        call.apply_defaults()
        observer.on_strategy(type(strategy).__name__, int(call.arguments["num_rounds"]))
        evaluate = call.arguments["evaluate_fn"]
        if evaluate is not None:

            def evaluate_and_record(*values: Any) -> Any:
                metrics = evaluate(*values)
                if not (metrics is None or isinstance(metrics, Mapping)):
                    raise TypeError(f"evaluate_fn returned {type(metrics).__name__} instead of a MetricRecord")
                observer.on_values(named_values("", metrics))
                return metrics

            call.arguments["evaluate_fn"] = evaluate_and_record
        with (
            _replaced(strategy, "aggregate_train", lambda method: _recorded(method, "train_", observer)),
            _replaced(strategy, "aggregate_evaluate", lambda method: _recorded(method, "clients_", observer)),
        ):
            return start(*call.args, **call.kwargs)

    return observed


def _observed_fit(fit: Callable[..., Any], observer: StrategyObserver) -> Callable[..., Any]:
    """Return `Server.fit` that also announces its strategy."""

    def observed(server: Any, num_rounds: int, timeout: float | None) -> Any:
        observer.on_strategy(type(server.strategy).__name__, num_rounds)
        return fit(server, num_rounds, timeout)

    return observed


def _recorded(method: Callable[..., Any], prefix: str, observer: StrategyObserver) -> Callable[..., Any]:
    """Return *method*, which aggregates, so that it also passes on the metrics that it returns."""

    def recorded(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        observer.on_values(named_values(prefix, result[1] if isinstance(result, tuple) else result))
        return result

    return recorded


@contextmanager
def _recorded_history(observer: StrategyObserver) -> Iterator[None]:
    """Pass on all that is added to a `History`."""

    def observed(method: Callable[..., Any], prefix: str) -> Callable[..., Any]:
        def add(history: History, server_round: int, value: Any = None, **named: Any) -> Any:
            (given,) = named.values() if named else (value,)
            observer.on_values(named_values(prefix, given if isinstance(given, Mapping) else {"loss": given}))
            return method(history, server_round, given)

        return add

    originals = {name: getattr(History, name) for name in _LEGACY_PREFIXES}
    for name, prefix in _LEGACY_PREFIXES.items():
        setattr(History, name, observed(originals[name], prefix))
    try:
        yield
    finally:
        for name, method in originals.items():
            setattr(History, name, method)


@contextmanager
def _replaced(owner: Any, name: str, replace: Callable[[Any], Any]) -> Iterator[None]:
    """Replace an attribute of *owner* until the context ends."""
    is_own = name in vars(owner)
    original = getattr(owner, name)
    setattr(owner, name, replace(original))
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
