"""One replica of a scenario as an object that steps from round to round; the loop of a run drives one per replica.

The rounds come from the access of the scenario, by default a simulated network: see `netfl.access.network`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import PrivateAttr

from netfl.access import Access
from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo, Users
from netfl.access.selection._base import WithSelection
from netfl.errors import Fault, ModelError, NetflError, ScenarioError
from netfl.registry import kind_of
from netfl.results.tables import EventRecorder, MemoryTable
from netfl.scenario.scenario import Scenario
from netfl.simulation.setup import RunSetup, locate_faults, prepare_run
from netfl.types import LearnerReport, Round, RoundBatch

if TYPE_CHECKING:
    from netfl.network.layout import Layout


class Simulation:
    """One replica of a scenario, simulated round by round; ``netfl trace`` gives the same rounds.

    A caller may restrict the users of each round, and so act as the server's selection::

        with netfl.Simulation(netfl.load("scenario.yaml")) as simulation:
            while not simulation.is_done:
                selected = my_policy(simulation.users, simulation.time_s)
                round = simulation.step(selected)

    An access that draws one user per round (``first: 1``) needs a selection from the first round on; its draws then
    differ from those of a trace.

    Args:
        scenario: from `netfl.load`; its learners do not run.
        replica: the replica to simulate.
        setup: the prepared run that this replica is a part of; by default the scenario is prepared here, and events are
            kept in memory, as its ``record`` states.

    Raises:
        ScenarioError: the scenario cannot be simulated, or its access needs the reports of learners.
    """

    def __init__(self, scenario: Scenario, replica: int = 0, *, setup: RunSetup | None = None) -> None:
        self.scenario, self.replica = scenario, replica
        self._events = MemoryTable("events")
        self._is_steerable = setup is None
        if setup is None:
            if not 0 <= replica < scenario.replicas:
                remedy = f"use a replica from 0 to {scenario.replicas - 1}"
                raise ScenarioError([Fault("replicas", "no such replica", replica, remedy)])
            setup = prepare_run(scenario, learning=False, replicas=range(replica, replica + 1))
            setup = setup.with_recorders([EventRecorder(self._events, replica, scenario.keeping)])
        self._setup, self._context = setup, setup.contexts[setup.replicas.index(replica)]
        self._rounds: Generator[Round, LearnerReport | None, None] | None = None
        self._selection: _ImposedSelection | None = None
        self._last: Round | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def time_s(self) -> float:
        """Simulated time: when the last round closed; 0 before the first."""
        return 0.0 if self._last is None else self._last.closed_s

    @property
    def round(self) -> int:
        """Number of the last round; 0 before the first."""
        return 0 if self._last is None else self._last.index

    @property
    def is_done(self) -> bool:
        """``True`` after the last round of the scenario."""
        return self.round >= self.scenario.steps

    @cached_property
    def users(self) -> pd.DataFrame:
        """Users with what the access knows of each, such as ``x_m``, ``y_m``, ``distance_m`` and ``tower``."""
        return pd.DataFrame(self._setup.users(self.replica))

    @cached_property
    def layout(self) -> Layout | None:
        """Positions and links of users, towers, routers and the server; ``None`` where no network is simulated."""
        from netfl.access._builder import build_layout
        from netfl.access.network import NetworkAccess

        access = self.scenario.access
        return build_layout(access, self._context) if isinstance(access, NetworkAccess) else None

    @property
    def events(self) -> pd.DataFrame:
        """Events recorded so far, with the columns of the events table; empty if `setup` has its own recorders."""
        if isinstance(self._context.recorder, EventRecorder):
            self._context.recorder.flush()
        events: pd.DataFrame = self._events.read().to_pandas()
        return events

    def step(self, selected: ArrayLike | None = None, *, report: LearnerReport | None = None) -> Round:
        """Simulate the next round.

        Args:
            selected: the users that may take part, as a boolean array ``[users]`` or a list of user numbers;
                ``None`` for the scenario's own selection.
            report: the learners' report on the last round; only closed loops use it.

        Raises:
            ScenarioError: all rounds are over, *selected* names no users, or a selection cannot be imposed here.
            ModelError: a model failed, or the access has no more rounds.
        """
        if self.is_done:
            problem, remedy = f"all {self.scenario.steps} rounds are done", "increase it"
            raise ScenarioError([Fault("rounds", problem, self.scenario.steps, remedy)])
        users = None if selected is None else self._user_ids(selected)
        try:
            if self._rounds is None:
                self._rounds = self._open(is_imposed=users is not None).rounds(self._context)
            if self._selection is not None:
                self._selection.impose(users)
            elif users is not None:
                self._refuse_selection()
            self._last = self._rounds.send(None if self._last is None else report)
        except StopIteration:
            problem = f"the network ends after round {self.round} of {self.scenario.steps}"
            raise ModelError(kind_of(type(self.scenario.access)), problem, time_s=self.time_s) from None
        except Exception:
            with access_errors(self.scenario, self.time_s):
                raise
        return self._last

    def batches(self) -> Iterator[RoundBatch] | None:
        """Return all rounds in batches, instead of `step`; ``None`` where that is no faster."""
        return self.scenario.access.round_batches(self._context)

    def finish(self, report: LearnerReport | None = None) -> None:
        """Let the access do what follows its last round, such as recording its metrics."""
        if self._rounds is not None:
            with access_errors(self.scenario, self.time_s), suppress(StopIteration):
                self._rounds.send(report)
        self.close()

    def close(self) -> None:
        """End the simulation."""
        if self._rounds is not None:
            self._rounds.close()

    def _open(self, *, is_imposed: bool) -> Access:
        """Return the access of the scenario, with a selection that `step` can impose where that keeps its draws."""
        access = self.scenario.access
        selecting = getattr(access, "inner", access)  # the access that an adversary interferes with
        if not isinstance(selecting, WithSelection) or self._context.duration_s is not None:
            if is_imposed:
                self._refuse_selection()
            return access
        if not is_imposed and (not self._is_steerable or getattr(selecting, "deliveries", None) == 1):
            return access
        self._selection = _ImposedSelection(inner=selecting.selection)
        selecting = selecting.model_copy(update={"selection": self._selection})
        return access.model_copy(update={"inner": selecting}) if hasattr(access, "inner") else selecting

    def _refuse_selection(self) -> NoReturn:
        """Raise the reason why no selection can be imposed, or not any more."""
        access = self.scenario.access
        if getattr(getattr(access, "inner", access), "deliveries", None) == 1:
            problem = "this access draws the only user of a round; its selection cannot be imposed later"
            raise ScenarioError([Fault("deliveries", problem, 1, "give step() a selection from the first round on")])
        problem, remedy = "no selection can be imposed on this access", "call step() without `selected`"
        raise ScenarioError([Fault("", problem, kind_of(type(access)), remedy)])

    def _user_ids(self, selected: ArrayLike) -> NDArray[np.int64]:
        """Return distinct user numbers in rising order."""
        values, users = np.asarray(selected), self.scenario.users
        if values.dtype == bool and values.shape == (users,):
            return np.flatnonzero(values)
        if values.size and (values.ndim != 1 or values.dtype.kind not in "iu"):
            remedy = f"give {users} booleans, or a list of user numbers"
            raise ScenarioError([Fault("selected", "not a selection of users", selected, remedy)])
        ids = np.unique(values.astype(np.int64))
        if ids.size and not 0 <= ids[0] <= ids[-1] < users:
            raise ScenarioError([Fault("selected", "no such users", selected, f"users are numbered 0 to {users - 1}")])
        return ids


class _ImposedSelection(Selection):
    """The selection of a scenario, which `Simulation.step` overrides in the rounds for which `users` are given."""

    inner: Selection
    _users: NDArray[np.int64] | None = PrivateAttr(None)

    def impose(self, users: NDArray[np.int64] | None) -> None:
        self._users = users

    def open(self, population: UserInfo) -> Selector:
        return _ImposedSelector(self, self.inner.open(population))

    def chosen(self, users: Users) -> Users:
        return users if self._users is None else self._users

    @property
    def needs_learner_metrics(self) -> bool:
        return self.inner.needs_learner_metrics

    @property
    def needs_sample_counts(self) -> bool:
        return self.inner.needs_sample_counts

    @property
    def needs_airtime(self) -> bool:
        return self.inner.needs_airtime


class _ImposedSelector(Selector):
    def __init__(self, selection: _ImposedSelection, inner: Selector) -> None:
        self._selection, self._inner = selection, inner

    def choose(self, moment: RoundInfo) -> Users:
        return self._selection.chosen(self._inner.choose(moment))

    def queries(self, round: int, delivered: Users) -> Mapping[str, Users]:
        return self._inner.queries(round, delivered)


@contextmanager
def access_errors(scenario: Scenario, time_s: float) -> Iterator[None]:
    """Locate the errors of an access in the scenario, and raise any other exception as a `ModelError` with the time."""
    with locate_faults(scenario, "access"), model_errors(kind_of(type(scenario.access)), time_s):
        yield


@contextmanager
def model_errors(model: str, time_s: float) -> Iterator[None]:
    """Raise a `ModelError` that names the model and the time, with the original exception as its cause."""
    try:
        yield
    except (NetflError, OSError):
        raise
    except Exception as error:
        raise ModelError(model, f"{type(error).__name__}: {error}", time_s=time_s) from error
