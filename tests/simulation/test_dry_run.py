"""Rounds that take long: how far they are is told while they go on, and beforehand by a rehearsal."""

import itertools
import re
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from support.small_network import SECTION, make
from typer.testing import CliRunner

import netfl
from netfl.access.bernoulli import Bernoulli
from netfl.cli import app
from netfl.errors import ModelError, ScenarioError
from netfl.learning.aggregation.average import Average
from netfl.results.formatting import format_progress
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, dump
from netfl.simulation import dry_run
from netfl.simulation.dry_run import run_dry
from netfl.simulation.setup import prepare_run
from netfl.types import LearnerReport, RoundProgress, RunObserver

COLLIDING = SECTION | {
    "mac": {"kind": "slotted_aloha", "probability": 1.0},
    "round": {"kind": "first", "m": 1, "deadline": "120 s"},
    "update_size": "1 kbit",
    "compute": {"speed": 100, "samples": 1},
}
"""Six users who meet in each slot, 20 ms long, until the deadline: 6,000 slots."""
USERS = 6
SHORT = {"kind": "first", "m": 1, "deadline": "1 s"}


def said(**changes):
    """A scenario of such rounds."""
    return validate(ScenarioDocument({"name": "a", "users": USERS, "rounds": 2, "access": COLLIDING} | changes, "a"))


@pytest.mark.slow
def test_how_far_a_round_is_is_told_while_it_goes_on():
    access, setting, _ = make(3, 1, traffic={"kind": "constant", "every": 5.0}, round={"kind": "first", "m": 3})
    told = []
    assert [*access.rounds(replace(setting, pulse=told.append))]
    assert told == []  # it is over after a few events
    pulses = []
    stage_of = prepare_run(said(rounds=1), pulse=pulses.append)
    (one,) = said(rounds=1).access.rounds(stage_of.contexts[0])
    assert len(pulses) > 5
    for before, after in itertools.pairwise(pulses):
        assert before.time_s <= after.time_s
        assert before.attempts <= after.attempts
    assert {pulse.round for pulse in pulses} == {1}
    assert 0.9 * one.closed_s < pulses[-1].time_s < one.closed_s
    for pulse in pulses:  # all six in each slot of 20 ms, once they have trained, and all in vain
        assert pulse.attempts == pytest.approx(USERS * pulse.time_s / 0.02, rel=0.05)
        assert pulse.attempts - USERS <= pulse.failed_attempts <= pulse.attempts + USERS


def test_attempts_in_vain_are_counted_from_the_last_that_was_heard():
    class Heard(RunObserver):
        vain = attempts = 0

        def on_progress(self, pulse):
            self.vain, self.attempts = max(self.vain, pulse.failed_attempts), pulse.attempts

    watch = Heard()
    changes = {
        "mac": {"kind": "slotted_aloha", "probability": 0.004},
        "round": {"kind": "available", "deadline": "90 s"},
    }
    scenario = said(rounds=1, users=400, access=COLLIDING | changes)
    (setting,) = prepare_run(scenario, pulse=watch.on_progress).contexts
    (one,) = scenario.access.rounds(setting)
    assert len(one.deliveries) > 300
    assert watch.attempts > 20 * watch.vain > 0


def test_what_a_pulse_raises_ends_the_round():
    def stop(pulse):
        raise KeyboardInterrupt

    (setting,) = prepare_run(said(rounds=1), pulse=stop).contexts
    with pytest.raises(KeyboardInterrupt):
        next(said().access.rounds(setting))


@pytest.mark.slow
def test_a_run_is_the_same_whoever_hears_of_it(tmp_path):
    class Hearing(RunObserver):
        pulses = 0

        def on_progress(self, pulse):
            self.pulses += 1

    watch = Hearing()
    heard, unheard = netfl.trace(said(), tmp_path / "one", observer=watch), netfl.trace(said(), tmp_path / "two")
    assert watch.pulses > 10
    assert heard.rounds.equals(unheard.rounds)
    assert heard.events.equals(unheard.events)


@pytest.mark.slow
def test_rounds_that_are_played_to_deal_out_the_data_are_told_of_too():
    learner = {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": 16, "local_steps": 1}
    learning = {"data": "digits", "model": "logistic", "learners": {"one": learner}}
    dealt = {"partition": {"kind": "rare_classes", "classes": [9], "users": 1, "by": "prerun"}}
    for partition, least in ((dealt, 10), ({"partition": {"kind": "iid"}}, 0)):
        pulses = []
        prepare_run(said(**learning, **partition), pulse=pulses.append)
        assert {pulse.round for pulse in pulses} == ({1, 2} if least else set())
        assert len(pulses) >= least


SPARSE = {
    "users": 100,
    "rounds": 150,
    "access": {"kind": "bernoulli", "probability": 0.05},
    "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 2000},
    "partition": "iid",
    "model": {"kind": "mlp", "hidden": [32]},
    "learners": {
        "one": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 50},
        "two": {"objective": "erm", "aggregation": "fedau", "lr": 0.1, "batch_size": 8, "local_epochs": 1},
    },
    "evaluate": {"every": 50},
    "record": "none",
}
"""A hundred users, of whom five or so are heard in a round."""


class TestRehearsal:
    """The dry run."""

    def test_a_round_that_does_not_end_is_cut(self, monkeypatch):
        clock = iter(np.arange(0.0, 1e4, 3.0))
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", lambda: next(clock))
        rehearsal = run_dry(said(replicas=2))
        assert rehearsal.seconds > 10.0
        assert rehearsal.cut.round == 1
        assert rehearsal.cut.attempts > 1000
        state = format_progress(rehearsal.cut)
        assert [*rehearsal.warnings()] == [f"long: round 1 did not end within 10 s; its state: {state}"]
        assert re.match(r"at least [\d.]+ (s|min \d\d s) of processor time after the start of Python, ", str(rehearsal))

    @pytest.mark.parametrize("duration", [1e12, 1e300])
    def test_traffic_that_never_ends_is_cut_and_refused(self, monkeypatch, duration):
        clock = iter(np.arange(0.0, 1e4, 3.0))
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", lambda: next(clock))
        traffic = {"kind": "poisson", "rate": 20, "source": "towers"}
        access = {"kind": "network", "topology": {"kind": "star", "radius": "200 m"}, "traffic": traffic}
        endless = {"name": "a", "users": 2, "duration": duration, "access": access}
        with pytest.raises(ScenarioError, match="duration: the run would take more than a year: at least"):
            run_dry(validate(ScenarioDocument(endless, "a")))

    def test_outages_too_quick_for_any_time_are_cut(self, monkeypatch):
        clock = iter(np.arange(0.0, 1e4, 3.0))
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", lambda: next(clock))
        quick = {"distribution": "fixed", "mean": "1 us"}
        outage = {"kind": "renewal", "nodes": "users", "up": quick, "down": quick}
        traffic = {"kind": "poisson", "rate": 20, "source": "towers"}
        topology = {"kind": "star", "radius": "200 m"}
        access = {"kind": "network", "topology": topology, "traffic": traffic, "outages": [outage]}
        timed = {"name": "a", "users": 20, "duration": 1e7, "access": access}
        assert run_dry(validate(ScenarioDocument(timed, "a"))).cut is not None

    def test_time_is_that_of_all_rounds(self, monkeypatch):
        """By a clock that counts looks at it, so that each round takes equally long."""
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", itertools.count(0.0, 0.002).__next__)
        short = {"round": SHORT, "mac": "tdma"}
        few, many = (run_dry(said(rounds=rounds, access=COLLIDING | short)) for rounds in (1000, 9000))
        assert few.rounds == many.rounds
        assert many.seconds == pytest.approx(9 * few.seconds, rel=0.01)
        assert few.rounds < 1000

    def test_a_round_is_one_of_all_replicas(self, monkeypatch):
        """By a clock that counts how often it is looked at, the three together in each round."""
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", itertools.count(0.0, 0.002).__next__)
        alone = {key: SPARSE[key] for key in ("users", "rounds", "access", "record")}
        one, three = (run_dry(said(**alone, replicas=replicas)) for replicas in (1, 3))
        assert (one.seconds, one.rounds) == (pytest.approx(three.seconds), three.rounds)

    def test_learning_is_extrapolated_along_a_line_of_steps(self, monkeypatch):
        """Learners that take a second for each round, and a tenth for each of the steps of all learners."""
        now = itertools.count().__next__

        class Timed:
            lanes = diverged = ()

            def __init__(self, setup):
                self.steps = sum(one.local_steps or 3 for one in setup.scenario.learners.values())

            def start(self):
                clock[0] += 0.25
                return LearnerReport(0)

            def step(self, rounds):
                clock[0] += 1e-3 + 1e-4 * self.steps
                return LearnerReport(now())

        @contextmanager
        def schooled(setup, *told, learning):
            yield Timed(setup)

        clock = [0.0]
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", lambda: clock[0])
        monkeypatch.setattr(dry_run, "open_learner", schooled)
        steps = 50 + 3  # of 20 examples, by batches of 8
        looks = (2 + 3) * 0.25
        whole = 150 * (1e-3 + 1e-4 * steps) + looks
        assert run_dry(said(**SPARSE)).seconds == pytest.approx(whole)


def test_steps_are_those_of_a_user_that_holds_as_much_as_the_mean():
    """Users hold 32 of 3,200 points to train on: 4 batches of 8."""
    amounts = [{"local_epochs": 3, "batch_size": 8}, {"local_epochs": 3, "batch_size": 1000},
               {"local_epochs": 3, "batch_size": "full"}, {"local_steps": 7, "batch_size": 8}]  # fmt: skip
    plain = {"objective": "erm", "aggregation": "average", "lr": 0.1}
    learners = {f"{number}": plain | amount for number, amount in enumerate(amounts)}
    assert dry_run._steps(prepare_run(said(**SPARSE | {"learners": learners}))) == [12, 3, 3, 7]


@pytest.mark.parametrize("rounds", [150, 450])
@pytest.mark.slow
def test_a_check_tells_the_time_that_a_run_takes(call, tmp_path, rounds):
    """Within a factor of 3, as other processes disturb; netfl says 2."""
    code, output, _ = call("check", PLAIN | SPARSE | {"rounds": rounds})
    assert code == 0
    figure, unit = re.search(r"  ([\d.,]+) (s|min|h) of processor time", output).groups()
    scenario = said(**SPARSE | {"rounds": rounds})
    began_s = time.process_time()
    netfl.run(scenario, tmp_path / "run", device="cpu")
    taken_s = time.process_time() - began_s
    assert taken_s / 3 < float(figure) * {"s": 1, "min": 60, "h": 3600}[unit] < 3 * taken_s


def test_rounds_that_a_run_plays_many_at_a_time_are_so_played(call):
    """One of many users is heard in a round, which is drawn with all others."""
    direct = {"kind": "stationary", "rho": {"zipf": 1}}
    scenario = {"name": "a", "users": 200_000, "rounds": 1000, "record": "none", "access": direct}
    _, output, _ = call("check", scenario)
    assert "extrapolated from 1000 rounds" in output
    assert re.search(r"(under 1|[\d.]+) s of processor time", output)


def test_a_model_that_fails_in_a_later_round_is_left_to_the_run(monkeypatch):
    def step(self, state, current, updates):
        if updates.round > 3:
            raise LookupError("nobody there")
        return current, state

    monkeypatch.setattr(Average, "step", step)
    assert run_dry(said(**SPARSE)).rounds == 3
    monkeypatch.setattr(Average, "step", lambda *told: 1 / 0)
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        run_dry(said(**SPARSE))


def test_an_access_that_fails_in_the_first_round_fails_the_check(monkeypatch):
    def rounds(self, setting):
        yield from ()

    monkeypatch.setattr(Bernoulli, "rounds", rounds)
    with pytest.raises(ModelError, match=r"bernoulli.*the network ends after round 0 of 150"):
        run_dry(said(**SPARSE))


def test_a_check_refuses_what_would_not_end_in_a_year(call):
    code, _, error = call("check", PLAIN | SPARSE | {"rounds": 2 * 10**10})
    assert code == 2
    assert re.search(r"rounds: the run would take more than a year: .* extrapolated from \d+ rounds?\)", error)


@pytest.fixture
def call(tmp_path, monkeypatch):
    """``call("check", {...})``: what a command says of a scenario, beside the exit code."""
    monkeypatch.chdir(tmp_path)

    def of(verb, scenario, *words):
        (tmp_path / "a.yaml").write_text(dump(scenario))
        result = CliRunner().invoke(app, [verb, "a.yaml", *words])
        return result.exit_code, result.stdout, result.stderr

    return of


PLAIN = {"name": "a", "users": USERS, "rounds": 2, "access": COLLIDING}


def test_a_check_ends_and_tells(call, monkeypatch):
    monkeypatch.setattr(dry_run, "LIMIT_S", 0.05)
    code, output, warning = call("check", PLAIN)
    assert code == 0
    assert output.startswith("a.yaml: valid")
    assert re.fullmatch(
        r"  long: round 1 did not end within 0\.05 s; its state: .* simulated · [\d,]+ attempts.*failed\n", warning
    )


def test_a_check_of_what_is_soon_over_says_no_more(call):
    code, output, warning = call("check", PLAIN | {"rounds": 1, "access": COLLIDING | {"round": SHORT}})
    assert (code, warning) == (0, "")
    assert "s of processor time" in output


@pytest.mark.parametrize("verb", ["check", "trace"])
def test_an_overloaded_network_is_told_before_it_runs(call, verb):
    traffic = {"kind": "constant", "every": "10 ms", "size": {"distribution": "fixed", "mean": "1 kbit"}}
    short = {"round": SHORT, "traffic": traffic}
    code, _, warning = call(verb, PLAIN | {"rounds": 1, "access": COLLIDING | short})
    assert code == 0
    assert "overloaded: the users of tower:0 receive 12 times as many packets as they can send" in warning
    if verb == "trace":
        assert call(verb, PLAIN | {"rounds": 1, "access": COLLIDING | short}, "--quiet")[2] == ""


def test_so_far_in_words():
    assert format_progress(RoundProgress(1, 30.0, 12, 12)) == "30 s simulated · 12 attempts"
    assert (
        format_progress(RoundProgress(1, 30.0, 1012, 1000))
        == "30 s simulated · 1,012 attempts, the last 1,000 of them failed"
    )
