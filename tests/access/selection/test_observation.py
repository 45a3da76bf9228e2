"""Observed values of selections and callers, their ages and costs, and the errors of undeclared ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from support.observing_selections import Hasty, Timed
from support.run_invariants import check_event_times, check_outcomes
from support.small_network import PLAIN

import netfl
from netfl.access.selection import RoundInfo, UserInfo
from netfl.access.selection._state import SelectionState
from netfl.access.selection.oort import Oort
from netfl.access.selection.power_of_choice import PowerOfChoice
from netfl.access.selection.uniform import Uniform
from netfl.errors import ScenarioError
from netfl.results.aggregates import delays
from netfl.simulation.setup import warnings
from netfl.streams import Streams
from netfl.types import OBSERVATIONS, LearnerReport, RoundControls

USERS = 6
DIRECT = {"kind": "bernoulli", "probability": 0.5}
NETWORK = {"kind": "network", **PLAIN, "round": {"kind": "first", "m": 2, "deadline": "30 s"}}
OUTAGES = [{"kind": "renewal", "nodes": "users", "up": {"distribution": "exponential", "mean": "20 s"},
            "down": {"distribution": "exponential", "mean": "10 s"}}]  # fmt: skip
BATTERY = {
    "outages": [{"kind": "battery", "capacity": 9.0, "initial": [0.5, 1.0]}],
    "energy": {"per_training": 0.5, "idle": 0.01},
}

LEARNING = {
    "data": "digits", "partition": "iid", "model": "logistic",
    "learners": {"A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 16, "local_steps": 1}},
}  # fmt: skip


def scenario_of(access, selection=None, rounds=8, **settings):
    section = dict(access)
    if selection is not None:
        section["selection"] = selection
    return netfl.load({"name": "x", "seed": 3, "users": USERS, "rounds": rounds, "access": section, **settings})


def simulate(scenario, **options):
    with netfl.Simulation(scenario, **options) as simulation:
        return [simulation.step() for _ in range(scenario.rounds)]


def delivered_users(result):
    return sorted(delivery.user for delivery in result.deliveries)


class TestDirectAccess:
    def test_uniform_among_those_that_have_checked_in_wastes_no_place(self):
        """Deliver m users if so many are available; available users are those of the access without it."""
        available = [delivered_users(result) for result in simulate(scenario_of(DIRECT))]
        selection = {"kind": "uniform", "m": 2, "observe": {"check_in": {}}}
        for users, result in zip(available, simulate(scenario_of(DIRECT, selection)), strict=True):
            assert len(result.deliveries) == min(2, len(users))
            assert {*delivered_users(result)} <= {*users}

    def test_answers_make_rounds_longer(self):
        """A round of 1 s is longer by 0.1 s for each available user."""
        available = [len(result.deliveries) for result in simulate(scenario_of(DIRECT))]
        selection = {"kind": "all", "observe": {"check_in": {"airtime": "100 ms"}}}
        rounds = simulate(scenario_of(DIRECT, selection))
        assert [len(result.deliveries) for result in rounds] == available
        assert np.allclose([result.closed_s for result in rounds], np.arange(1, 9) + 0.1 * np.cumsum(available))
        assert np.allclose([result.closed_s - result.opened_s for result in rounds], 1.0)

    @pytest.mark.parametrize("access", [DIRECT, {"kind": "adversarial", "inner": DIRECT, "users": [1]}])
    def test_caller_sees_who_is_there_before_it_selects(self, access):
        """The users that have checked in are those that a round without a selection delivers, or tries to."""
        expected = [delivered_users(result) for result in simulate(scenario_of(access))]
        with netfl.Simulation(scenario_of(access), observe={"check_in": {}}) as simulation:
            for users in expected:
                observed = simulation.observe()
                assert {*users} <= {*observed.candidates.tolist()}
                assert simulation.observe().candidates.tolist() == observed.candidates.tolist()
                assert delivered_users(simulation.step(observed.candidates[:1])) in (users[:1], [])

    def test_users_that_are_never_absent_always_check_in(self):
        selection = {"kind": "uniform", "m": 2}
        access = {"kind": "stationary", "rho": "random_simplex", "deliveries": 2}
        plain = simulate(scenario_of(access, selection))
        observed = simulate(scenario_of(access, {**selection, "observe": {"check_in": {}}}))
        assert plain == observed

    def test_caller_of_an_access_with_one_delivery_sees_all_that_are_there(self):
        """The access draws the only user itself, unless its caller selects; one that observes may do so later."""
        access = {**DIRECT, "probability": 1.0, "deliveries": 1}
        with netfl.Simulation(scenario_of(access), observe={"check_in": {}}) as simulation:
            simulation.step()
            assert simulation.observe().candidates.tolist() == [*range(USERS)]
            assert delivered_users(simulation.step([4])) == [4]

    def test_airtime_of_answers_leaves_the_number_of_rounds_in_a_time_open(self):
        selection = {"kind": "uniform", "m": 2, "observe": {"check_in": {"airtime": "1 ms"}}}
        with pytest.raises(ScenarioError, match="duration"):
            scenario_of(DIRECT, selection, duration="10 s")


class TestNetwork:
    def test_rounds_open_once_all_have_answered(self):
        """Six users of one cell take 1 s each, as long as a frame of TDMA; the rest of a round is as without a call."""
        plain = simulate(scenario_of(NETWORK, {"kind": "uniform", "m": 3}))
        selection = {"kind": "uniform", "m": 3, "observe": {"check_in": {"airtime": "1 s"}}}
        called = simulate(scenario_of(NETWORK, selection))
        assert [delivered_users(result) for result in called] == [delivered_users(result) for result in plain]
        closed_s = np.array([0.0, *(result.closed_s for result in called[:-1])])
        gaps_s = np.array([result.opened_s for result in called]) - closed_s
        assert np.allclose(gaps_s, 6.0)

    def test_uniform_selects_connected_users(self):
        selection = {"kind": "uniform", "m": 3, "observe": {"check_in": {}, "user_up": "present"}}
        scenario = scenario_of({**NETWORK, "outages": OUTAGES})
        with netfl.Simulation(scenario, observe=selection["observe"]) as simulation:
            counts = set()
            while not simulation.is_done:
                observed = simulation.observe()
                assert (observed.check_in == simulation.state.user_up).all()
                assert (observed.user_up == simulation.state.user_up).all()
                counts.add(len(observed.candidates))
                simulation.step()
        assert len(counts) > 1

    def test_every_value_of_the_present_is_that_of_the_state(self):
        observe = dict.fromkeys(("snr_db", "battery_j", "distance_m", "backlog", "queues", "energy_j"), "present")
        access = {**NETWORK, **BATTERY}
        with netfl.Simulation(scenario_of(access), observe=observe) as simulation:
            for _ in range(3):
                simulation.step()
                observed = simulation.observe()
                for name in observe:
                    expected = getattr(simulation.state, name)
                    assert np.array_equal(expected, getattr(observed, name)) or observed.queues == expected, name

    def test_battery_is_known_as_of_the_last_delivery(self):
        """Check a value that is unknown before the first delivery, and changes only for users that were delivered."""
        scenario = scenario_of({**NETWORK, **BATTERY}, rounds=10)
        with netfl.Simulation(scenario, observe={"battery_j": "last_delivery"}) as simulation:
            known = simulation.observe().battery_j
            assert np.isnan(known).all()
            while not simulation.is_done:
                before = simulation.state.battery_j
                users = delivered_users(simulation.step())
                after = simulation.state.battery_j
                if simulation.is_done:
                    break
                newest = simulation.observe().battery_j
                has_changed = ~((newest == known) | (np.isnan(newest) & np.isnan(known)))
                assert np.flatnonzero(has_changed).tolist() == users
                assert (newest[users] >= after[users]).all()
                assert (newest[users] <= before[users]).all()
                known = newest

    def test_answers_bring_values_of_those_that_answer(self):
        observe = {"check_in": {}, "distance_m": "check_in"}
        scenario = scenario_of({**NETWORK, "outages": OUTAGES}, rounds=10)
        with netfl.Simulation(scenario, observe=observe) as simulation:
            has_answered = np.zeros(USERS, bool)
            while not simulation.is_done:
                observed = simulation.observe()
                has_answered |= observed.check_in
                assert (np.isfinite(observed.distance_m) == has_answered).all()
                simulation.step()

    def test_duration_is_the_time_from_the_opening_to_the_arrival(self):
        with netfl.Simulation(scenario_of(NETWORK), observe={"duration_s": "present"}) as simulation:
            result = simulation.step()
            duration_s = simulation.observe().duration_s
        for delivery in result.deliveries:
            assert duration_s[delivery.user] == pytest.approx(delivery.arrived_s - result.opened_s)
        assert np.isnan(duration_s).sum() == USERS - len(result.deliveries)

    def test_towers_without_users_have_no_answers(self):
        topology = {"kind": "ring", "routers": 12, "towers": [1, 3, 5, 7, 9, 11], "radius": "400 m", "rate": "1 Mbps"}
        observe = {"check_in": {"airtime": "1 s"}, "snr_db": "check_in"}
        with netfl.Simulation(scenario_of({**NETWORK, "topology": topology}), observe=observe) as simulation:
            users_of = simulation.users["node"].value_counts()
            assert len(users_of) < 6
            assert np.array_equal(simulation.observe().snr_db, simulation.state.snr_db)
            assert simulation.step().opened_s == pytest.approx(users_of.max())

    def test_speed_and_rate_follow_the_network(self):
        observe = {"speed": "present", "rate_bps": "present"}
        with netfl.Simulation(scenario_of(NETWORK), observe=observe) as simulation:
            observed = simulation.observe()
        assert np.allclose(observed.speed, 1.0)
        assert np.allclose(observed.rate_bps, 1000.0)

    @pytest.mark.parametrize("limits", [{"rounds": 8}, {"rounds": 200, "duration": "37.3 s"}])
    @pytest.mark.parametrize("on_new_version", ["restart", "finish"])
    def test_every_update_has_one_outcome(self, tmp_path, limits, on_new_version):
        """Updates that arrive while users answer wait for the round; a run may end while they answer."""
        selection = {"kind": "uniform", "m": 3, "observe": {"check_in": {"airtime": "700 ms"}}}
        access = {**NETWORK, "outages": OUTAGES, "on_new_version": on_new_version, "round": {"kind": "first", "m": 1}}
        scenario = scenario_of(access, selection, **limits, record="all")
        run = netfl.trace(scenario, tmp_path / "run")
        events = run.table("events")
        check_outcomes(events, run.energy)
        if scenario.duration is None:
            check_event_times(events.assign(kind=events["kind"].astype(str)), run.rounds)
        assert run.rounds["closed_s"].max() <= (scenario.duration or np.inf)

    def test_update_that_arrives_during_the_answers_counts_in_the_next_round(self):
        """Updates of one round take 1 s each; the second arrives 1 s after the first, and the answers take longer."""
        selection = {"kind": "all", "observe": {"check_in": {"airtime": "1 s"}}}
        access = {**NETWORK, "on_new_version": "finish", "round": {"kind": "first", "m": 1}}
        first, second, *_ = simulate(scenario_of(access, selection))
        assert [delivery.base for delivery in second.deliveries] == [0]
        assert second.deliveries[0].arrived_s == pytest.approx(first.closed_s + 1.0)
        assert second.opened_s == pytest.approx(first.closed_s + USERS)

    @pytest.mark.parametrize("seed", range(4))
    def test_updates_that_arrive_during_the_answers_count_in_the_order_of_arrival(self, seed):
        """Of those that arrive 1, 2, 3, ... s after the first round, the second round takes the first two."""
        selection = {"kind": "all", "observe": {"check_in": {"airtime": "1 s"}}}
        access = {**NETWORK, "on_new_version": "finish", "round": {"kind": "first", "m": 2}, "staleness": 3}
        first, second, *_ = simulate(scenario_of(access, selection, seed=seed))
        arrived_s = [delivery.arrived_s - first.closed_s for delivery in second.deliveries]
        assert arrived_s == pytest.approx([1.0, 2.0])

    def test_continuous_rounds_take_those_that_wait_one_after_the_other(self):
        """Five updates arrive during the answers of the second round; it takes one, the next rounds the others."""
        selection = {"kind": "all", "observe": {"check_in": {"airtime": "1 s"}}}
        access = {**NETWORK, "round": "asynchronous"}
        rounds = simulate(scenario_of(access, selection, rounds=5))
        assert rounds[1].deliveries[0].arrived_s == pytest.approx(rounds[0].closed_s + 1.0)
        for before, after in pairwise(rounds[1:]):
            assert after.deliveries[0].arrived_s == before.closed_s

    def test_duration_of_an_update_ends_with_its_arrival(self):
        """The second update arrives 1 s after the first, although the answers take until 6 s after it."""
        selection = {"kind": "support.observing_selections:Timed", "observe": {"check_in": {"airtime": "1 s"}}}
        access = {**NETWORK, "on_new_version": "finish", "round": {"kind": "first", "m": 1}}
        Timed.durations_s.clear()
        first, *_ = simulate(scenario_of(access, selection, rounds=3))
        first_s = first.closed_s - first.opened_s
        durations_s = Timed.durations_s[-1]
        assert sorted(durations_s[~np.isnan(durations_s)]) == pytest.approx([first_s, first_s + 1.0])

    def test_trace_with_answers_is_replayed(self, tmp_path):
        """Updates that arrived before their rounds opened are valid deliveries of a recording, with a delay of 0."""
        selection = {"kind": "all", "observe": {"check_in": {"airtime": "1 s"}}}
        access = {**NETWORK, "on_new_version": "finish", "round": {"kind": "first", "m": 2}, "staleness": 3}
        run = netfl.trace(scenario_of(access, selection), tmp_path / "run")
        opened_s = run.rounds.set_index("round")["opened_s"].reindex(run.deliveries["round"]).to_numpy()
        assert (run.deliveries["arrived_s"] < opened_s).any()
        assert delays(run.deliveries, run.rounds)["delay_s"].min() == 0.0
        assert run.summary["delay_p50_s"] >= 0.0
        replayed = simulate(scenario_of({"kind": "replay", "run": str(tmp_path / "run")}))
        simulated = simulate(scenario_of(access, selection))
        assert [each.deliveries for each in replayed] == [each.deliveries for each in simulated]


@pytest.mark.parametrize("access", [DIRECT, {**NETWORK, **BATTERY}])
def test_reading_changes_no_round(access):
    """Rounds are those of a run without a reader, whose policy draws among the users that have checked in."""
    selection = {"kind": "uniform", "m": 2, "observe": {"check_in": {"airtime": "10 ms"}}}
    scenario = scenario_of(access, selection)
    rounds = []
    with netfl.Simulation(scenario, observe={"age": "present"}) as simulation:
        while not simulation.is_done:
            observed = simulation.observe()
            assert len(observed.candidates) <= USERS
            assert (observed.age == simulation.state.age).all()
            rounds.append(simulation.step())
    assert rounds == simulate(scenario)


class TestCallerBesideASelection:
    """A caller that declares values changes nothing of what the selection of the scenario sees."""

    @pytest.mark.parametrize(
        ("access", "selection", "observe"),
        [
            (DIRECT, {"kind": "uniform", "m": 2}, {"check_in": {}}),
            ({**NETWORK, "outages": OUTAGES}, {"kind": "uniform", "m": 3}, {"check_in": {}}),
            (
                {**NETWORK, **BATTERY},
                {"kind": "ranked", "by": "battery_j", "m": 2, "observe": {"battery_j": "last_delivery"}},
                {"battery_j": "present"},
            ),
        ],
    )
    def test_rounds_are_those_without_a_caller(self, access, selection, observe):
        scenario = scenario_of(access, selection)
        assert simulate(scenario, observe=observe) == simulate(scenario)

    def test_larger_airtime_counts(self):
        """Each of the available users, here all, answers within 0.2 s, and not within 0.1 s as well."""
        access = {**DIRECT, "probability": 1.0}
        for of_selection, of_caller in (("100 ms", "200 ms"), ("200 ms", "100 ms")):
            selection = {"kind": "uniform", "m": 2, "observe": {"check_in": {"airtime": of_selection}}}
            with netfl.Simulation(
                scenario_of(access, selection), observe={"check_in": {"airtime": of_caller}}
            ) as simulation:
                assert simulation.step().opened_s == pytest.approx(0.2 * USERS)

    def test_learners_answer_the_questions_of_both(self):
        """The selection asks its two candidates, and the caller everyone; each sees the answers that it has asked."""
        population = UserInfo(USERS, Streams(1), np.ones(USERS))
        alone = SelectionState(PowerOfChoice(d=2, m=1), population, RoundControls())
        controls = RoundControls(observed_ages={"loss": "present"})
        both = SelectionState(PowerOfChoice(d=2, m=1), population, controls)
        losses = np.arange(1.0, 1 + USERS)
        for index in range(2, 8):
            (candidates,) = alone.queries(index).values()
            assert len(candidates) == 2
            assert both.queries(index) == {"loss": tuple(range(USERS))}
            answers = LearnerReport(index, {}, ({"loss": losses},))
            assert both.observe(answers).loss.tolist() == losses.tolist()
            of_candidates = LearnerReport(index, {}, ({"loss": losses[[*candidates]]},))
            assert both.choose(index, answers).tolist() == alone.choose(index, of_candidates).tolist()

    def test_caller_that_observes_losses_of_deliveries_keeps_them(self):
        """Answers of rounds in which the caller does not look are not lost; the selection asks nothing."""
        controls = RoundControls(observed_ages={"loss": "last_delivery"})
        state = SelectionState(Uniform(m=2), UserInfo(USERS, Streams(1)), controls)
        for index, user in ((2, 4), (3, 1)):
            state.record_deliveries(index - 1, [user])
            assert state.queries(index) == {"loss": (user,)}
            report = LearnerReport(index, {}, ({"loss": np.array([index / 2])},))
            state.choose(index, report)
        known = state.observe(report).loss
        assert known[[4, 1]].tolist() == [1.0, 1.5]
        assert np.isnan(known).sum() == USERS - 2

    def test_samples_are_a_copy(self):
        samples = np.ones(USERS)
        state = SelectionState(Oort(m=2), UserInfo(USERS, Streams(1), samples), RoundControls())
        state.observe(None).samples[:] = 7.0
        assert state.observe(None).samples.tolist() == [1.0] * USERS


class TestDeadline:
    def test_policy_sets_the_deadline_of_each_round(self):
        access = {**NETWORK, "round": {"kind": "first", "m": 6, "deadline": "4 s"}}
        rounds = simulate(scenario_of(access, {"kind": "support.observing_selections:Hasty"}))
        assert np.allclose([result.closed_s - result.opened_s for result in rounds], [2.0, 4.0] * 4)

    def test_caller_sets_the_deadline_of_a_round(self):
        access = {**NETWORK, "round": {"kind": "first", "m": 6, "deadline": "4 s"}}
        with netfl.Simulation(scenario_of(access)) as simulation:
            lengths_s = [simulation.step(deadline_s=limit).closed_s for limit in (3.0, None)]
        assert np.allclose(lengths_s, [3.0, 7.0])

    def test_deadline_that_cannot_be_is_an_error(self):
        with netfl.Simulation(scenario_of(DIRECT)) as simulation, pytest.raises(ScenarioError, match="no deadline"):
            simulation.step(deadline_s=3.0)
        with netfl.Simulation(scenario_of(NETWORK)) as simulation, pytest.raises(ScenarioError, match="positive"):
            simulation.step(deadline_s=0.0)
        scenario = scenario_of(NETWORK, {"kind": "support.observing_selections:Hasty", "short_s": -1.0})
        with pytest.raises(ScenarioError, match=r"access\.selection: .*Hasty .*not a positive time; return seconds"):
            simulate(scenario)

    @pytest.mark.parametrize("deadline_s", [np.inf, np.nan, "2 s"])
    def test_deadline_of_a_policy_that_is_no_time_names_the_policy(self, deadline_s):
        controls = RoundControls()
        state = SelectionState(Hasty(), UserInfo(USERS, Streams(1)), controls)
        state._selector._short_s = deadline_s
        state.choose(1, None)
        with pytest.raises(ScenarioError, match=r"selection: deadline_s\(\) of .*:Hasty for round 1 gives .*; ret"):
            state.deadline_s()

    def test_caller_may_give_a_text_with_a_unit(self):
        access = {**NETWORK, "round": {"kind": "first", "m": 6, "deadline": "4 s"}}
        with netfl.Simulation(scenario_of(access)) as simulation:
            assert simulation.step(deadline_s="3000 ms").closed_s == pytest.approx(3.0)
            for wrong in ("3 m", "soon", [1.0, 2.0], "-1 s", np.inf):
                with pytest.raises(ScenarioError, match=r"^deadline_s: not a .*; give seconds above 0") as error:
                    simulation.step(deadline_s=wrong)
                assert len(error.value.faults) == 1
            assert simulation.step(deadline_s=np.float32(3)).closed_s == pytest.approx(6.0)


class TestErrors:
    def test_policy_that_reads_what_it_did_not_declare(self):
        scenario = scenario_of({**NETWORK, **BATTERY}, {"kind": "support.observing_selections:Greedy"})
        with pytest.raises(ScenarioError, match=r"access\.selection\.observe\.battery_j: .*declares age") as error:
            simulate(scenario)
        assert len(error.value.faults) == 1

    @pytest.mark.parametrize("access", [DIRECT, NETWORK])
    def test_caller_of_a_simulation_in_which_nothing_is_declared(self, access):
        with netfl.Simulation(scenario_of(access)) as simulation:
            with pytest.raises(ScenarioError, match=r"^observe: nothing is declared.*Simulation\(observe="):
                simulation.observe()
            assert simulation.step() is not None

    @pytest.mark.parametrize("access", [DIRECT, NETWORK])
    def test_policy_that_fails_is_named_with_its_method(self, access):
        scenario = scenario_of(access, {"kind": "support.observing_selections:Broken"})
        message = r"choose\(\) of support.*:Broken for round 2 fails: KeyError: 'x' \(observing_.*, line \d+\); c"
        with pytest.raises(ScenarioError, match=rf"^access\.selection: {message}"):
            simulate(scenario)

    def test_errors_of_a_policy_have_the_line_of_the_scenario(self, tmp_path):
        path = tmp_path / "broken.yaml"
        scenario = scenario_of(DIRECT, {"kind": "support.observing_selections:Broken"})
        path.write_text(netfl.load(scenario).to_yaml())
        number = path.read_text().splitlines().index("  selection:") + 1
        with pytest.raises(ScenarioError) as error:
            simulate(netfl.load(path))
        assert str(error.value).startswith(f"{path}:{number}: access.selection: choose() of ")

    def test_caller_that_reads_what_it_did_not_declare(self):
        with netfl.Simulation(scenario_of(NETWORK), observe={"snr_db": "present"}) as simulation:
            observed = simulation.observe()
            with pytest.raises(ScenarioError, match=r"observe\.battery_j: .*declares snr_db"):
                _ = observed.battery_j
            with pytest.raises(AttributeError):
                _ = observed.battery

    @pytest.mark.parametrize(
        ("access", "selection", "message"),
        [
            (DIRECT, {"kind": "ranked", "by": "battery_j", "m": 2},
             r"selection: needs battery_j .*; use access\.kind: network, with access\.outages: .*or use another sel"),
            (DIRECT, {"kind": "ranked", "by": "snr_db", "m": 2},
             r"selection: needs snr_db .*; use access\.kind: network, with access\.radio and access\.channel, or use"),
            (DIRECT, {"kind": "uniform", "m": 2, "observe": {"distance_m": "present"}}, "has no effect"),
            (NETWORK, {"kind": "ranked", "by": "battery_j", "m": 2},
             r"selection: needs battery_j.*; add .*kind: battery"),
            (NETWORK, {"kind": "ranked", "by": "energy_j", "m": 2},
             r"selection: needs energy_j.*; add access\.energy, or"),
            (NETWORK, {"kind": "ranked", "by": "energy_j", "m": 2, "observe": {"energy_j": "present"}},
             r"observe\.energy_j: .*no such values; add access\.energy, or leave it out, or observe one of age, "),
            (NETWORK, {"kind": "uniform", "m": 2, "observe": {"batery_j": "present"}}, r"observe\.batery_j.*battery_j"),
            (NETWORK, {"kind": "uniform", "m": 2, "observe": {"snr_db": "present"}}, r"observe\.snr_db: .*no effect"),
            (NETWORK, {"kind": "ranked", "by": "snr_db", "m": 2, "observe": {"snr_db": "check_in"}}, "nobody is call"),
            (NETWORK, {"kind": "uniform", "m": 2, "observe": {"check_in": {"airtime": "-1 s"}}}, r"check_in\.airtime"),
        ],
    )  # fmt: skip
    def test_observation_that_cannot_be_is_one_error(self, access, selection, message):
        with pytest.raises(ScenarioError, match=message) as error:
            scenario_of(access, selection)
        assert len(error.value.faults) == 1
        assert "selection" in error.value.faults[0].key

    @pytest.mark.parametrize(
        ("access", "observe", "key"),
        [
            (NETWORK, {"snr": "present"}, "observe.snr"),
            (NETWORK, {"battery_j": "present"}, "observe.battery_j"),
            (NETWORK, {"loss": "present"}, "observe.loss"),
            (NETWORK, {"samples": "present"}, "observe.samples"),
            (DIRECT, {"distance_m": "present"}, "observe.distance_m"),
        ],
    )
    def test_caller_that_cannot_observe_a_value(self, access, observe, key):
        with pytest.raises(ScenarioError) as error:
            netfl.Simulation(scenario_of(access), observe=observe)
        assert [fault.key for fault in error.value.faults] == [key]


class TestWarning:
    @staticmethod
    def warnings(access, selection=None):
        texts = warnings(scenario_of(access, selection))
        return [text for text in texts if "without cost or delay" in text]

    def test_names_values_of_the_present(self):
        (text,) = self.warnings(NETWORK, {"kind": "ranked", "by": "snr_db", "m": 2, "observe": {"check_in": {}}})
        assert "present check_in and snr_db" in text or "present snr_db and check_in" in text

    @pytest.mark.parametrize(
        ("access", "selection"),
        [
            (NETWORK, {"kind": "uniform", "m": 2}),
            (NETWORK, {"kind": "oldest", "m": 2}),
            (DIRECT, {"kind": "uniform", "m": 2, "observe": {"check_in": {}}}),
            (NETWORK, {"kind": "ranked", "by": "snr_db", "m": 2,
                       "observe": {"check_in": {"airtime": "1 ms"}, "snr_db": "check_in"}}),
        ],
    )  # fmt: skip
    def test_is_absent_where_values_cost_something(self, access, selection):
        assert not self.warnings(access, selection)

    @pytest.mark.parametrize(
        ("mac", "count"),
        [
            ({"kind": "max_snr"}, 1),
            ({"kind": "max_snr", "poll": "1 ms"}, 0),
            ({"kind": "proportional_fair", "window": "10 s"}, 1),
            ({"kind": "fdma", "division": "need"}, 1),
            ({"kind": "fdma", "division": "water_filling"}, 1),
            ({"kind": "fdma"}, 0),
            ({"kind": "round_robin"}, 0),
        ],
    )
    @pytest.mark.parametrize("reception", [NETWORK["reception"], "shannon"])
    def test_names_a_scheduler_that_sees_the_present(self, mac, count, reception):
        texts = self.warnings({**NETWORK, "mac": mac, "reception": reception})
        assert len(texts) == count
        assert all(text.startswith("access.mac: ") for text in texts)

    def test_names_the_selection_of_an_inner_access(self):
        selection = {"kind": "ranked", "by": "norm", "m": 2}
        access = {"kind": "adversarial", "inner": {**DIRECT, "selection": selection}, "users": [1]}
        (text,) = warnings(scenario_of(access, **LEARNING))
        assert text.startswith("access.inner.selection.observe: ")


def test_every_observation_is_a_key_of_a_scenario():
    from netfl.access.selection._observation import Observe

    assert [*Observe.model_fields] == [*OBSERVATIONS]


def test_candidates_are_those_that_have_checked_in():
    assert RoundInfo(3, {}, 1).candidates.tolist() == [0, 1, 2]
    assert RoundInfo(3, {"check_in": np.array([True, False, True])}, 1).candidates.tolist() == [0, 2]
