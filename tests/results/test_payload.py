"""Billing of learners whose payloads differ: refused, the largest, given, or recorded; and what tables of costs say."""

import io

import pytest
from rich.console import Console
from support.payload_scenarios import BITS, LEARNER, learners_of, learning, networked

import netfl
from netfl import report
from netfl.cli.views.run_summary import show_run
from netfl.cli.views.sweep import show_sweep
from netfl.errors import ScenarioError
from netfl.report.several_runs import write_several
from netfl.report.sweep import write_sweep
from netfl.results.export.csv import write_tables
from netfl.results.payload import billing_kind, billing_note, billing_of, recording_note
from netfl.sweeps.plan import points_of, tasks_of

BOTH = learners_of(FedAvg="average", SCAFFOLD="scaffold")
LARGEST = "all learners are billed the largest payload, 384 bits up and 384 bits down; FedAvg sends 192 bits up"
DIRECT = {"kind": "bernoulli", "probability": 0.9}


def printed(show, result):
    console = Console(file=io.StringIO(), width=400)
    show(result, console)
    return console.file.getvalue()


def run_of(tmp_path, scenario, name="run"):
    return netfl.run(netfl.load(scenario), out=tmp_path / name)


@pytest.mark.parametrize(("aggregation", "bits"), [("average", BITS), ("scaffold", 2 * BITS)])
def test_control_variates_take_bits_time_and_energy_up_and_down(tmp_path, aggregation, bits):
    """A round is a broadcast at 1 kbps, a training of 1 s, and an update at 1 kbps; 1 W down and 2 W up."""
    run = run_of(tmp_path, networked(learners_of(A=aggregation)))
    rounds, costs = run.rounds, run.summary
    assert rounds["uplink_bits"].tolist() == [bits] * 3
    assert rounds["downlink_bits"].tolist() == [bits] * 3
    length_s = bits / 1000 + 1 + bits / 1000
    assert rounds["closed_s"].tolist() == pytest.approx([length_s, 2 * length_s, 3 * length_s], rel=1e-5)
    assert rounds["energy_J"].tolist() == pytest.approx([3.0 * bits / 1000 * number for number in (1, 2, 3)])
    first = int(costs["A.target:0.01.rounds"])
    assert first == 0 or costs["A.target:0.01.uplink_bits"] == first * bits
    assert "payload" not in run.manifest
    assert not any("payload" in name or "billed" in name for name in costs)


def test_only_the_direction_with_more_numbers_takes_longer(tmp_path):
    run = run_of(tmp_path, networked(learners_of(A="support.plugin_payloads:Stated")))
    assert run.rounds["uplink_bits"].tolist() == [BITS] * 3
    assert run.rounds["downlink_bits"].tolist() == [2 * BITS] * 3
    assert run.rounds["closed_s"][0] == pytest.approx(1 + 3 * BITS / 1000, rel=1e-5)


def test_different_payloads_on_one_network_are_refused():
    with pytest.raises(ScenarioError) as error:
        netfl.load(networked(BOTH))
    (fault,) = error.value.faults
    assert fault.key == "access.payload"
    assert "FedAvg sends 192 bits up and 192 bits down, SCAFFOLD sends 384 bits up and 384 bits down" in fault.problem
    assert "set payload: largest" in fault.remedy
    netfl.load(networked(learners_of(A="average", B={"kind": "fedadam", "server_lr": 0.1}, C="mifa")))
    netfl.load(networked({"A": LEARNER, "B": LEARNER | {"objective": {"kind": "cvar", "alpha": 0.5, "lr_t": 0.1}}}))
    netfl.load(networked(learners_of(A="scaffold", B={"kind": "fedavgm", "inner": "scaffold"})))


def test_errors_elsewhere_do_not_hide_or_invent_different_payloads():
    broken = networked(BOTH) | {"users": "none"}
    with pytest.raises(ScenarioError, match=r"access\.payload"):
        netfl.load(broken)
    with pytest.raises(ScenarioError) as error:
        netfl.load(networked(BOTH | {"C": LEARNER | {"lr": -1}}))
    assert [fault.key for fault in error.value.faults] == ["learners.C.lr"]


@pytest.mark.slow
def test_the_largest_payload_is_billed_to_all_and_all_tables_say_so(tmp_path):
    run = run_of(tmp_path, networked(BOTH, payload="largest"))
    assert run.rounds["uplink_bits"].tolist() == run.rounds["downlink_bits"].tolist() == [2 * BITS] * 3
    alone = run_of(tmp_path, networked(learners_of(SCAFFOLD="scaffold")), "alone")
    assert run.rounds.equals(alone.rounds)
    summary = run.summary
    assert summary["billed_uplink_bits"] == summary["billed_downlink_bits"] == 2 * BITS
    assert (summary["FedAvg.payload_uplink_bits"], summary["SCAFFOLD.payload_downlink_bits"]) == (BITS, 2 * BITS)
    assert billing_kind(run.manifest) == "largest"
    assert LARGEST in billing_note(run.manifest)
    assert printed(show_run, run).count(LARGEST) == 2  # below the metrics and below the targets
    page = report.write(run).read_text(encoding="utf-8")
    assert page.count(LARGEST) == 3  # targets, curves over costs, metrics of the network
    write_tables(run, tmp_path / "csv")
    assert '"FedAvg.payload_uplink_bits",192' in (tmp_path / "csv" / "final_metrics.csv").read_text()
    table = netfl.compare(run, metric=["uplink_bits", "accuracy"])
    assert table.groupby("metric")["billing"].first().to_dict() == {"accuracy": "", "uplink_bits": "largest"}
    assert "largest" in table.to_latex()


@pytest.mark.slow
def test_reports_of_several_runs_name_the_run_that_bills_the_largest(tmp_path):
    run_of(tmp_path, networked(BOTH, payload="largest"), "a")
    run_of(tmp_path, networked(learners_of(FedAvg="average")), "b")
    page = write_several([tmp_path / "a", tmp_path / "b"], tmp_path / "both.html").read_text(encoding="utf-8")
    assert page.count(LARGEST) == 2  # curves over costs, delays and costs
    assert "billing" not in netfl.compare(tmp_path / "b", metric="uplink_bits")


def test_a_given_size_is_that_of_all_learners_and_the_tables_say_so(tmp_path):
    run = run_of(tmp_path, networked(BOTH, update_size="100 bit"))
    assert run.rounds["uplink_bits"].tolist() == run.rounds["downlink_bits"].tolist() == [100.0] * 3
    given = "the scenario gives the size of all messages, 100 bits up and 100 bits down; by their payloads, FedAvg"
    assert printed(show_run, run).count(given) == 2
    assert run.summary["billed_uplink_bits"] == 100.0
    assert billing_of(netfl.load(networked(learners_of(A="average"), update_size="100 bit"))) is None
    assert billing_of(netfl.load(networked(learners_of(A="scaffold"), update_size="100 bit"))) is not None
    with pytest.raises(ScenarioError, match=r"access.payload: has no effect with update_size"):
        netfl.load(networked(BOTH, update_size="100 bit", payload="largest"))


def test_an_access_that_is_given_directly_bills_the_largest(tmp_path):
    run = run_of(tmp_path, learning(DIRECT, BOTH))
    assert (run.rounds["uplink_bits"] == run.rounds["delivered"] * 2 * BITS).all()
    assert run.rounds["downlink_bits"].tolist() == [2 * BITS] * 3
    assert LARGEST in billing_note(run.manifest)
    alone = run_of(tmp_path, learning(DIRECT, learners_of(FedAvg="average")), "alone")
    assert (alone.rounds["uplink_bits"] == alone.rounds["delivered"] * BITS).all()
    assert billing_note(alone.manifest) == ""


def test_a_replay_has_the_costs_of_the_recording(tmp_path):
    recorded = run_of(tmp_path, networked(learners_of(FedAvg="average")))
    access = {"kind": "replay", "run": str(recorded.folder)}
    replayed = run_of(tmp_path, learning(access, BOTH, users=1), "replayed")
    assert replayed.rounds["uplink_bits"].tolist() == [BITS] * 3
    assert "those of the recording, whatever the learners send" in printed(show_run, replayed)
    assert "billed_uplink_bits" not in replayed.summary
    equal = run_of(tmp_path, learning(access, learners_of(FedAvg="average"), users=1), "equal")
    assert billing_note(equal.manifest) == ""


def test_a_duration_has_no_payload():
    access = networked({})["access"]
    access = {key: access[key] for key in ("kind", "topology", "mac", "radio", "channel", "reception")}
    access |= {
        "traffic": {"kind": "poisson", "rate": 1, "size": {"distribution": "fixed", "mean": "100 bit"}},
        "payload": "largest",
    }
    with pytest.raises(ScenarioError, match=r"access.payload: has no effect without round"):
        netfl.load({"name": "timed", "users": 2, "duration": 10, "access": access})


RULE = "learners.B.aggregation"


def test_points_of_a_sweep_with_one_learner_each_bill_its_own():
    scenario = netfl.load(networked(learners_of(B="average")) | {"sweep": {RULE: ["average", "scaffold", "mifa"]}})
    points = points_of(scenario)
    assert [point.scenario.update_bits for point in points] == [BITS, 2 * BITS, BITS]
    assert points[0].trace == points[2].trace != points[1].trace
    with pytest.raises(ScenarioError, match=r"access.payload: the learners share one network"):
        points_of(
            netfl.load(networked(learners_of(A="average", B="average")) | {"sweep": {RULE: ["mifa", "scaffold"]}})
        )


@pytest.mark.quick_first
@pytest.mark.parametrize("max_lanes", [1, 2, 32])
@pytest.mark.parametrize("access", ["network", "direct"])
def test_tasks_of_a_trace_bill_the_same(max_lanes, access):
    learners = learners_of(A="average", B="scaffold", C="support.plugin_payloads:Stated")
    base = networked(learners, payload="largest") if access == "network" else learning(DIRECT, learners)
    points = points_of(netfl.load(base | {"sweep": {"learners.A.lr": [0.1, 0.2]}}))
    tasks = tasks_of(points, lambda cell: None, max_lanes)
    assert {task.scenario.largest_payload for task in tasks} == {points[0].scenario.largest_payload}


@pytest.mark.slow
def test_tables_of_a_sweep_say_that_the_largest_is_billed(tmp_path):
    scenario = networked(BOTH, payload="largest") | {"sweep": {"learners.FedAvg.lr": [0.1, 0.2]}}
    sweep = netfl.sweep(netfl.load(scenario), out=tmp_path / "sweep")
    assert "all learners are billed the largest payload" in printed(show_sweep, sweep)
    assert netfl.compare(sweep, metric="uplink_bits")["billing"].unique().tolist() == ["largest"]
    page = write_sweep(sweep).read_text(encoding="utf-8")
    assert "all learners are billed the largest payload" in page


PLAIN = learners_of(A="average")
QSGD = {"kind": "qsgd", "bits_per_parameter": 4}


@pytest.mark.quick_first
@pytest.mark.parametrize(
    ("codec", "note"),
    [
        ("float16", "updates have qsgd (bits_per_parameter: 4) there, and float16 here"),
        (QSGD, ""),
        ({"kind": "qsgd", "bits_per_parameter": 8}, "and qsgd (bits_per_parameter: 8) here"),
        ("none", "and no codec here"),
        (None, "and no codec here"),
    ],
)
def test_a_replay_with_another_codec_has_the_bits_of_its_recording(tmp_path, codec, note):
    recorded = netfl.trace(netfl.load(learning(DIRECT, PLAIN, codec=QSGD)), out=tmp_path / "recorded")
    replayed = learning({"kind": "replay", "run": str(recorded.folder)}, PLAIN, codec=codec)
    found = recording_note(netfl.load(replayed))
    assert note in found
    assert bool(found) == bool(note)
    run = netfl.trace(netfl.load(replayed), out=tmp_path / "replayed")
    assert run.rounds["uplink_bits"].equals(recorded.rounds["uplink_bits"])
    assert found in printed(show_run, run)
    assert found in run.manifest.get("codecs", "")


def test_a_replay_names_codecs_of_versions_and_a_recording_without_scenario_has_no_note(tmp_path):
    recorded = netfl.trace(netfl.load(learning(DIRECT, PLAIN)), out=tmp_path / "recorded")
    replayed = learning({"kind": "replay", "run": str(recorded.folder)}, PLAIN, codec_down="bfloat16")
    assert "recording: versions have no codec there, and bfloat16 here." in recording_note(netfl.load(replayed))
    (recorded.folder / "scenario.yaml").write_text("users: [", encoding="utf-8")
    assert not recording_note(netfl.load(replayed))
    (recorded.folder / "scenario.yaml").unlink()
    assert not recording_note(netfl.load(replayed))
    assert not recording_note(netfl.load(learning(DIRECT, PLAIN, codec=QSGD)))
