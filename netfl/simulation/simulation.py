"""One replica of a scenario as an object that steps from round to round; the loop of a run drives one per replica.

The rounds come from the access of the scenario, by default a simulated network: see `netfl.access.network`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import PrivateAttr

from netfl.access import Access
from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo, Users
from netfl.access.selection._base import WithSelection
from netfl.errors import Fault, ModelError, NetflError, ScenarioError
from netfl.registry import kind_of
from netfl.scenario.scenario import Scenario, ScenarioSource, as_scenario
from netfl.simulation.history import History
from netfl.simulation.learners import open_learner
from netfl.simulation.setup import RunSetup, locate_faults, prepare_run
from netfl.types import Bools, Floats, Ints, LearnerReport, Round, RoundBatch, RoundControls

if TYPE_CHECKING:
    from netfl.learning.learner import BatchedLearner
    from netfl.learning.parallel_learner import ParallelLearner
    from netfl.network.clock import Environment
    from netfl.network.layout import Layout
    from netfl.network.simulator import NetworkSimulator

_POWER_RANGE_DB = (-200.0, 200.0)
"""Range of the power of a user relative to that of the radio."""


@dataclass(frozen=True, slots=True)
class SimulationState:
    """State of a simulation between two rounds, or at any time within one.  Reading it changes no draw.

    What an access that is not a network does not have is ``None``.

    Args:
        time_s: simulated time.
        round: number of the last round; 0 before the first.
        age: rounds since each user's last delivery: 1 if it was in the last round, ``round + 1`` if never, ``[users]``.
        delivered: number of deliveries of each user so far, ``[users]``.
        xy_m: positions of the users, ``[users, 2]``.
        distance_m: distance of each user to its tower, ``[users]``.
        snr_db: estimate of each user's link: its present SNR at its tower, fading included and interference excluded,
            ``[users]``; infinite without a radio.
        backlog: frames that each user can send now, or is sending, ``[users]``.
        queues: messages at each output port towards the server, by the name of its link.
        user_up: whether each user is up, ``[users]``.
        node_up: whether each tower, router, server and link is up, by name.
        energy_j: energy that each user has spent, ``[users]``; ``None`` also without an energy model.
    """

    time_s: float
    round: int
    age: Ints
    delivered: Ints
    xy_m: Floats | None = None
    distance_m: Floats | None = None
    snr_db: Floats | None = None
    backlog: Ints | None = None
    queues: Mapping[str, int] | None = None
    user_up: Bools | None = None
    node_up: Mapping[str, bool] | None = None
    energy_j: Floats | None = None


class Simulation:
    """One replica of a scenario, simulated round by round; ``netfl trace`` gives the same rounds.

    A caller may restrict the users of each round, and so act as the server's selection::

        with netfl.Simulation("rural_outage") as simulation:
            while not simulation.is_done:
                selected = simulation.state.snr_db > 0
                round = simulation.step(selected)

    The rounds come from the access of the scenario: a network, a random access model that is given directly, or a
    replay.  An access that draws one user per round (``deliveries: 1``) needs a selection from the first round on; its
    draws then differ from those of a trace.  The network's clock is a SimPy environment, `env`, in which a caller can
    start processes.

    Args:
        scenario: a scenario, or any other input of `netfl.load`.
        replica: the replica to simulate.
        seed: the seed, in place of that of the scenario.
        record: whether to keep rounds and events for `snapshot` and `events`, as the section ``record`` states.
        update_bits: size of the largest update, and of a broadcast, in place of that of the model or the network.
        learning: whether the learners of the scenario train, as in a run; `report` has their metrics.
        history: keeper of rounds, events and outcomes, in place of *record*.
        device: of the learners: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        setup: the prepared run that this replica is a part of; the other options are then those of the run.

    Raises:
        ScenarioError: the scenario cannot be simulated, its access needs learners and they do not train, or an option
            has no effect.
    """

    def __init__(
        self,
        scenario: ScenarioSource,
        replica: int = 0,
        *,
        seed: int | None = None,
        record: bool = True,
        update_bits: float | None = None,
        learning: bool = False,
        device: str = "auto",
        history: History | None = None,
        setup: RunSetup | None = None,
    ) -> None:
        scenario = as_scenario(scenario)
        if seed is not None:
            scenario = scenario.model_copy(update={"seed": seed})
        self.scenario, self.replica = scenario, replica
        self._is_steerable, self._resources = setup is None, ExitStack()
        self._is_closed = False
        self._selection: _ImposedSelection | None = None
        self._network: NetworkSimulator | None = None
        self._rounds: Generator[Round, LearnerReport | None, None] | None = None
        self._last: Round | None = None
        self._learner: BatchedLearner | ParallelLearner | None = None
        self._report: LearnerReport | None = None
        if setup is not None:
            self._setup, self._context = setup, setup.contexts[setup.replicas.index(replica)]
            return
        if not isinstance(replica, int | np.integer):
            remedy = "give a number; to change the scenario, use netfl.load(scenario, {...})"
            raise ScenarioError([Fault("replica", "not the number of a replica", replica, remedy)])
        if not 0 <= replica < scenario.replicas:
            remedy = f"use a replica from 0 to {scenario.replicas - 1}"
            raise ScenarioError([Fault("replicas", "no such replica", replica, remedy)])
        if learning and not scenario.learners:
            problem = "the scenario has no learners"
            raise ScenarioError([Fault("learners", problem, None, "add learners, or leave out learning=True")])
        self._setup = setup = prepare_run(scenario, learning=learning, replicas=range(replica, replica + 1))
        self.history = history or History(replica, scenario.keeping if record else None)
        self._controls = RoundControls(on_network=self._keep_network)
        context = replace(setup.contexts[0], recorder=self.history, controls=self._controls)
        self._design_bits = np.inf
        if update_bits is not None:
            size = self._controls.design_bits = float(self._sizes(update_bits)[0])
            context = replace(context, uplink_bits=size, downlink_bits=size)
        if scenario.access.info.is_networked:
            self._design_bits = self._controls.design_bits or scenario.access.info.update_bits or context.uplink_bits
        self._context = context
        self._age = np.ones(scenario.users, np.int64)
        self._delivered = np.zeros(scenario.users, np.int64)
        if learning:
            learner = self._resources.enter_context(open_learner(setup, device, learning=True))
            assert learner is not None
            self._learner, self._report = learner, learner.start()
            self.history.add_metrics(self._report, learner.lanes, 0.0)

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

    @property
    def env(self) -> Environment:
        """The SimPy environment of the network, in which a caller can start processes.

        A process that runs without end hides the error of a round that can never close.

        Raises:
            ScenarioError: the access of the scenario is not a network.
        """
        if not self.scenario.access.info.is_networked:
            problem, remedy = "there is no simulated network, and so no SimPy environment", "use 'kind: network'"
            raise ScenarioError([Fault("access", problem, kind_of(type(self.scenario.access)), remedy)])
        return self._open_network().env

    @property
    def state(self) -> SimulationState:
        """The state now: after the last round, or in a process of `env` the present one."""
        known: dict[str, Any] = {"age": self._age.copy(), "delivered": self._delivered.copy()}
        if not self.scenario.access.info.is_networked:
            return SimulationState(self.time_s, self.round, **known)
        with access_errors(self.scenario, self.time_s):
            network = self._open_network().state()
        known |= {each.name: getattr(network, each.name) for each in fields(network)}
        return SimulationState(round=self.round, **known)

    @property
    def outcomes(self) -> pd.DataFrame:
        """Updates that ended in the last round: ``user``, ``base``, ``outcome``, ``detail``, ``node``, ``time_s``.

        ``detail`` is the cause of a last failure, and ``node`` the place.  ``base`` is the version from which an update
        started, -1 where the access does not state it.  A replay states deliveries only.
        """
        return self.history.outcomes(self._last)

    @property
    def report(self) -> LearnerReport:
        """The learners' report after the last round; its metrics are empty in rounds without an evaluation.

        Raises:
            ScenarioError: no learners train here.
        """
        if self._report is None:
            raise ScenarioError([Fault("learners", "no learners train here", None, "use learning=True")])
        return self._report

    @cached_property
    def users(self) -> pd.DataFrame:
        """Users with what the access knows of each, such as ``x_m``, ``y_m``, ``distance_m`` and ``tower``."""
        return pd.DataFrame(self._setup.users(self.replica))

    @cached_property
    def layout(self) -> Layout | None:
        """Positions and links of users, towers, routers and the server; ``None`` where no network is simulated."""
        from netfl.access.network import NetworkAccess
        from netfl.network.build import build_layout

        access = self.scenario.access
        return build_layout(access, self._context) if isinstance(access, NetworkAccess) else None

    @property
    def events(self) -> pd.DataFrame:
        """Events recorded so far, with the columns of the events table."""
        return self.history.tables()["events"]

    def snapshot(self) -> dict[str, pd.DataFrame]:
        """Return the tables of a run directory as they are now, by name.

        ``rounds``, ``deliveries``, ``events``, ``users``, ``nodes``; ``metrics`` with learners; ``final_metrics``
        after `finish`.
        """
        nodes = pd.DataFrame(self._setup.nodes(self.replica))
        return {**self.history.tables(), "users": self.users.copy(), "nodes": nodes}

    def step(
        self,
        selected: ArrayLike | None = None,
        update_bits: ArrayLike | None = None,
        *,
        broadcast_bits: float | None = None,
        controls: Mapping[str, ArrayLike] | None = None,
        report: LearnerReport | None = None,
    ) -> Round:
        """Simulate the next round.

        Args:
            selected: the users that may take part, as a boolean array ``[users]`` or a list of distinct user numbers;
                ``None`` for the scenario's own selection.
            update_bits: size of the updates that users begin from now on, one for all or ``[users]``, in bits before
                compression; ``None`` leaves it.  A network is designed for the largest: see `Simulation`.
            broadcast_bits: size of the broadcast of this and later rounds; ``None`` leaves it.
            controls: settings from now on, ``[users]`` each or one for all: ``power``, in dB above that of the radio,
                and those of a MAC that a caller controls, such as ``probability`` and ``channel``.
            report: the learners' report on the last round, which only closed loops use; by default that of the learners
                that train here.

        Raises:
            ScenarioError: all rounds are over, *selected* names no users, or an option cannot have an effect here.
            ModelError: a model failed, or the access has no more rounds.
        """
        if self._is_closed:
            raise ScenarioError([Fault("", "the simulation is closed", None, "create another one")])
        if self.is_done:
            problem, remedy = f"all {self.scenario.steps} rounds are done", "increase it"
            raise ScenarioError([Fault("rounds", problem, self.scenario.steps, remedy)])
        users = None if selected is None else self._user_ids(selected)
        if update_bits is not None or broadcast_bits is not None or controls is not None:
            self._set_controls(update_bits, broadcast_bits, controls)
        if self._is_steerable:
            self.history.clear_outcomes()
        try:
            if self._rounds is None:
                self._rounds = self._open(is_imposed=users is not None).rounds(self._context)
            if self._selection is not None:
                self._selection.impose(users)
            elif users is not None:
                self._refuse_selection()
            answer = report if report is not None else self._report
            self._last = self._rounds.send(None if self._last is None else answer)
        except StopIteration:
            problem = f"the network ends after round {self.round} of {self.scenario.steps}"
            raise ModelError(kind_of(type(self.scenario.access)), problem, time_s=self.time_s) from None
        except Exception:
            with access_errors(self.scenario, self.time_s):
                raise
        if self._is_steerable:
            self._note(self._last)
        return self._last

    def batches(self) -> Iterator[RoundBatch] | None:
        """Return all rounds in batches, instead of `step`; ``None`` where that is no faster."""
        return self.scenario.access.round_batches(self._context)

    def finish(self, report: LearnerReport | None = None) -> None:
        """Let the access do what follows its last round, such as recording its metrics."""
        if self._rounds is not None:
            with access_errors(self.scenario, self.time_s), suppress(StopIteration):
                self._rounds.send(report if report is not None else self._report)
        self.close()

    def close(self) -> None:
        """End the simulation; it can be read, but simulates no further round."""
        self._is_closed = True
        if self._rounds is not None:
            self._rounds.close()
        self._resources.close()

    def _note(self, result: Round) -> None:
        """Take a round into the history and the ages, and let the learners train."""
        self._age += 1
        for delivery in result.deliveries:
            self._age[delivery.user] = 1
            self._delivered[delivery.user] += 1
        self.history.add_round(result)
        if self._learner is not None:
            with model_errors("learning", result.closed_s):
                self._report = self._learner.step([result])
            self.history.add_metrics(self._report, self._learner.lanes, result.closed_s)

    def _open_network(self) -> NetworkSimulator:
        """Return the simulator of the network, built if necessary."""
        if self._network is None:
            with access_errors(self.scenario, 0.0):
                self._rounds = self._open(is_imposed=False).rounds(self._context)
        assert self._network is not None
        return self._network

    def _keep_network(self, network: NetworkSimulator) -> None:
        self._network = network

    def _set_controls(
        self,
        update_bits: ArrayLike | None,
        broadcast_bits: float | None,
        controls: Mapping[str, ArrayLike] | None,
    ) -> None:
        """Check settings, and set those that are given."""
        if update_bits is not None:
            self._controls.update_bits = self._sizes(update_bits)
        if broadcast_bits is not None:
            self._controls.broadcast_bits = float(self._sizes(broadcast_bits, "broadcast_bits")[0])
        ranges = self._control_ranges()
        values = dict(self._controls.mac)
        for name, setting in (controls or {}).items():
            if name not in ranges:
                remedy = f"use {' or '.join(ranges)}" if ranges else "use a network with a radio, or mac: controlled"
                raise ScenarioError([Fault(f"controls.{name}", "no effect: nothing here reads it", None, remedy)])
            low, high = ranges[name]
            values[name] = self._per_user(setting, f"controls.{name}", low, high)
        self._controls.mac = values

    def _control_ranges(self) -> dict[str, tuple[float, float]]:
        """Return the range of each control that has an effect here."""
        access = self.scenario.access
        mac, radio = getattr(access, "mac", None), getattr(access, "radio", None)
        return {**({} if mac is None else mac.control_ranges), **({} if radio is None else {"power": _POWER_RANGE_DB})}

    def _sizes(self, bits: ArrayLike, key: str = "update_bits") -> Floats:
        """Return sizes in bits, ``[users]``, that can have an effect and fit into what the network is designed for."""
        info = self.scenario.access.info
        if not info.can_resize_updates or self.scenario.duration is not None:
            problem, remedy = "this access does not use the sizes of updates", f"leave out {key}"
            raise ScenarioError([Fault(key, problem, kind_of(type(self.scenario.access)), remedy)])
        sizes = self._per_user(bits, key, np.nextafter(0.0, 1.0), np.inf)
        if key == "update_bits" and sizes.max() > self._design_bits:
            problem = f"larger than {self._design_bits:g} bits, the largest update that the network is designed for"
            raise ScenarioError([Fault(key, problem, sizes.max(), "give the largest to Simulation(update_bits=…)")])
        return sizes

    def _per_user(self, values: ArrayLike, key: str, low: float, high: float) -> Floats:
        """Return a value for each user, ``[users]``, from one for all or one for each, each from *low* to *high*."""
        users, array = self.scenario.users, np.asarray(values)
        if array.dtype.kind not in "fiu" or array.shape not in {(), (users,)}:
            raise ScenarioError([Fault(key, "not a number for each user", values, f"give one number, or {users}")])
        numbers = np.array(np.broadcast_to(array, users), float)
        wrong = numbers[~((numbers >= low) & (numbers <= high) & np.isfinite(numbers))]
        if wrong.size:
            remedy = "use positive numbers" if np.isinf(high) else f"use numbers from {low:g} to {high:g}"
            raise ScenarioError([Fault(key, "out of range", float(wrong[0]), remedy)])
        return numbers

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
        ids, count = np.unique(values.astype(np.int64), return_counts=True)
        if (count > 1).any():
            problem, remedy = "a user is named twice", "name each once; a mask has booleans: mask.astype(bool)"
            raise ScenarioError([Fault("selected", problem, selected, remedy)])
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
