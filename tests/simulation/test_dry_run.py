"""Long rounds: progress during a round, and the estimates of a dry run."""

import gc
import itertools
import re
import signal
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
from netfl.errors import ModelError, NetflError, ScenarioError
from netfl.learning.aggregation.average import Average
from netfl.report.run_data import RunData
from netfl.report.summary_text import run_status
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
"""Six users that collide in each slot of 20 ms until the deadline, for 6,000 slots."""
USERS = 6
SHORT = {"kind": "first", "m": 1, "deadline": "1 s"}


def make_scenario(**changes):
    """Return a scenario with colliding users."""
    return validate(ScenarioDocument({"name": "a", "users": USERS, "rounds": 2, "access": COLLIDING} | changes, "a"))


@pytest.mark.slow
def test_progress_is_reported_during_a_round():
    access, context, _ = make(3, 1, traffic={"kind": "constant", "every": 5.0}, round={"kind": "first", "m": 3})
    short_pulses = []
    assert [*access.rounds(replace(context, pulse=short_pulses.append))]
    assert short_pulses == []  # the round ends after a few events
    pulses = []
    prepared = prepare_run(make_scenario(rounds=1), pulse=pulses.append)
    (round_,) = make_scenario(rounds=1).access.rounds(prepared.contexts[0])
    assert len(pulses) > 5
    for before, after in itertools.pairwise(pulses):
        assert before.time_s <= after.time_s
        assert before.attempts <= after.attempts
    assert {pulse.round for pulse in pulses} == {1}
    assert 0.9 * round_.closed_s < pulses[-1].time_s < round_.closed_s
    for pulse in pulses:  # all six users send in each slot of 20 ms after training, and all attempts fail
        assert pulse.attempts == pytest.approx(USERS * pulse.time_s / 0.02, rel=0.05)
        assert pulse.attempts - USERS <= pulse.failed_attempts <= pulse.attempts + USERS


def test_failed_attempts_count_from_the_last_delivery():
    class FailureObserver(RunObserver):
        failed = attempts = 0

        def on_progress(self, pulse):
            self.failed, self.attempts = max(self.failed, pulse.failed_attempts), pulse.attempts

    observer = FailureObserver()
    changes = {
        "mac": {"kind": "slotted_aloha", "probability": 0.004},
        "round": {"kind": "available", "deadline": "90 s"},
    }
    scenario = make_scenario(rounds=1, users=400, access=COLLIDING | changes)
    (context,) = prepare_run(scenario, pulse=observer.on_progress).contexts
    (round_,) = scenario.access.rounds(context)
    assert len(round_.deliveries) > 300
    assert observer.attempts > 20 * observer.failed > 0


def test_exception_in_the_progress_callback_ends_the_round():
    def stop(pulse):
        raise KeyboardInterrupt

    (context,) = prepare_run(make_scenario(rounds=1), pulse=stop).contexts
    with pytest.raises(KeyboardInterrupt):
        next(make_scenario().access.rounds(context))


@pytest.mark.slow
def test_progress_reports_do_not_change_the_run(tmp_path):
    class PulseObserver(RunObserver):
        pulses = 0

        def on_progress(self, pulse):
            self.pulses += 1

    observer = PulseObserver()
    observed, unobserved = (
        netfl.trace(make_scenario(), tmp_path / "one", observer=observer),
        netfl.trace(make_scenario(), tmp_path / "two"),
    )
    assert observer.pulses > 10
    assert observed.rounds.equals(unobserved.rounds)
    assert observed.events.equals(unobserved.events)


@pytest.mark.slow
def test_progress_is_reported_for_the_rounds_of_a_partition():
    learner = {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": 16, "local_steps": 1}
    learning = {"data": "digits", "model": "logistic", "learners": {"one": learner}}
    prerun = {"partition": {"kind": "rare_classes", "classes": [9], "users": 1, "by": "prerun"}}
    for partition, min_pulses in ((prerun, 10), ({"partition": {"kind": "iid"}}, 0)):
        pulses = []
        prepare_run(make_scenario(**learning, **partition), pulse=pulses.append)
        assert {pulse.round for pulse in pulses} == ({1, 2} if min_pulses else set())
        assert len(pulses) >= min_pulses


@pytest.mark.slow
def test_users_are_ranked_by_the_first_rounds_in_a_dry_run(monkeypatch):
    """A whole prerun would take as long as the network of the run; its time is extrapolated."""
    ranked = []
    deliver = Bernoulli.rounds

    def counted(access, context):
        """Take 10 ms of processor time for each round that ranks the users."""
        ranked.append(context.rounds)
        each_s = 0.0
        if len(ranked) == 1:
            each_s = 0.01
        for round_ in deliver(access, context):
            end_s = time.process_time() + each_s
            while time.process_time() < end_s:
                pass
            yield round_

    monkeypatch.setattr(Bernoulli, "rounds", counted)
    partition = {"kind": "rare_classes", "classes": [1], "users": 2, "by": "prerun"}
    learner = SPARSE["learners"]["one"] | {"local_steps": 1}
    short = SPARSE | {"name": "ranked", "rounds": 5_000, "learners": {"one": learner}}
    ranks = run_dry(netfl.load(short | {"partition": partition}))
    assert ranked[0] == 100
    assert ranks.seconds > 40.0  # 50 s to rank by all 5,000 rounds, of which 100 took one


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
"""A hundred users, with about five deliveries in a round."""


def _compute(seconds):
    """Take processor time."""
    end_s = time.process_time() + seconds
    while time.process_time() < end_s:
        pass


class TestDryRun:
    def test_endless_round_is_cut(self, monkeypatch):
        clock = iter(np.arange(0.0, 1e4, 3.0))
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", lambda: next(clock))
        result = run_dry(make_scenario(replicas=2))
        assert result.seconds > 10.0
        assert result.cut.round == 1
        assert result.cut.attempts > 1000
        state = format_progress(result.cut)
        assert [*result.warnings()] == [f"long: round 1 did not end within 10 s; its state: {state}"]
        assert re.match(r"at least [\d.]+ (s|min \d\d s) of processor time after the start of Python, ", str(result))

    def test_very_long_traffic_is_cut_and_refused(self, monkeypatch):
        monkeypatch.setattr(dry_run, "ENDLESS_S", 1e5)
        clock = iter(np.arange(0.0, 1e4, 3.0))
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", lambda: next(clock))
        traffic = {"kind": "poisson", "rate": 20, "source": "towers"}
        access = {"kind": "network", "topology": {"kind": "star", "radius": "200 m"}, "traffic": traffic}
        settings = {"name": "a", "users": 2, "duration": 8e9, "access": access}
        with pytest.raises(ScenarioError, match="duration: the run would take more than a year: at least"):
            run_dry(validate(ScenarioDocument(settings, "a")))

    def test_very_frequent_outages_are_cut(self, monkeypatch):
        clock = iter(np.arange(0.0, 1e4, 3.0))
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", lambda: next(clock))
        short_times = {"distribution": "fixed", "mean": "1 us"}
        outage = {"kind": "renewal", "nodes": "users", "up": short_times, "down": short_times}
        traffic = {"kind": "poisson", "rate": 20, "source": "towers"}
        topology = {"kind": "star", "radius": "200 m"}
        access = {"kind": "network", "topology": topology, "traffic": traffic, "outages": [outage]}
        timed = {"name": "a", "users": 20, "duration": 1e7, "access": access}
        assert run_dry(validate(ScenarioDocument(timed, "a"))).cut is not None

    def test_outages_up_to_a_distant_time_are_cut(self, monkeypatch):
        monkeypatch.setattr(dry_run, "LIMIT_S", 0.1)
        short_times = {"distribution": "exponential", "mean": "1 ms"}
        outage = {"kind": "renewal", "nodes": "users", "up": short_times, "down": short_times}
        changes = {"outages": [outage], "compute": {"speed": 1e-9, "samples": 1}}  # training takes 30 years
        result = run_dry(make_scenario(access=COLLIDING | changes))
        assert result.cut is not None
        assert result.cut.round == 1

    def test_limit_waits_for_the_end_of_a_finalizer(self, capsys):
        """Python drops an error that is raised in a finalizer, with a message on the terminal."""

        class Finalized:
            is_final = False

            def __del__(self):
                _compute(0.05)
                Finalized.is_final = True

        limit = dry_run._TimeLimit()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(dry_run._CutError), limit.running():
            patch.setattr(dry_run, "_AGAIN_S", 60.0)
            signal.setitimer(signal.ITIMER_PROF, 0.01)
            Finalized()
            assert Finalized.is_final
            _compute(1.0)
        assert capsys.readouterr().err == ""

    def test_limit_waits_for_the_end_of_a_callback_of_the_garbage_collector(self, capsys):
        finished = []

        def callback(phase, info):
            _compute(0.05)
            finished.append(phase)

        limit = dry_run._TimeLimit()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(dry_run._CutError), limit.running():
            patch.setattr(dry_run, "_AGAIN_S", 60.0)
            gc.callbacks.append(callback)
            try:
                signal.setitimer(signal.ITIMER_PROF, 0.01)
                gc.collect()
            finally:
                gc.callbacks.remove(callback)
            assert finished
            _compute(1.0)
        assert capsys.readouterr().err == ""

    def test_set_up_of_a_large_network_is_cut(self, monkeypatch, tmp_path):
        monkeypatch.setattr(dry_run, "LIMIT_S", 0.1)
        former_handler = signal.getsignal(signal.SIGPROF)
        topology = {"kind": "grid", "rows": 60, "columns": 60, "spacing": "200 m"}
        path = tmp_path / "large.yaml"
        path.write_text(dump({"name": "a", "users": 6, "rounds": 2, "access": COLLIDING | {"topology": topology}}))
        result = CliRunner().invoke(app, ["check", str(path)])
        assert result.exit_code == 0
        assert "long: the network was not set up within 0.1 s" in result.output
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
        assert signal.getsignal(signal.SIGPROF) is former_handler

    def test_time_of_learning_is_not_limited(self, monkeypatch):
        monkeypatch.setattr(dry_run, "LIMIT_S", 0.05)
        limit = dry_run._TimeLimit()
        with limit.running():
            with limit.paused():
                _compute(0.06)
            limit.check()
        with pytest.raises(NetflError), limit.running():
            _compute(0.1)

    def test_estimate_scales_with_the_number_of_rounds(self, monkeypatch):
        """The clock advances by a fixed time per call, so each round takes equally long."""
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", itertools.count(0.0, 0.004).__next__)
        short = {"round": SHORT, "mac": "tdma"}
        short_run, long_run = (
            run_dry(make_scenario(rounds=rounds, access=COLLIDING | short)) for rounds in (1000, 9000)
        )
        assert short_run.rounds == pytest.approx(long_run.rounds, abs=1)
        assert long_run.seconds == pytest.approx(9 * short_run.seconds, rel=0.01)
        assert short_run.rounds < 1000

    def test_estimate_simulates_all_replicas_in_each_round(self, monkeypatch):
        """The clock advances by a fixed time per call, once per round for all replicas."""
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", itertools.count(0.0, 0.002).__next__)
        access_only = {key: SPARSE[key] for key in ("users", "rounds", "access", "record")}
        single, replicated = (run_dry(make_scenario(**access_only, replicas=replicas)) for replicas in (1, 3))
        assert (single.seconds, single.rounds) == (pytest.approx(replicated.seconds), replicated.rounds)

    def test_learning_time_is_linear_in_the_training_steps(self, monkeypatch):
        """Learners take 1 ms per round and 0.1 ms per training step."""
        now = itertools.count().__next__

        class Timed:
            lanes = diverged = ()
            training_method = ""

            def __init__(self, setup):
                self.steps = sum(learner.local_steps or 4 for learner in setup.scenario.learners.values())

            def start(self):
                clock[0] += 0.25
                return LearnerReport(0)

            def step(self, rounds):
                clock[0] += 1e-3 + 1e-4 * self.steps
                return LearnerReport(now())

        @contextmanager
        def open_timed_learner(setup, *arguments, learning):
            yield Timed(setup)

        clock = [0.0]
        monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", lambda: clock[0])
        monkeypatch.setattr(dry_run, "open_learner", open_timed_learner)
        steps = 50 + 4  # 32 examples in batches of 8
        evaluations_s = (2 + 3) * 0.25
        expected_s = 150 * (1e-3 + 1e-4 * steps) + evaluations_s
        assert run_dry(make_scenario(**SPARSE)).seconds == pytest.approx(expected_s)

    def test_a_clock_of_ticks_gives_the_same_order_of_time(self, monkeypatch):
        """Rounds of 2 ms take 0 or 10 ms by a clock of ticks, and the first five take 0."""
        seconds = []
        for tick_s in (1e-9, 0.01):
            clock = [0.0]

            class Timed:
                lanes = diverged = ()
                training_method = ""

                def __init__(self, setup, clock=clock):
                    self.steps = sum(learner.local_steps or 4 for learner in setup.scenario.learners.values())
                    self.clock = clock

                def start(self):
                    return LearnerReport(0)

                def step(self, rounds):
                    self.clock[0] += 1e-4 + 1e-5 * self.steps
                    return LearnerReport(0)

            @contextmanager
            def open_timed_learner(setup, *arguments, learning, learner=Timed):
                yield learner(setup)

            def ticks(clock=clock, tick_s=tick_s):
                return tick_s * (clock[0] // tick_s)

            monkeypatch.setattr("netfl.simulation.dry_run.time.process_time", ticks)
            monkeypatch.setattr(dry_run, "open_learner", open_timed_learner)
            seconds.append(run_dry(make_scenario(**SPARSE | {"rounds": 1000})).seconds)
        exact_s, by_ticks_s = seconds
        assert exact_s == pytest.approx(1000 * (1e-4 + 1e-5 * (50 + 4)), rel=1e-3)
        assert exact_s / 2 < by_ticks_s < 2 * exact_s


def test_training_steps_use_the_mean_number_of_samples():
    """Each user has 32 of 3,200 training examples, or 4 batches of 8."""
    amounts = [{"local_epochs": 3, "batch_size": 8}, {"local_epochs": 3, "batch_size": 1000},
               {"local_epochs": 3, "batch_size": "full"}, {"local_steps": 7, "batch_size": 8}]  # fmt: skip
    plain = {"objective": "erm", "aggregation": "average", "lr": 0.1}
    learners = {f"{number}": plain | amount for number, amount in enumerate(amounts)}
    assert dry_run._steps(prepare_run(make_scenario(**SPARSE | {"learners": learners}))) == [12, 3, 3, 7]


@pytest.mark.parametrize("rounds", [450, 900])
@pytest.mark.slow
def test_check_estimates_the_run_time(call, tmp_path, rounds):
    """Compare within a factor of 3 because other processes interfere; netfl documents a factor of 2."""
    code, output, error = call("check", PLAIN | SPARSE | {"rounds": rounds})
    assert code == 0, error
    value, unit = re.search(r"  ([\d.,]+) (s|min|h) of processor time", output).groups()
    scenario = make_scenario(**SPARSE | {"rounds": rounds})
    start_s = time.process_time()
    netfl.run(scenario, tmp_path / "run", device="cpu")
    measured_s = time.process_time() - start_s
    assert measured_s / 3 < float(value) * {"s": 1, "min": 60, "h": 3600}[unit] < 3 * measured_s


def test_dry_run_simulates_direct_rounds_in_batches(call):
    """All rounds of an access with one delivery each are drawn together."""
    direct = {"kind": "stationary", "rho": {"zipf": 1}}
    scenario = {"name": "a", "users": 200_000, "rounds": 1000, "record": "none", "access": direct}
    _, output, _ = call("check", scenario)
    assert "extrapolated from 1\u202f000 rounds" in output
    assert re.search(r"(under 1|[\d.]+) s of processor time", output)


def test_dry_run_ignores_errors_in_later_rounds(monkeypatch):
    def step(self, state, current, updates):
        if updates.round > 3:
            raise LookupError("nobody there")
        return current, state

    monkeypatch.setattr(Average, "step", step)
    assert run_dry(make_scenario(**SPARSE)).rounds == 3
    monkeypatch.setattr(Average, "step", lambda *arguments: 1 / 0)
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        run_dry(make_scenario(**SPARSE))


def test_error_in_the_first_round_fails_the_check(monkeypatch):
    def rounds(self, context):
        yield from ()

    monkeypatch.setattr(Bernoulli, "rounds", rounds)
    with pytest.raises(ModelError, match=r"bernoulli.*the network ends after round 0 of 150"):
        run_dry(make_scenario(**SPARSE))


def test_check_refuses_runs_longer_than_a_year(call):
    access = SPARSE["access"] | {"round_length": "1 ms"}
    code, _, error = call("check", PLAIN | SPARSE | {"rounds": 10**11, "access": access})
    assert code == 2
    assert re.search(r"rounds: the run would take more than a year: .* extrapolated from [\d\s,]+ rounds?\)", error)


@pytest.fixture
def call(tmp_path, monkeypatch):
    """A function that runs a command on a scenario and returns its exit code and output.

    What else runs on this machine may leave it little memory, which is not tested here.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("netfl.simulation.memory.available", lambda: None)

    def invoke(verb, scenario, *options):
        (tmp_path / "a.yaml").write_text(dump(scenario))
        result = CliRunner().invoke(app, [verb, "a.yaml", *options])
        return result.exit_code, result.stdout, result.stderr

    return invoke


PLAIN = {"name": "a", "users": USERS, "rounds": 2, "access": COLLIDING}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a callback of a weak reference
def test_check_warns_of_a_long_round(call, monkeypatch):
    monkeypatch.setattr(dry_run, "LIMIT_S", 0.5)
    code, output, warning = call("check", PLAIN)
    assert code == 0
    assert output.startswith("a.yaml: valid keys")
    long, repeats = warning.splitlines()
    assert re.fullmatch(
        r"  long: round \d+ did not end within 0\.5 s; its state: .* simulated · [\d,]+ attempts(,.*failed)?", long
    )
    assert "draws nothing before it repeats a frame" in repeats


@pytest.mark.parametrize(("probability", "warns"), [(0.2, False), (1.0, True)])
def test_check_of_a_short_run_warns_if_nothing_is_delivered(call, probability, warns):
    mac = {"kind": "slotted_aloha", "probability": probability}
    access = COLLIDING | {"mac": mac, "round": SHORT}
    code, output, warning = call("check", PLAIN | {"rounds": 3, "access": access})
    assert code == 0
    assert "s of processor time" in output
    if not warns:
        assert warning == ""
        return
    silent, repeats = warning.splitlines()
    expected = (
        "silent: 3 rounds of the dry run delivered no update; after a run, netfl ram DIR --explain names the causes"
    )
    assert silent.strip() == expected
    assert "draws nothing before it repeats a frame" in repeats


def test_check_names_the_step_size_of_a_learner_that_diverges(call):
    calm = {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": 4, "local_steps": 2}
    wild = calm | {"lr": 1e300}
    scenario = PLAIN | {
        "access": {"kind": "stationary", "rho": [1 / USERS] * USERS},
        "rounds": 200,
        "replicas": 2,
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 40},
        "partition": "iid",
        "model": "logistic",
    }
    fault = (
        r"a\.yaml:\d+: learners\.Wild\.lr: replica 0, user \d: the update in round 1 is not finite: "
        r"training diverged \(1e\+300\); a smaller lr may help\n"
    )
    code, output, warning = call("check", scenario | {"learners": {"Calm": calm, "Wild": wild}})
    assert code == 0
    assert output.startswith("a.yaml: valid keys\n")
    assert re.fullmatch(rf"  diverged: {fault}", warning)
    code, output, error = call("check", scenario | {"learners": {"Wild": wild}})
    assert (code, output) == (2, "a.yaml: valid keys\n")
    assert re.fullmatch(fault, error)


ONCE = {"kind": "pure_aloha", "backoff": "1 s", "max_attempts": 1}


@pytest.mark.parametrize(
    ("compute", "is_warned"), [({"speed": 100, "samples": 1}, True), ({"speed": 1, "samples": 1, "jitter": 0.5}, False)]
)
def test_check_warns_of_synchronised_attempts(call, compute, is_warned):
    """Users that train for one time collide in each round; users whose times vary from round to round do not."""
    access = COLLIDING | {
        "mac": ONCE,
        "compute": compute,
        "round": SHORT | {"m": 6, "deadline": "10 s", "losses": "unknown"},
    }
    code, _, warning = call("check", PLAIN | {"rounds": 40, "access": access})
    assert code == 0
    assert ("synchronised attempts: of the users of tower:0 that collide, 100% overlap" in warning) == is_warned


def test_report_warns_of_synchronised_attempts(tmp_path):
    access = COLLIDING | {"mac": ONCE, "round": SHORT | {"deadline": "10 s", "losses": "unknown"}}
    run = netfl.trace(make_scenario(rounds=40, access=access), tmp_path / "run", progress=False)
    warning = "Warning: attempts of several users of tower:0 stay synchronised."
    assert any(warning in sentence for sentence in run_status(RunData(run)))


@pytest.mark.parametrize("verb", ["check", "trace"])
def test_overloaded_network_gets_a_warning_before_the_run(call, verb):
    traffic = {"kind": "constant", "every": "10 ms", "size": {"distribution": "fixed", "mean": "1 kbit"}}
    short = {"round": SHORT, "traffic": traffic}
    code, _, warning = call(verb, PLAIN | {"rounds": 1, "access": COLLIDING | short})
    assert code == 0
    assert "overloaded: the users of tower:0 receive 12 times as many packets as they can send" in warning
    if verb == "trace":
        assert call(verb, PLAIN | {"rounds": 1, "access": COLLIDING | short}, "--quiet")[2] == ""


def test_format_progress():
    assert format_progress(RoundProgress(1, 30.0, 12, 12)) == "30 s simulated · 12 attempts"
    assert (
        format_progress(RoundProgress(1, 30.0, 1012, 1000))
        == "30 s simulated · 1,012 attempts, the last 1,000 of them failed"
    )
