"""Metrics of Flower's strategies while they run, for both of Flower's strategy interfaces.

Flower gives a strategy's metrics back at the end.  `recorded_strategies` observes the methods of all strategy classes
instead, also of those with a loop of their own.  It sends the messages of the older interface as one exchange, which
Flower sends one by one, from threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from numbers import Real
from typing import Any

from flwr.server import server as legacy_server
from flwr.server.strategy import Strategy as LegacyStrategy
from flwr.serverapp.strategy import Strategy

from netfl.flower.legacy_clients import evaluate_clients, fit_clients
from netfl.flower.patching import replaced

_PREFIXES = {"aggregate_train": "train_", "aggregate_fit": "train_", "aggregate_evaluate": "clients_", "evaluate": ""}
"""Prefixes of the metrics that methods of strategies return."""

_METHODS = {
    Strategy: ("configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate"),
    LegacyStrategy: (
        "initialize_parameters",
        "configure_fit",
        "aggregate_fit",
        "configure_evaluate",
        "aggregate_evaluate",
        "evaluate",
    ),
}
"""Methods that a loop calls, in Flower or in an app."""


class StrategyObserver:
    """Observer of strategies; derive from it and override what is needed."""

    def on_strategy(self, name: str, rounds: int | None) -> None:
        """Observe a strategy that starts or continues: the name of its class, and its number of rounds, if known."""

    def on_values(self, values: Mapping[str, float]) -> None:
        """Observe metrics by name, after a round or an evaluation."""

    def on_training(self) -> None:
        """Observe that a strategy is asked which nodes train in the next round."""

    def on_aggregation(self, *, is_aggregated: bool) -> None:
        """Observe that a strategy aggregated the updates of a round, or could not."""


@contextmanager
def recorded_strategies(observer: StrategyObserver) -> Iterator[None]:
    """Pass the names and metrics of all strategies that run inside to *observer*."""
    with ExitStack() as replacements:
        calls = _StrategyCalls(observer)
        for base, names in _METHODS.items():
            observe = _observe_methods(names, calls, replacements)
            for strategy_class in _with_subclasses(base):
                observe(strategy_class)
            replacements.enter_context(replaced(base, "__init_subclass__", _observed_subclass(observe)))
        replacements.enter_context(replaced(legacy_server.Server, "fit", calls.observed_fit))
        replacements.enter_context(replaced(legacy_server, "fit_clients", lambda _: fit_clients))
        replacements.enter_context(replaced(legacy_server, "evaluate_clients", lambda _: evaluate_clients))
        yield


def named_values(prefix: str, values: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the metrics of a record by netfl's names.

    A metric of training has the prefix ``train_``, one of the ClientApps' evaluation ``clients_``.  A list, or
    a mapping as of accuracies by data set, becomes one metric for each of its elements.  What is no number is left out.

    >>> named_values("train_", {"train_loss": 0.5, "error": [1.0, 2.0]})
    {'train_loss': 0.5, 'train_error/item:0': 1.0, 'train_error/item:1': 2.0}
    >>> named_values("train_", {"accuracy": {"MNIST": 0.9, "name": "digits"}})
    {'train_accuracy/item:MNIST': 0.9}
    """
    named: dict[str, float] = {}
    for key, value in (values or {}).items():
        name = key if key.startswith(prefix) else prefix + key
        name = name.replace("/", "_")  # a slash separates the group of a metric
        if isinstance(value, Real):
            named[name] = float(value)
        for place, item in _elements(value):
            if isinstance(item, Real):
                named[f"{name}/item:{place}"] = float(item)
    return named


def _elements(value: object) -> Iterable[tuple[object, object]]:
    """Return the elements of a list or of a mapping with their places."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    return ()


def _observe_methods(names: tuple[str, ...], calls: _StrategyCalls, replacements: ExitStack) -> Callable[[type], None]:
    """Return a function that lets a strategy class pass on calls of its own methods *names*, and of ``start``."""

    def observe(strategy_class: type) -> None:
        for name in names:
            method = vars(strategy_class).get(name)
            if inspect.isfunction(method) and not getattr(method, "__isabstractmethod__", False):
                replacements.enter_context(replaced(strategy_class, name, calls.observed_method))
        if inspect.isfunction(vars(strategy_class).get("start")):
            replacements.enter_context(replaced(strategy_class, "start", calls.observed_start))

    return observe


def _observed_subclass(observe: Callable[[type], None]) -> Callable[[Any], Any]:
    """Return a replacement of ``__init_subclass__`` that lets *observe* see classes that are defined later."""

    def init_subclass(cls: type, /, **_: Any) -> None:
        observe(cls)

    return lambda _: classmethod(init_subclass)


def _with_subclasses(base: type) -> Iterator[type]:
    """Yield a class and all that derive from it, each once."""
    classes = [base]
    for strategy_class in classes:
        yield strategy_class
        derived: list[type] = strategy_class.__subclasses__()
        classes += [each for each in derived if each not in classes]


class _StrategyCalls:
    """Calls of strategies' methods that are under way.

    A strategy may call its base class, or another strategy that it wraps.  The outermost call counts.

    Args:
        observer: the observer.
    """

    def __init__(self, observer: StrategyObserver) -> None:
        self._observer = observer
        self._methods: list[str] = []
        self._name = ""
        self._knows_rounds = False

    def observed_method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return *method* of a strategy class, which also passes on the metrics that it returns."""
        name = method.__name__

        @wraps(method)
        def observed(strategy: Any, *args: Any, **kwargs: Any) -> Any:
            is_inner = name in self._methods
            if not is_inner and name in {"configure_train", "configure_fit"}:
                self._observer.on_training()
            with self._call(strategy, name):
                result = method(strategy, *args, **kwargs)
            if not is_inner and name in _PREFIXES:
                self._pass_on(name, result)
            return result

        return observed

    def observed_start(self, start: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``start`` of a strategy class, which also passes on its rounds and the metrics of ``evaluate_fn``."""
        signature = inspect.signature(start)

        @wraps(start)
        def observed(strategy: Any, *args: Any, **kwargs: Any) -> Any:
            call = signature.bind(strategy, *args, **kwargs)
            call.apply_defaults()
            evaluate = call.arguments.get("evaluate_fn")
            if callable(evaluate):
                call.arguments["evaluate_fn"] = self._observed_evaluation(evaluate)
            with self._call(strategy, "start", call.arguments.get("num_rounds")):
                return start(*call.args, **call.kwargs)

        return observed

    def observed_fit(self, fit: Callable[..., Any]) -> Callable[..., Any]:
        """Return `Server.fit`, which also passes on the strategy's rounds."""

        def observed(server: Any, num_rounds: int, timeout: float | None) -> Any:
            with self._call(server.strategy, "fit", num_rounds):
                return fit(server, num_rounds, timeout)

        return observed

    @contextmanager
    def _call(self, strategy: Any, method: str, rounds: int | None = None) -> Iterator[None]:
        """Announce the strategy of an outermost call, and its number of rounds once."""
        is_outermost = not self._methods
        if is_outermost:
            self._name = type(strategy).__name__
            self._knows_rounds = False
        states_rounds = rounds is not None and not self._knows_rounds
        if is_outermost or states_rounds:
            self._observer.on_strategy(self._name, rounds)
            self._knows_rounds = rounds is not None
        self._methods.append(method)
        try:
            yield
        finally:
            self._methods.pop()

    def _observed_evaluation(self, evaluate: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``evaluate_fn``, which also passes on its metrics."""
        if getattr(evaluate, "is_observed", False):  # by the ``start`` that calls this one
            return evaluate

        def observed(*args: Any, **kwargs: Any) -> Any:
            metrics = evaluate(*args, **kwargs)
            if not (metrics is None or isinstance(metrics, Mapping)):
                raise TypeError(f"evaluate_fn returned {type(metrics).__name__} instead of a MetricRecord")
            self._observer.on_values(named_values("", metrics))
            return metrics

        observed.is_observed = True  # type: ignore[attr-defined]
        return observed

    def _pass_on(self, method: str, result: Any) -> None:
        """Pass on the metrics that *method* returned: alone, with a model, or with a loss."""
        first = None
        metrics = result
        if isinstance(result, tuple):
            first, metrics = result
        if method in {"aggregate_train", "aggregate_fit"}:  # first is the model
            self._observer.on_aggregation(is_aggregated=first is not None)
        elif first is not None:  # first is the loss
            metrics = {"loss": first, **(metrics or {})}
        self._observer.on_values(named_values(_PREFIXES[method], metrics))
