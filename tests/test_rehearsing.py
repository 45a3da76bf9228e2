"""Rounds that take long: how far they are is told while they go on, and beforehand by a rehearsal."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from small import SECTION, as_yaml, make
from typer.testing import CliRunner

import netfl
from netfl import rehearsing, workload
from netfl.cli import app
from netfl.document import Document
from netfl.pulse import Pulse
from netfl.rehearsing import rehearse
from netfl.scenario import checked
from netfl.staging import stage
from netfl.watch import Unwatched, so_far

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
    return checked(Document({"name": "a", "users": USERS, "rounds": 2, "access": COLLIDING} | changes, "a"))


@pytest.mark.slow
def test_how_far_a_round_is_is_told_while_it_goes_on():
    access, setting, _ = make(3, 1, traffic={"kind": "constant", "every": 5.0}, round={"kind": "first", "m": 3})
    told = []
    assert [*access.rounds(replace(setting, pulse=told.append))]
    assert told == []  # it is over after a few events
    pulses = []
    stage_of = stage(said(rounds=1), pulse=pulses.append)
    (one,) = said(rounds=1).access.rounds(stage_of.settings[0])
    assert len(pulses) > 5
    for before, after in itertools.pairwise(pulses):
        assert before.time_s <= after.time_s
        assert before.attempts <= after.attempts
    assert {pulse.round for pulse in pulses} == {1}
    assert 0.9 * one.closed_s < pulses[-1].time_s < one.closed_s
    for pulse in pulses:  # all six in each slot of 20 ms, once they have trained, and all in vain
        assert pulse.attempts == pytest.approx(USERS * pulse.time_s / 0.02, rel=0.05)
        assert pulse.attempts - USERS <= pulse.vain <= pulse.attempts + USERS


def test_attempts_in_vain_are_counted_from_the_last_that_was_heard():
    class Heard(Unwatched):
        vain = attempts = 0

        def within(self, pulse):
            self.vain, self.attempts = max(self.vain, pulse.vain), pulse.attempts

    watch = Heard()
    changes = {
        "mac": {"kind": "slotted_aloha", "probability": 0.004},
        "round": {"kind": "available", "deadline": "90 s"},
    }
    scenario = said(rounds=1, users=400, access=COLLIDING | changes)
    (setting,) = stage(scenario, pulse=watch.within).settings
    (one,) = scenario.access.rounds(setting)
    assert len(one.deliveries) > 300
    assert watch.attempts > 20 * watch.vain > 0


def test_what_a_pulse_raises_ends_the_round():
    def stop(pulse):
        raise KeyboardInterrupt

    (setting,) = stage(said(rounds=1), pulse=stop).settings
    with pytest.raises(KeyboardInterrupt):
        next(said().access.rounds(setting))


@pytest.mark.slow
def test_a_run_is_the_same_whoever_hears_of_it(tmp_path):
    class Hearing(Unwatched):
        pulses = 0

        def within(self, pulse):
            self.pulses += 1

    watch = Hearing()
    heard, unheard = netfl.trace(said(), tmp_path / "one", watch=watch), netfl.trace(said(), tmp_path / "two")
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
        stage(said(**learning, **partition), pulse=pulses.append)
        assert {pulse.round for pulse in pulses} == ({1, 2} if least else set())
        assert len(pulses) >= least


class TestRehearsal:
    """The first round, played beforehand."""

    def test_a_round_of_a_few_events_takes_no_time_that_counts(self):
        assert rehearse(said(access=SECTION | {"update_size": "1 kbit", "compute": {"speed": 1, "samples": 1}})) == (
            rehearsing.Rehearsal(0.0, None)
        )

    def test_a_long_one_is_timed_in_every_replica(self, monkeypatch):
        clock = iter(np.arange(0.0, 10.0, 0.001))  # a millisecond from pulse to pulse
        monkeypatch.setattr("netfl.rehearsing.time.process_time", lambda: next(clock))
        pulses = []
        (setting,) = stage(said(rounds=1), pulse=pulses.append).settings
        next(said().access.rounds(setting))
        for replicas in (1, 3):
            rehearsal = rehearse(said(replicas=replicas))
            assert rehearsal.cut is None
            assert rehearsal.seconds == pytest.approx(0.001 * len(pulses) * replicas, rel=0.1)

    def test_one_that_does_not_end_is_cut(self, monkeypatch):
        clock = iter(np.arange(0.0, 1e4, 3.0))
        monkeypatch.setattr("netfl.rehearsing.time.process_time", lambda: next(clock))
        rehearsal = rehearse(said(replicas=2))
        assert rehearsal.seconds > 10.0
        assert rehearsal.cut.round == 1
        assert rehearsal.cut.attempts > 1000
        assert rehearsal.warning == f"long: round 1 was not over after 10 s; it stood at {so_far(rehearsal.cut)}"

    def test_what_was_played_counts_for_all_rounds(self):
        short, long = said(rounds=100), workload.of(said(rounds=100), round_s=2.0)
        assert workload.of(short).seconds < 2.0
        assert long.seconds == pytest.approx(200.0, rel=0.1)
        many = said(users=6000, rounds=100)
        assert workload.of(many, round_s=0.001).seconds == workload.of(many).seconds  # the larger of the two


@pytest.fixture
def call(tmp_path, monkeypatch):
    """``call("check", {...})``: what a command says of a scenario, beside the exit code."""
    monkeypatch.chdir(tmp_path)

    def of(verb, scenario, *words):
        (tmp_path / "a.yaml").write_text(as_yaml(scenario))
        result = CliRunner().invoke(app, [verb, "a.yaml", *words])
        return result.exit_code, result.stdout, result.stderr

    return of


PLAIN = {"name": "a", "users": USERS, "rounds": 2, "access": COLLIDING}


def test_a_check_ends_and_tells(call, monkeypatch):
    monkeypatch.setattr(rehearsing, "LIMIT_S", 0.05)
    code, output, warning = call("check", PLAIN)
    assert code == 0
    assert output.startswith("a.yaml: good")
    assert re.fullmatch(
        r"  long: round 1 was not over after 0\.05 s; it stood at .* simulated · [\d,]+ attempts.*in vain\n", warning
    )


def test_a_check_of_what_is_soon_over_says_no_more(call):
    code, output, warning = call("check", PLAIN | {"rounds": 1, "access": COLLIDING | {"round": SHORT}})
    assert (code, warning) == (0, "")
    assert "under 1 s" in output


@pytest.mark.parametrize("verb", ["check", "trace"])
def test_an_overloaded_network_is_told_before_it_runs(call, verb):
    traffic = {"kind": "constant", "every": "10 ms", "size": {"law": "fixed", "mean": "1 kbit"}}
    short = {"round": SHORT, "traffic": traffic}
    code, _, warning = call(verb, PLAIN | {"rounds": 1, "access": COLLIDING | short})
    assert code == 0
    assert "overloaded: to the users of tower:0 come 12 times as many packets as can leave them" in warning
    if verb == "trace":
        assert call(verb, PLAIN | {"rounds": 1, "access": COLLIDING | short}, "--quiet")[2] == ""


def test_so_far_in_words():
    assert so_far(Pulse(1, 30.0, 12, 12)) == "30 s simulated · 12 attempts"
    assert so_far(Pulse(1, 30.0, 1012, 1000)) == "30 s simulated · 1,012 attempts, the last 1,000 of them in vain"
