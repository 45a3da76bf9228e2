"""A name that nobody declares is an error, whoever uses it: of events, outcomes, tables, queries and metrics.

An undeclared name that is accepted loses in silence what stands below it, however much a run records.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from support.learner_factory import a_round, learner, spec

import netfl
from netfl.access import Access, AccessInfo
from netfl.diagnosis.explanation.replays import Evidence
from netfl.errors import ModelError
from netfl.gym.episodes import EpisodeHistory
from netfl.network.counters import PacketCounter
from netfl.network.event_log import Ending, EventLog
from netfl.results.metrics import find_metric
from netfl.results.tables import EventRecorder, MemoryTable
from netfl.scenario.recording import RecordSpec
from netfl.simulation.history import History
from netfl.types import KINDS, Delivery, Event, Law, NullRecorder, Round

ALL = RecordSpec(events="all").keeping(2)


def event_recorder():
    return EventRecorder(MemoryTable("events"), 0, ALL)


RECORDERS = {
    "a run": event_recorder,
    "a simulation": lambda: History(0, ALL),
    "a simulation that keeps nothing": lambda: History(0, None),
    "an episode": lambda: EpisodeHistory(0, 2, None),
    "an explanation": Evidence,
    "nothing": NullRecorder,
}
"""A recorder of each kind, by what it serves."""


class Jammed(Access):
    """One update in each round, and an event of a kind that is not declared.

    Args:
        asks: ask first whether it is recorded.
    """

    kind_of_event: str = "jammed"
    asks: bool = False

    def rounds(self, context):
        for index in range(1, context.rounds + 1):
            if not self.asks or context.recorder.wants(self.kind_of_event):
                context.recorder.record(Event(self.kind_of_event, index - 0.5, index, user=0))
            context.recorder.record(Event("delivered", float(index), index, user=0, node="server"))
            update = Delivery(user=0, base=index - 1, sent_s=index - 1.0, arrived_s=float(index))
            yield Round(index=index, opened_s=index - 1.0, closed_s=float(index), deliveries=(update,), oldest=index)

    def laws(self):
        return (Law.none("nothing is drawn"),)


@pytest.mark.parametrize("name", RECORDERS)
def test_kind_of_event(name):
    recorder = RECORDERS[name]()
    message = r"no kind of events \('jammed'\).*name one of .*broadcast.*detail"
    with pytest.raises(ValueError, match=message):
        recorder.wants("jammed")
    with pytest.raises(ValueError, match=message):
        recorder.record(Event("jammed", 1.0, 1, user=0))
    for kind in KINDS:
        recorder.wants(kind)
    recorder.wants("attempts")


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("record", ["all", "none"])
def test_kind_of_event_of_a_plugin(asks, record, tmp_path):
    scenario = netfl.Scenario(name="x", users=2, rounds=3, record=record, access=Jammed(asks=asks))
    with pytest.raises(ModelError, match=r"Jammed.*no kind of events \('jammed'\)"):
        netfl.trace(scenario, tmp_path / "run")


def test_declared_kind_of_a_plugin_is_recorded(tmp_path):
    access = Jammed(kind_of_event="sampled", asks=True)
    run = netfl.trace(netfl.Scenario(name="x", users=2, rounds=3, record="all", access=access), tmp_path / "run")
    assert run.events["kind"].tolist() == ["sampled", "delivered"] * 3


@pytest.mark.parametrize("outcome", ["jammed", "forwarded"])
def test_outcome(outcome):
    """The kind of an event that is no outcome would leave the update without one."""
    log = EventLog(NullRecorder(), 2)
    with pytest.raises(ValueError, match=rf"no outcome \('{outcome}'\); name one of .*given_up"):
        log.record_ending(Ending(outcome, "server"), 1.0, np.array([0]), 0)


def test_loss_of_packets():
    counter = PacketCounter(1)
    with pytest.raises(ValueError, match=r"no loss of packets \('jammed'\); name one of .*given_up"):
        counter.lose(0, "jammed")
    counter.lose(0, "dropped")
    assert counter.metrics(1.0)["lost.dropped"] == 1.0


@pytest.mark.parametrize("name", RECORDERS)
def test_table(name):
    rows = {"user": np.arange(2)}
    recorder = RECORDERS[name]()
    with pytest.raises(ValueError, match=r"no table to add rows to \('jams'\); name one of attempts, energy, users"):
        recorder.add_rows("jams", rows)
    with suppress(AssertionError):  # attempts are not recorded here
        recorder.add_rows("users", rows)


class Queued(Jammed):
    """Records a metric of its own at its end.

    Args:
        declared: the metrics that it declares.
        name_of_metric: the one that it records.
    """

    kind_of_event: str = "sampled"
    declared: tuple[str, ...] = ()
    name_of_metric: str = "queue_mean"

    def rounds(self, context):
        for each in super().rounds(context):
            if each.index == context.rounds:  # a simulation asks for no more after the last round
                context.recorder.final_metrics({self.name_of_metric: 3.5})
            yield each

    @property
    def info(self):
        return AccessInfo(metrics=self.declared)


def scenario_of(**options):
    return netfl.Scenario(name="x", users=2, rounds=3, access=Queued(**options))


@pytest.mark.parametrize("simulates", [False, True])
@pytest.mark.parametrize("options", [{}, {"declared": ("queue_max", "queue.*")}, {"name_of_metric": "jian"}])
def test_metric_of_a_plugin(options, simulates, tmp_path):
    """The catalogue and the access are asked; a misspelt metric of the catalogue finds it."""
    scenario = scenario_of(**options)
    name = options.get("name_of_metric", "queue_mean")
    hint = {"jian": "did you mean 'jain'"}.get(name, "")
    message = rf"Queued.*no metric \('{name}'\).*{hint}.*AccessInfo\(metrics=\('{name}',\)\)"
    with pytest.raises(ModelError, match=message):
        if simulates:
            simulation = netfl.Simulation(scenario)
            for _ in range(3):
                simulation.step()
        else:
            netfl.trace(scenario, tmp_path / "run")


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        (("queue_mean",), "queue_mean"),
        (("queue.*",), "queue.tower:0"),
        ((), "jain"),
        ((), "lost.collided"),
        ((), "queue_mean_theory"),
    ],
)
def test_declared_metric_of_a_plugin_is_in_the_summary(declared, name, tmp_path):
    run = netfl.trace(scenario_of(declared=declared, name_of_metric=name), tmp_path / "run")
    assert run.summary[name] == 3.5


def test_metrics_of_learners_are_in_the_catalogue():
    report = learner({"a": spec()}).start()
    assert {"loss", "accuracy/class:0", "objective"} <= report.metrics.keys()
    assert not [name for name in report.metrics if not find_metric(name).is_learned]


def test_query():
    """A query of another name was answered by the norm."""
    asked = learner({"a": spec()})
    asked.start()
    with pytest.raises(ModelError, match=r"no query to the learners \('accuracy'\); name one of loss, norm"):
        asked.step([replace(a_round(1), queries={"accuracy": (0,)})])
