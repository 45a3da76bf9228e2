"""One replica of a scenario as an object that steps from round to round, for programs of its users.

The rounds come from the access of the scenario, by default a simulated network: see `netfl.access.network`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import ValidationError

from netfl.access import OpenAccess
from netfl.access._open_network import OpenNetwork
from netfl.access.selection._observation import ANSWERED, Observe
from netfl.core.kinds import kind_of
from netfl.core.plugins import one_line
from netfl.core.spec_errors import faults_of
from netfl.errors import Fault, ScenarioError, model_errors
from netfl.results.formatting import clock
from netfl.results.tables import order_learners
from netfl.scenario.html_card import html_card
from netfl.scenario.scenario import Scenario, ScenarioSource, as_scenario
from netfl.simulation.history import History
from netfl.simulation.learners import open_learner
from netfl.simulation.setup import access_errors, locate_faults, prepare_run
from netfl.types import Bools, Floats, Ints, LearnerReport, Observed, Round, RoundControls
from netfl.units import QuantityError, to_si

if TYPE_CHECKING:
    from netfl.learning.learner import BatchedLearner
    from netfl.learning.parallel_learner import ParallelLearner
    from netfl.network.clock import Environment
    from netfl.network.layout import Layout
    from netfl.network.simulator import NetworkSimulator


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
        distance_m: distance of each user to its present tower, ``[users]``.
        snr_db: estimate of each user's link: its present SNR at its tower, fading included and interference excluded,
            ``[users]``; infinite without a radio.
        backlog: frames that each user can send now, or is sending, ``[users]``.
        queues: messages at each output port towards the server, by the name of its link.
        user_up: whether each user is up, ``[users]``.
        node_up: whether each tower, router, server and link is up, by name.
        energy_j: energy that each user has spent, ``[users]``; ``None`` also without an energy model.
        battery_j: charge of each user's battery, infinite for users without one, ``[users]``; ``None`` also if no user
            has one.
        speed: training samples per second of each user at its full frequency, without jitter, ``[users]``; infinite if
            its training takes no time.
        update_bits: size on the air of the update that each user begins next, headers and parity included, ``[users]``.
        tower: index of each user's present tower in ``Simulation.layout.towers``, ``[users]``.
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
    battery_j: Floats | None = None
    speed: Floats | None = None
    update_bits: Floats | None = None
    tower: Ints | None = None


class Simulation:
    """One replica of a scenario, simulated round by round; ``netfl trace`` gives the same rounds.

    A caller may restrict the users of each round, and so act as the server's selection::

        with netfl.Simulation("rural_outage") as simulation:
            while not simulation.is_done:
                selected = simulation.state.snr_db > 0
                round = simulation.step(selected)

    `state` is the truth.  A policy that sees only what a server can know declares it, and reads `observe`::

        observe = {"check_in": {"airtime": "5 ms"}, "snr_db": "check_in"}
        with netfl.Simulation("rural_outage", observe=observe) as simulation:
            while not simulation.is_done:
                observed = simulation.observe()
                round = simulation.step(observed.candidates[:5])

    Where the scenario has a ``duration``, the last `step` may return ``None``: the time was over before a round closed.

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
        observe: values that the caller observes before it selects, beside those of the scenario's selection: the names
            and ages of the key ``observe`` of a selection, as a mapping.  They do not change what that selection sees.
            The call of the server takes the time of the larger airtime of ``check_in``, here or in the selection.
        device: of the learners: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

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
        observe: Mapping[str, object] | None = None,
    ) -> None:
        scenario = as_scenario(scenario)
        if seed is not None:
            scenario = scenario.model_copy(update={"seed": seed})
        _check_replica(scenario, replica)
        if learning and not scenario.learners:
            problem = "the scenario has no learners"
            raise ScenarioError([Fault("learners", problem, None, "add learners, or leave out learning=True")])
        setup = prepare_run(scenario, learning=learning, replicas=range(replica, replica + 1))
        self.scenario = scenario
        self.replica = replica
        if history is None:
            keeping = None
            if record:
                keeping = scenario.keeping
            history = History(replica, keeping, scenario.access.info.metrics)
        self.history = history
        self._info = scenario.access.info
        self._controls = RoundControls()
        if observe is not None:
            self._declare(observe, learning=learning)
        self._access: OpenAccess | None = None
        self._is_closed = False
        self._failure: Exception | None = None
        self._age = np.ones(scenario.users, np.int64)
        self._delivered = np.zeros(scenario.users, np.int64)

        # what the access gets: the history, the settings of the caller, and the sizes that it is designed for
        context = replace(setup.contexts[0], recorder=self.history, controls=self._controls)
        self._design_bits = np.inf
        if update_bits is not None:
            size = float(self._sizes(update_bits)[0])
            self._controls.design_bits = size
            context = replace(context, uplink_bits=size, downlink_bits=size)
        if self._info.is_networked:
            self._design_bits = self._controls.design_bits or self._info.update_bits or context.uplink_bits
        self._setup = replace(setup, contexts=[context])

        self._resources = ExitStack()
        self._learner: BatchedLearner | ParallelLearner | None = None
        self._report: LearnerReport | None = None
        if learning:
            learner = self._resources.enter_context(open_learner(setup, device, learning=True))
            assert learner is not None
            self._learner = learner
            self._report = learner.start()
            self.history.add_metrics(self._report, learner.lanes, 0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        position = f"round {self.round}{self._planned}, {clock(self.time_s)}"
        return f"<Simulation {self.scenario.name!r}, replica {self.replica}, {position}{self._ended}>"

    def _repr_html_(self) -> str:
        facts = {
            "replica": self.replica,
            "seed": self.scenario.seed,
            "users": f"{self.scenario.users:,}",
            "access": self._kind,
            "round": f"{self.round:,}{self._planned}{self._ended}",
            "simulated": clock(self.time_s),
            "delivered": f"{self._delivered.sum():,}",
            "learners": ", ".join(self.scenario.learners) if self._learner is not None else None,
        }
        return html_card(f"Simulation {self.scenario.name}", facts)

    def __reduce__(self) -> NoReturn:
        problem = "a simulation cannot be copied or pickled, as its processes are running"
        remedy = "start another one with the same seed, and repeat the steps"
        raise ScenarioError([Fault("", problem, None, remedy)])

    @property
    def time_s(self) -> float:
        """Simulated time: when the last round closed; 0 before the first."""
        if self._access is None:
            return 0.0
        return self._access.time_s

    @property
    def round(self) -> int:
        """Number of the last round; 0 before the first."""
        if self._access is None:
            return 0
        return self._access.round

    @property
    def is_done(self) -> bool:
        """``True`` after the last round of the scenario, or when its ``duration`` is over."""
        return self._access is not None and self._access.is_done

    @property
    def env(self) -> Environment:
        """The SimPy environment of the network, in which a caller can start processes.

        A process that runs without end hides the error of a round that can never close.

        Raises:
            ScenarioError: the access of the scenario is not a network.
        """
        if not self._info.is_networked:
            problem = "there is no simulated network, and so no SimPy environment"
            raise ScenarioError([Fault("access", problem, self._kind, "use 'kind: network'")])
        return self._network.env

    @property
    def state(self) -> SimulationState:
        """The state now: after the last round, or in a process of `env` the present one."""
        state = SimulationState(self.time_s, self.round, self._age.copy(), self._delivered.copy())
        if not self._info.is_networked:
            return state
        network = self._network
        with access_errors(self.scenario, self.time_s):
            of_network = network.state()
        return replace(
            state,
            time_s=of_network.time_s,
            xy_m=of_network.xy_m,
            distance_m=of_network.distance_m,
            snr_db=of_network.snr_db,
            backlog=of_network.backlog,
            queues=of_network.queues,
            user_up=of_network.user_up,
            node_up=of_network.node_up,
            energy_j=of_network.energy_j,
            battery_j=of_network.battery_j,
            speed=of_network.speed,
            update_bits=of_network.update_bits,
            tower=of_network.tower,
        )

    def observe(self) -> Observed:
        """Return what a policy sees before the next round: the values that it has declared, each with its age.

        These are the values of the argument ``observe``, and those that the scenario's selection declares.  With an
        airtime of ``check_in``, the round opens once the users have answered.

        Raises:
            ScenarioError: nothing is declared, all rounds are over, or the access has no selection.
        """
        if not self._has_selection:
            problem = "no policy can observe this access"
            raise ScenarioError([Fault("", problem, self._kind, "read simulation.state")])
        if self.is_done:
            self._refuse_step()
        self._open(is_selecting=False)
        assert self._controls.observe is not None
        with access_errors(self.scenario, self.time_s):
            observed = self._controls.observe(self._report)
        if not observed.values:
            problem = "nothing is declared, neither by the caller nor by the scenario's selection"
            raise ScenarioError([Fault("observe", problem, None, "use Simulation(observe={'age': 'present', …})")])
        return observed

    @property
    def outcomes(self) -> pd.DataFrame:
        """Updates that ended in the last round: ``user``, ``base``, ``outcome``, ``detail``, ``node``, ``time_s``.

        ``detail`` is the cause of a last failure, and ``node`` the place.  ``base`` is the version from which an update
        started, -1 where the access does not state it.  A replay states deliveries only.
        """
        if self._access is None:
            return self.history.outcomes(None)
        return self.history.outcomes(self._access.last)

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
        return self.scenario.access.layout(self._setup.contexts[0])

    @property
    def events(self) -> pd.DataFrame:
        """Events recorded so far, with the columns of the events table.

        Raises:
            ScenarioError: the simulation keeps none.
        """
        self._check_recording()
        return self.history.tables()["events"]

    def snapshot(self) -> dict[str, pd.DataFrame]:
        """Return the tables of a run directory as they are now, by name.

        ``rounds``, ``deliveries``, ``events``, ``users``, ``nodes``; ``attempts`` if the scenario records them;
        ``metrics`` with learners; ``final_metrics``, and the attempts of each user, after `finish`.  Before, the former
        has the metrics that a selection or an allocation reports.

        Raises:
            ScenarioError: the simulation keeps none.
        """
        self._check_recording()
        nodes = pd.DataFrame(self._setup.nodes(self.replica))
        tables = self.history.tables()
        if "metrics" in tables:
            names = [*self.scenario.learners, *self.scenario.evaluation.choose]
            tables["metrics"] = order_learners(tables["metrics"], names)
        return {**tables, "users": self.users.assign(**self.history.by_user), "nodes": nodes}

    def step(
        self,
        selected: ArrayLike | Set[int] | None = None,
        update_bits: ArrayLike | None = None,
        *,
        broadcast_bits: float | None = None,
        controls: Mapping[str, ArrayLike] | None = None,
        report: LearnerReport | None = None,
        deadline_s: float | str | None = None,
    ) -> Round | None:
        """Simulate the next round.

        Args:
            selected: the users that may take part, as an array ``[users]`` of booleans, or of floats that are 0 or 1;
                or distinct user numbers, as a list or set; ``None`` for the scenario's own selection.
            update_bits: size of the updates that users begin from now on, one for all or ``[users]``, in bits before
                compression; ``None`` leaves it.  A network is designed for the largest: see `Simulation`.
            broadcast_bits: size of the broadcast of this and later rounds; ``None`` leaves it.
            controls: settings from now on, ``[users]`` each or one for all: ``power``, in dB above that of the radio,
                ``frequency``, as a fraction of that of the processor, and those of a MAC that a caller controls, such
                as ``probability``, ``channel`` and ``share``.
            report: the learners' report on the last round, which only closed loops use; by default that of the learners
                that train here.
            deadline_s: time from the opening of this round to its close at the latest, in seconds or as a text with a
                unit, in a network whose rule of the round has a deadline; ``None`` for that of the selection, or of the
                rule.

        Returns:
            The round; ``None`` if the ``duration`` of the scenario is over before it closes.

        Raises:
            ScenarioError: all rounds are over, *selected* names no users, or an option cannot have an effect here.
            ModelError: a model, or a process of the caller, failed; or the access has no more rounds.
        """
        if self._is_closed:
            raise ScenarioError([Fault("", "the simulation is closed", None, "create another one")])
        if self._failure is not None:
            problem = f"the simulation has failed in round {self.round + 1} ({one_line(self._failure)})"
            raise ScenarioError([Fault("", problem, None, "correct this, and create another one")])
        if self.is_done:
            self._refuse_step()
        users = None
        if selected is not None:
            users = _user_ids(selected, self.scenario.users)
            self._check_selectable()
        if update_bits is not None:
            self._controls.update_bits = self._sizes(update_bits)
        if broadcast_bits is not None:
            self._controls.broadcast_bits = float(self._sizes(broadcast_bits, "broadcast_bits")[0])
        if controls is not None:
            self._set_controls(controls)
        if report is None:
            report = self._report
        self._controls.deadline_s = self._deadline_s(deadline_s)

        self.history.clear_outcomes()
        access = self._open(is_selecting=users is not None)
        self._controls.selected = users
        try:
            with locate_faults(self.scenario, "access"):
                result = access.next_round(report)
            if result is not None:
                self._note(result)
        except Exception as error:
            self._failure = error  # the round is not over, and no other one can begin
            raise
        return result

    def finish(self, report: LearnerReport | None = None) -> None:
        """Let the access do what follows the last round, such as recording its metrics.

        Updates that are outstanding in a network end as ``unfinished``, also if more rounds could follow.

        Args:
            report: the learners' report on the last round; by default that of the learners that train here.
        """
        if report is None:
            report = self._report
        if self._access is not None and not self._is_closed:
            with locate_faults(self.scenario, "access"):
                self._access.finish(report)
        self.close()

    def close(self) -> None:
        """End the simulation; it can be read, but simulates no further round."""
        self._is_closed = True
        if self._access is not None:
            self._access.close()
        self._resources.close()

    def _refuse_step(self) -> NoReturn:
        """Raise the error of a step after the end of the scenario."""
        if self.round == self.scenario.rounds or self.scenario.stop_s is None:
            fault = Fault("rounds", f"all {self.scenario.steps} rounds are done", self.scenario.steps, "increase it")
        else:
            problem = f"the duration is over: the last round closed at {self.time_s:.6g} s"
            fault = Fault("duration", problem, self.scenario.stop_s, "increase it")
        raise ScenarioError([fault])

    @property
    def _planned(self) -> str:
        """The number of all rounds, for the repr of a simulation; empty if it is not known."""
        planned = self.scenario.planned_rounds
        return "" if planned is None else f" of {planned:,}"

    @property
    def _ended(self) -> str:
        """A word for the repr of a simulation that simulates no further round."""
        if self._failure is not None:
            return ", failed"
        return ", closed" if self._is_closed else ""

    def _check_recording(self) -> None:
        """Check that the history keeps tables."""
        if not self.history.keeps_tables:
            problem = "no rounds and events are kept"
            raise ScenarioError(
                [Fault("record", problem, False, "create the simulation, or environment, with record=True")]
            )

    @property
    def _kind(self) -> str:
        """The ``kind`` of the access."""
        return kind_of(type(self.scenario.access))

    @property
    def _network(self) -> NetworkSimulator:
        """The simulator of a network, built if necessary."""
        access = self._open(is_selecting=False)
        assert isinstance(access, OpenNetwork)
        return access.network

    def _open(self, *, is_selecting: bool) -> OpenAccess:
        """Return the access, opened before the first round; a caller that *is_selecting* selects users in this round.

        If a selection changes the draws of the access, `step` without one gives the rounds of a trace, and the caller
        cannot select later.
        """
        if self._access is None:
            is_selecting = is_selecting or bool(self._controls.observed_ages)
            self._controls.can_select = is_selecting or (self._has_selection and not self._info.needs_early_selection)
            self._access = self._setup.open_access(self.replica)
        return self._access

    @property
    def _has_selection(self) -> bool:
        """A caller can select the users of rounds; traffic for a duration has no rounds."""
        return self._info.has_selection and self.scenario.has_rounds

    def _deadline_s(self, deadline: float | str | None) -> float | None:
        """Return the deadline of the next round, after checking that it can have one."""
        if deadline is None:
            return None
        rule = getattr(self.scenario.access, "round", None)
        if rule is None or rule.deadline_s is None:
            problem = "the rounds of this access have no deadline"
            raise ScenarioError([Fault("deadline_s", problem, deadline, "give access.round a deadline")])
        try:
            deadline_s = to_si(deadline, "s") if isinstance(deadline, str) else float(deadline)
        except (QuantityError, TypeError, ValueError) as error:
            remedy = "give seconds above 0, or a text such as '5 s'"
            raise ScenarioError([Fault("deadline_s", f"not a time: {error}", deadline, remedy)]) from None
        if not 0 < deadline_s < np.inf:
            raise ScenarioError([Fault("deadline_s", "not a positive time", deadline, "give seconds above 0")])
        return deadline_s

    def _declare(self, observe: Mapping[str, object], *, learning: bool) -> None:
        """Declare the values that the caller observes."""
        try:
            declared = Observe.model_validate(observe)
        except ValidationError as error:
            raise ScenarioError([fault.under("observe") for fault in faults_of(error)]) from None
        ages = declared.ages
        faults = [*self.scenario.access.observation_faults(ages)]
        if not learning:
            remedy = "use learning=True"
            faults += [
                Fault(f"observe.{name}", "no learners train here", None, remedy) for name in ANSWERED if name in ages
            ]
        if "samples" in ages and not self._info.needs_sample_counts:
            problem = "only a selection of the scenario can observe this"
            faults.append(Fault("observe.samples", problem, None, "read simulation.users"))
        if faults:
            raise ScenarioError(faults)
        self._controls.observed_ages = ages
        self._controls.answer_airtime_s = declared.airtime_s

    def _check_selectable(self) -> None:
        """Check that a selection has an effect in the next round."""
        if not self._has_selection:
            problem = "no selection can be imposed on this access"
            raise ScenarioError([Fault("", problem, self._kind, "call step() without `selected`")])
        if self._access is not None and not self._controls.can_select:
            problem = "this access draws the only user of a round; its selection cannot be imposed later"
            raise ScenarioError([Fault("deliveries", problem, 1, "give step() a selection from the first round on")])

    def _note(self, result: Round) -> None:
        """Take a round into the history and the ages, and let the learners train."""
        self._age += 1
        for delivery in result.all_deliveries():
            self._age[delivery.user] = 1
            self._delivered[delivery.user] += 1
        self.history.add_round(result)
        if self._learner is not None:
            with model_errors("learning", result.closed_s):
                self._report = self._learner.step([result])
            self.history.add_metrics(self._report, self._learner.lanes, result.closed_s)

    def _set_controls(self, controls: Mapping[str, ArrayLike]) -> None:
        """Check settings of users by name, and let them take effect."""
        ranges = self.scenario.access.control_ranges
        values = dict(self._controls.mac)
        for name, setting in controls.items():
            if name not in ranges:
                remedy = "use a network with a radio, or mac: controlled"
                if ranges:
                    remedy = f"use {' or '.join(ranges)}"
                raise ScenarioError([Fault(f"controls.{name}", "no effect: nothing here reads it", None, remedy)])
            low, high = ranges[name]
            values[name] = self._per_user(setting, f"controls.{name}", low, high)
        self._controls.mac = values

    def _sizes(self, bits: ArrayLike, key: str = "update_bits") -> Floats:
        """Return sizes in bits, ``[users]``, that can have an effect and fit into what the network is designed for."""
        if not self._info.can_resize_updates or not self.scenario.has_rounds:
            problem = "this access does not use the sizes of updates"
            raise ScenarioError([Fault(key, problem, self._kind, f"leave out {key}")])
        sizes = self._per_user(bits, key, np.nextafter(0.0, 1.0), np.inf)
        if key == "update_bits" and sizes.max() > self._design_bits:
            problem = f"larger than {self._design_bits:g} bits, the largest update that the network is designed for"
            raise ScenarioError([Fault(key, problem, sizes.max(), "give the largest to Simulation(update_bits=…)")])
        return sizes

    def _per_user(self, values: ArrayLike, key: str, low: float, high: float) -> Floats:
        """Return a value for each user, ``[users]``, from one for all or one for each, each from *low* to *high*."""
        users = self.scenario.users
        array = np.asarray(values)
        if array.dtype.kind not in "fiu" or array.shape not in {(), (users,)}:
            raise ScenarioError([Fault(key, "not a number for each user", values, f"give one number, or {users}")])
        numbers = np.array(np.broadcast_to(array, users), float)
        is_valid = (numbers >= low) & (numbers <= high) & np.isfinite(numbers)
        if not is_valid.all():
            remedy = f"use numbers from {low:g} to {high:g}"
            if np.isinf(high):
                remedy = "use positive numbers"
            raise ScenarioError([Fault(key, "out of range", float(numbers[~is_valid][0]), remedy)])
        return numbers


def _check_replica(scenario: Scenario, replica: object) -> None:
    """Check that *scenario* has this replica."""
    if not isinstance(replica, int | np.integer):
        remedy = "give a number; to change the scenario, use netfl.load(scenario, {...})"
        raise ScenarioError([Fault("replica", "not the number of a replica", replica, remedy)])
    if not 0 <= replica < scenario.replicas:
        remedy = f"use a replica from 0 to {scenario.replicas - 1}"
        raise ScenarioError([Fault("replicas", "no such replica", replica, remedy)])


def _user_ids(selected: ArrayLike | Set[int], users: int) -> Ints:
    """Return the *selected* of all *users*, a mask or numbers, as distinct numbers in rising order."""
    values = np.asarray([*selected] if isinstance(selected, Set) else selected)
    if values.shape == (users,) and values.dtype.kind in "bf" and np.isin(values, (0, 1)).all():
        return np.flatnonzero(values)
    if values.size and (values.ndim != 1 or values.dtype.kind not in "iu"):
        remedy = f"give {users} booleans, or a list of user numbers"
        raise ScenarioError([Fault("selected", "not a selection of users", selected, remedy)])
    ids, count = np.unique(values.astype(np.int64), return_counts=True)
    if (count > 1).any():
        remedy = "name each once; a mask has booleans: mask.astype(bool)"
        raise ScenarioError([Fault("selected", "a user is named twice", selected, remedy)])
    if ids.size and not 0 <= ids[0] <= ids[-1] < users:
        raise ScenarioError([Fault("selected", "no such users", selected, f"users are numbered 0 to {users - 1}")])
    return ids
