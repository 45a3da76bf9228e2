"""Tuned runs: passes, their choice, resumption, sweeps, extension, and two planted comparisons."""

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.inline_sweep_engine import Here
from support.restarted_runs import assert_same_tables
from support.small_network import SECTION
from support.stop_run import StopAfter
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import MachineError, ScenarioError
from netfl.learning.tuning import TuningSpec
from netfl.report.run_data import read_run_data
from netfl.report.sections import learner_table
from netfl.results.digests import pass_folder, signed, verify_runs
from netfl.simulation.dry_run import run_dry
from netfl.simulation.tuning import lowest_pass, validation_seed

FEDAVG = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}
CVAR = FEDAVG | {"objective": {"kind": "cvar", "alpha": 0.2, "gamma": 0.1, "lr_t": 0.01}}
TUNING = {"by": "accuracy", "trials": 3, "factor": 4}
WIDE = TUNING | {"factor": 100}
"""Tuning whose grids have a best inside, whatever the criterion."""
TABLES = ("rounds", "deliveries", "metrics", "users", "final_metrics", "candidates")


def scenario(**changes):
    return {
        "name": "tuned",
        "users": 4,
        "rounds": 8,
        "replicas": 2,
        "access": {"kind": "bernoulli", "probability": 0.6},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [0, 3]], "samples": 60},
        "partition": "iid",
        "model": "logistic",
        "learners": {"FedAvg": FEDAVG, "CVaR": CVAR},
        "evaluate": {"every": 2, "validation": 0.3},
        "tuning": TUNING,
        "checkpoint": {"rounds": 1},
        **changes,
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A tuned run that was never stopped."""
    return netfl.run(scenario(), tmp_path_factory.mktemp("tuned") / "run", device="cpu")


class StopInPass(netfl.simulation.run.RunObserver):
    """Stops a run after a number of rounds of one of its passes."""

    def __init__(self, number, rounds):
        self._number, self._rounds, self._passes = number, rounds, 0

    def pass_observer(self):
        self._passes += 1
        return StopAfter(self._rounds) if self._passes == self._number else netfl.simulation.run.RunObserver()


def test_choice_is_that_of_a_calculation_from_the_tables_of_the_passes(whole):
    candidates = whole.candidates
    scores = {}
    number = 0
    while pass_folder(whole.folder, number + 1).exists():
        number += 1
        metrics = netfl.open_run(pass_folder(whole.folder, number)).metrics
        rows = metrics[(metrics["metric"] == "accuracy") & (metrics["group"] == "") & (metrics["round"] >= 6)]
        for name, values in rows.groupby("learner", observed=True):
            learner, _, lr = str(name).partition(" lr=")
            by_replica = values.groupby("replica")["value"].mean()
            scores[learner, float(lr)] = by_replica.mean()
    assert number == whole.manifest["tuning"]["passes"]
    assert len(scores) == len(candidates) == 2 * whole.manifest["tuning"]["candidates"]
    for row in candidates.to_dict("records"):
        assert row["value"] == pytest.approx(scores[row["learner"], float(f"{row['lr']:.4g}")])
    for learner in ("FedAvg", "CVaR"):
        best = max((lr for name, lr in scores if name == learner), key=lambda lr: (scores[learner, lr], -lr))
        chosen = candidates[(candidates["learner"] == learner) & (candidates["chosen"] == 1)]["lr"].item()
        assert chosen == pytest.approx(best, rel=1e-3)
        assert whole.manifest["tuning"]["chosen"][learner] == {"lr": chosen}
    assert whole.effective_steps["FedAvg"] == whole.manifest["tuning"]["chosen"]["FedAvg"]["lr"]


def test_tuned_run_equals_an_untuned_run_with_the_chosen_step_sizes(whole, tmp_path):
    chosen = whole.manifest["tuning"]["chosen"]
    learners = {"FedAvg": FEDAVG | chosen["FedAvg"], "CVaR": CVAR | chosen["CVaR"]}
    plain = netfl.run(scenario(learners=learners, tuning=None), tmp_path / "plain", device="cpu")
    assert_same_tables(whole, plain, TABLES[:-1])
    assert plain.candidates.empty
    assert list(plain.candidates.columns) == list(whole.candidates.columns)


def test_passes_have_other_seeds_the_same_data_and_validation_examples(whole):
    loaded = netfl.load(scenario())
    of_pass = lowest_pass(loaded)
    assert of_pass.replica_seed == validation_seed(loaded)
    assert of_pass.seed == loaded.seed
    assert of_pass.streams_of(0) != loaded.streams_of(0)
    assert of_pass.replicas == TuningSpec(**TUNING).replicas
    run = netfl.open_run(pass_folder(whole.folder, 1))
    assert run.scenario["evaluate"]["on"] == "validation"
    users = run.users.groupby("replica")["samples"].sum()
    validation = 180 * 4 // 5  # an upper bound on the examples that users hold
    assert (users < validation).all()
    rounds = run.deliveries.merge(whole.deliveries, on=["replica", "round", "user"])
    assert len(rounds) < len(whole.deliveries)


def test_metrics_of_a_pass_are_those_of_validation_examples(tmp_path):
    plain = scenario(tuning=None, evaluate={"every": 4, "validation": 0.3, "metrics": ["validation"]})
    tested = netfl.run(plain, tmp_path / "test", device="cpu").metrics
    plain["evaluate"] = {"every": 4, "validation": 0.3, "on": "validation"}
    validated = netfl.run(plain, tmp_path / "validation", device="cpu").metrics
    key = ["learner", "replica", "round"]
    for metric in ("accuracy", "loss"):
        expected = tested[(tested["metric"] == f"validation_{metric}") & (tested["group"] == "")].set_index(key)
        found = validated[(validated["metric"] == metric) & (validated["group"] == "")].set_index(key)
        assert found["value"].to_dict() == pytest.approx(expected["value"].to_dict())


@pytest.mark.quick_first
@pytest.mark.parametrize("number", [1, 2])
def test_run_that_was_stopped_in_a_pass_continues_exactly(whole, tmp_path, number):
    if whole.manifest["tuning"]["passes"] < number:
        pytest.skip("the run has one pass")
    stopped = netfl.run(scenario(), tmp_path / "run", device="cpu", observer=StopInPass(number, 3))
    assert stopped.status == "interrupted"
    assert netfl.open_run(pass_folder(stopped.folder, number)).status == "interrupted"
    assert stopped.comparison == "the tuning is not finished"
    resumed = netfl.resume(stopped.folder, device="cpu")
    assert resumed.status == "done"
    assert_same_tables(whole, resumed, TABLES)
    assert resumed.manifest["tuning"] == whole.manifest["tuning"]


@pytest.mark.slow
def test_run_that_was_stopped_after_its_passes_continues_exactly(whole, tmp_path):
    stopped = netfl.run(scenario(), tmp_path / "run", device="cpu", observer=StopAfter(3))
    assert netfl.open_run(pass_folder(stopped.folder, 1)).status == "done"
    resumed = netfl.resume(stopped.folder, device="cpu")
    assert_same_tables(whole, resumed, TABLES)
    assert resumed.manifest["timings"]["rounds_kept"] == 3


def test_time_of_the_passes_is_part_of_the_time_of_the_run(whole):
    passes = whole.manifest["tuning"]["passes"]
    runs = [netfl.open_run(pass_folder(whole.folder, number + 1)) for number in range(passes)]
    seconds = sum(run.manifest["timings"]["total_s"] for run in runs)
    timings = whole.manifest["timings"]
    assert timings["tuning_s"] == pytest.approx(seconds, abs=0.002)
    assert timings["total_s"] > timings["tuning_s"]


@pytest.mark.slow
@pytest.mark.parametrize(("key", "value"), [("tuning.factor", 3), ("seed", 5), ("learners.FedAvg.batch_size", 4)])
def test_a_run_whose_scenario_was_changed_after_a_pass_is_not_resumed(tmp_path, key, value):
    stopped = netfl.run(scenario(), tmp_path / "run", device="cpu", observer=StopAfter(3))
    file = stopped.folder / "scenario.yaml"
    file.write_text(netfl.load(file, {key: value}).to_yaml())
    with pytest.raises(
        ScenarioError, match=r"scenario\.yaml: tuning: the scenario of this run is not that of its pass"
    ):
        netfl.resume(stopped.folder, device="cpu")


@pytest.mark.slow
def test_a_run_continues_with_other_checkpoints_than_its_passes(whole, tmp_path):
    stopped = netfl.run(scenario(), tmp_path / "run", device="cpu", observer=StopAfter(3))
    file = stopped.folder / "scenario.yaml"
    file.write_text(netfl.load(file, {"checkpoint": {"rounds": 5}}).to_yaml())
    assert_same_tables(whole, netfl.resume(stopped.folder, device="cpu"), TABLES)


def test_files_of_a_tuned_run_and_of_its_passes_are_verified(whole):
    passes = whole.manifest["tuning"]["passes"]
    results = [*verify_runs(whole.folder)]
    assert all(result.good for result in results)
    files = {result.file for result in results}
    assert whole.folder / "candidates.parquet" in files
    assert all(pass_folder(whole.folder, number + 1) / "metrics.parquet" in files for number in range(passes))


@pytest.mark.slow
def test_a_changed_table_of_a_pass_is_found(whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    file = pass_folder(folder, 1) / "metrics.parquet"
    table = pq.read_table(file)
    values = table.column("value").to_numpy().copy()
    values[-1] += 0.5
    pq.write_table(table.set_column(table.column_names.index("value"), "value", pa.array(values)), file)
    assert [result.file for result in verify_runs(folder) if not result.good] == [file]
    with pytest.raises(MachineError, match=r"pass-1.metrics\.parquet is not the file that the run wrote"):
        netfl.extend(folder, 3, device="cpu")
    shutil.rmtree(file.parent)
    wrong = [(result.file, result.problem) for result in verify_runs(folder) if not result.good]
    assert wrong == [(file.parent, "is missing")]


@pytest.mark.slow
def test_extended_run_keeps_its_choice(whole, tmp_path):
    part = netfl.run(scenario(replicas=1), tmp_path / "run", device="cpu")
    extended = netfl.extend(part.folder, 2, device="cpu")
    assert extended.manifest["replicas"] == 2
    assert extended.manifest["tuning"] == whole.manifest["tuning"]
    assert_same_tables(whole, extended, ("rounds", "candidates"))
    finals = [run.final_metrics.sort_values(["replica", "metric"])["value"].to_numpy() for run in (whole, extended)]
    assert finals[1] == pytest.approx(finals[0], rel=1e-5)


BY_REPLICA = TUNING | {"per": "replica", "replicas": 1}


@pytest.fixture(scope="module")
def by_replica(tmp_path_factory):
    """A run whose three replicas were tuned by themselves, and which was never stopped."""
    return netfl.run(scenario(replicas=3, tuning=BY_REPLICA), tmp_path_factory.mktemp("by") / "run", device="cpu")


@pytest.mark.slow
def test_each_replica_runs_with_the_settings_that_it_has_chosen(by_replica, tmp_path):
    """The reference tunes and runs each replica by hand: passes of its own seeds, the best candidate, a plain run."""
    loaded = netfl.load(scenario(replicas=3, tuning=BY_REPLICA))
    tuning = by_replica.manifest["tuning"]
    assert tuning["per"] == "replica"
    seeds = [
        netfl.open_run(pass_folder(by_replica.folder, 1, replica)).scenario["replica_seed"] for replica in range(3)
    ]
    assert seeds == [validation_seed(loaded, replica) for replica in range(3)]
    assert len({*seeds}) == 3
    for replica in range(3):
        chosen = {name: {key: values[replica] for key, values in settings.items()}
                  for name, settings in tuning["chosen"].items()}  # fmt: skip
        of_replica = by_replica.candidates.query(f"replica == {replica} and chosen == 1").set_index("learner")
        best = by_replica.candidates.query(f"replica == {replica} and alive == 1").groupby("learner")["value"].max()
        for name, settings in chosen.items():
            if name in of_replica.index:
                assert of_replica.loc[name, "lr"] == settings["lr"]
                assert of_replica.loc[name, "value"] == best[name]
        learners = {"FedAvg": FEDAVG | chosen["FedAvg"], "CVaR": CVAR | chosen["CVaR"]}
        plain = netfl.run(
            scenario(replicas=3, learners=learners, tuning=None), tmp_path / f"plain-{replica}", device="cpu"
        )
        for table in ("metrics", "rounds", "deliveries", "final_metrics", "users"):
            rows = [run.table(table).query(f"replica == {replica}") for run in (by_replica, plain)]
            rows = [each.astype({key: str for key in ("learner",) if key in each}) for each in rows]
            key = [name for name in ("learner", "round", "metric", "group", "user") if name in rows[0]]
            first, second = (each.sort_values(key).reset_index(drop=True) for each in rows)
            pd.testing.assert_frame_equal(first, second, rtol=1e-5)
        assert by_replica.effective_steps["FedAvg"][replica] == chosen["FedAvg"]["lr"]


def test_settings_that_each_replica_has_chosen_are_a_median_and_a_range(by_replica):
    run = netfl.open_run(by_replica.folder)
    run.manifest["tuning"]["chosen"]["FedAvg"]["lr"] = [0.1, 0.4, 0.2]
    table = netfl.compare(run, by="learners.FedAvg.lr")
    assert {*table["learners.FedAvg.lr"]} == {"0.2 (0.1 to 0.4)"}
    (of_report,) = learner_table(read_run_data(run))
    assert "<td>0.2 (0.1 to 0.4)</td>" in of_report
    assert "the median (the smallest to the largest)" in of_report


def test_a_point_of_a_sweep_has_what_all_of_its_replicas_have_chosen(tmp_path):
    """Each replica that is tuned by itself is a task of its own."""
    point = scenario(sweep={"access.probability": [0.6]}, tuning=BY_REPLICA)
    sweep = netfl.sweep(point, tmp_path / "s", engine=Here())
    tasks = sweep.lanes["task"].unique()
    assert len(tasks) == 2
    for task, lr in zip(tasks, [0.1, 0.4], strict=True):
        file = sweep.run(task).folder / "manifest.json"
        manifest = json.loads(file.read_text())
        manifest["tuning"]["chosen"]["FedAvg"]["lr"] = [lr]
        file.write_text(json.dumps(signed(manifest)))
    table = netfl.compare(netfl.open_sweep(sweep.folder), by="learners.FedAvg.lr")
    assert {*table["learners.FedAvg.lr"]} == {"0.25 (0.1 to 0.4)"}


def test_a_run_of_replicas_tuned_by_themselves_is_whole(by_replica):
    assert by_replica.status == "done"
    assert by_replica.manifest["replicas"] == 3
    assert "first" not in by_replica.manifest
    assert by_replica.summary["replicas"] == 3
    assert sorted(by_replica.metrics["replica"].unique()) == [0, 1, 2]
    assert not (by_replica.folder / "tuning" / "replica-0" / "run").exists()
    results = [*verify_runs(by_replica.folder)]
    assert all(result.good for result in results)
    assert {pass_folder(by_replica.folder, 1, replica) / "metrics.parquet" for replica in range(3)} <= {
        result.file for result in results
    }
    table = netfl.compare(by_replica)
    assert (table["replicas"] == 3).all()
    assert by_replica.comparison == by_replica.manifest["tuning"]["state"]


@pytest.mark.slow
@pytest.mark.parametrize("observer", [StopInPass(2, 3), StopAfter(3)], ids=["pass", "run"])
def test_a_run_of_replicas_that_was_stopped_continues_exactly(by_replica, tmp_path, observer):
    settings = scenario(replicas=3, tuning=BY_REPLICA)
    stopped = netfl.run(settings, tmp_path / "run", device="cpu", observer=observer)
    assert stopped.status == "interrupted"
    assert stopped.comparison == "the tuning is not finished"
    resumed = netfl.resume(stopped.folder, device="cpu")
    assert resumed.status == "done"
    assert_same_tables(by_replica, resumed, TABLES)
    assert resumed.manifest["tuning"] == by_replica.manifest["tuning"]


@pytest.mark.slow
def test_an_extended_run_of_replicas_equals_one_from_the_start(by_replica, tmp_path):
    part = netfl.run(scenario(replicas=2, tuning=BY_REPLICA), tmp_path / "run", device="cpu")
    extended = netfl.extend(part.folder, 3, device="cpu")
    assert extended.manifest["tuning"] == by_replica.manifest["tuning"]
    assert extended.manifest["steps"] == by_replica.manifest["steps"]
    assert_same_tables(by_replica, extended, TABLES)
    assert all(result.good for result in verify_runs(extended.folder))


@pytest.mark.slow
def test_replicas_tuned_by_themselves_are_tasks_of_a_sweep(by_replica, tmp_path):
    swept = scenario(replicas=3, tuning=BY_REPLICA, sweep={"access.probability": [0.6]})
    sweep = netfl.sweep(swept, tmp_path / "s", engine=Here())
    assert len(sweep.tasks) == 3
    rows = sweep.table("candidates")
    assert len(rows) == len(by_replica.candidates)
    assert rows["value"].sum() == pytest.approx(by_replica.candidates["value"].sum())
    values = netfl.compare(sweep, by=["learner"])["mean"]
    assert values.to_numpy() == pytest.approx(netfl.compare(by_replica)["mean"].to_numpy())
    assert sweep.comparison


@pytest.mark.slow
def test_grids_are_widened_until_the_best_lies_inside(tmp_path):
    low = {"FedAvg": FEDAVG | {"lr": 1e-4}}
    run = netfl.run(scenario(learners=low), tmp_path / "run", device="cpu")
    tuning = run.manifest["tuning"]
    assert tuning["passes"] > 1
    counts = run.candidates["pass"].value_counts().to_dict()
    assert counts == dict.fromkeys(range(1, tuning["passes"] + 1), 3)
    assert tuning["candidates"] == len(run.candidates)


@pytest.mark.slow
def test_candidates_that_diverge_lose_even_if_all_of_a_pass_do(tmp_path):
    wild = {"FedAvg": FEDAVG | {"lr": 2e38}}
    settings = scenario(learners=wild, tuning={"by": "loss", "trials": 3, "factor": 1.1})
    with pytest.raises(
        netfl.ModelError, match=r"^tuning: all \d candidates of FedAvg diverged; a smaller lr may help$"
    ):
        netfl.run(settings, tmp_path / "run", device="cpu")
    for number in (1, 2, 3):
        run = netfl.open_run(pass_folder(tmp_path / "run", number))
        assert run.status == "done"
        assert len(run.manifest["diverged"]) == 2 * len(run.scenario["learners"])
    assert not pass_folder(tmp_path / "run", 4).exists()


@pytest.mark.slow
def test_control_has_the_effective_step_of_the_chosen_learner(tmp_path):
    control = {**FEDAVG, "step_of": "CVaR"}
    del control["lr"]
    run = netfl.run(scenario(learners={"FedAvg": control, "CVaR": CVAR}), tmp_path / "run", device="cpu")
    assert run.effective_steps["FedAvg"] == pytest.approx(run.effective_steps["CVaR"])
    assert set(run.candidates["learner"].astype(str)) == {"CVaR"}
    assert run.comparison.endswith("; FedAvg at the effective step of CVaR")


@pytest.mark.slow
def test_further_keys_are_combined_with_each_step_size(tmp_path):
    tuning = TUNING | {"keys": {"batch_size": [4, 16]}}
    run = netfl.run(scenario(tuning=tuning), tmp_path / "run", device="cpu")
    assert set(run.candidates["settings"].astype(str)) == {"batch_size=4", "batch_size=16"}
    assert run.candidates.groupby("learner", observed=True).size().nunique() == 1
    assert set(run.manifest["tuning"]["chosen"]["CVaR"]) == {"lr", "batch_size"}


def test_candidates_that_cannot_share_a_network_are_an_error():
    access = SECTION | {"compute": {"speed": 10.0}, "update_size": None}
    loaded = netfl.load(scenario(access=access, tuning=TUNING | {"keys": {"local_steps": [1, 2]}}))
    with pytest.raises(
        ScenarioError, match=r"tuning\.keys: the candidates cannot run together: access\.compute: the lea"
    ):
        lowest_pass(loaded)


@pytest.mark.slow
def test_replicas_of_a_sweep_have_one_choice_and_points_their_own(tmp_path):
    swept = scenario(sweep={"access.probability": [0.3, 0.9], "lanes": 1})
    sweep = netfl.sweep(swept, tmp_path / "s", engine=Here())
    assert sweep.status == "done"
    assert len(sweep.tasks) == 2  # the passes of a point run once, for all replicas
    for task, probability in zip(sweep.tasks["task"], (0.3, 0.9), strict=True):
        access = {"kind": "bernoulli", "probability": probability}
        alone = netfl.run(scenario(access=access), tmp_path / f"alone-{probability}", device="cpu")
        assert sweep.run(task).manifest["tuning"] == alone.manifest["tuning"]
    more = netfl.sweep(swept | {"replicas": 3}, tmp_path / "s", engine=Here())
    assert len(more.tasks) == 4
    for _, tasks in more.tasks.groupby("trace"):
        assert len({json.dumps(more.run(task).manifest["tuning"]) for task in tasks["task"]}) == 1
    assert more.comparison


@pytest.mark.slow
@pytest.mark.parametrize(
    ("swept", "state"),
    [
        ({"tuning": [WIDE, WIDE | {"by": "loss"}]}, "tuned at each point by validation accuracy or loss"),
        ({"tuning.by": ["accuracy", "loss"]}, "tuned at each point by validation accuracy or loss"),
        ({"tuning": [WIDE, None]}, "tuned at 1 of 2 points, not at tuning = None"),
        ({"tuning": [WIDE | {"factor": 1.01}, None]}, "not tuned at any point"),
        ({"access.probability": [0.4, 0.8], "tuning": [None]}, "equal settings"),
        ({"learners.CVaR.lr": [0.1, 0.2], "tuning": [None]}, "settings as given, not tuned"),
    ],
)
def test_the_state_of_a_sweep_is_that_of_its_points(tmp_path, swept, state):
    blobs = {"kind": "blobs", "centers": [[0, 0], [2, 2], [0, 2]], "samples": 60}
    base = scenario(sweep=swept, data=blobs, replicas=1, rounds=20, tuning=WIDE)
    sweep = netfl.sweep(base, tmp_path / "s", engine=Here())
    assert sweep.comparison == state


@pytest.mark.slow
def test_a_sweep_of_one_tuned_learner_has_a_state(tmp_path):
    one = scenario(learners={"FedAvg": FEDAVG}, replicas=1, rounds=8, sweep={"access.probability": [0.4, 0.8]})
    sweep = netfl.sweep(one, tmp_path / "s", engine=Here())
    assert sweep.comparison
    assert netfl.compare(sweep).comparison == sweep.comparison
    plain = netfl.sweep({**one, "tuning": None}, tmp_path / "plain", engine=Here())
    assert plain.comparison == ""


def test_passes_of_an_earlier_version_are_not_used(tmp_path):
    """They do not state their validation examples, and had another rule."""
    stopped = netfl.run(scenario(), tmp_path / "run", device="cpu", observer=StopAfter(3))
    file = pass_folder(stopped.folder, 1) / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["validation_examples"]
    file.write_text(json.dumps(signed(manifest)))
    with pytest.raises(
        ScenarioError, match=r"pass-1: tuning: this pass was made by an earlier version.*start a new run"
    ):
        netfl.resume(stopped.folder, device="cpu")


def test_a_key_that_was_tuned_distinguishes_rows_by_the_chosen_value(whole, tmp_path):
    plain = netfl.run(scenario(tuning=None), tmp_path / "plain", device="cpu")
    table = netfl.compare([whole, plain], by=["learners.FedAvg.lr"])
    chosen = whole.manifest["tuning"]["chosen"]["FedAvg"]["lr"]
    assert chosen != FEDAVG["lr"]
    assert [*dict.fromkeys(table["learners.FedAvg.lr"])] == [str(chosen), str(FEDAVG["lr"])]
    assert (table["replicas"] == 2).all()


@pytest.mark.slow
def test_a_key_that_was_tuned_distinguishes_points_by_the_chosen_values(tmp_path):
    sweep = netfl.sweep(scenario(sweep={"access.probability": [0.4, 0.8]}, replicas=1), tmp_path / "s", engine=Here())
    rows = netfl.compare(sweep, by=["access.probability", "learners.CVaR.lr"])
    chosen = {
        sweep.scenario_at(point).plain()["access"]["probability"]: sweep.run(task).manifest["tuning"]["chosen"]
        for point, task in sweep.lanes[["point", "task"]].drop_duplicates().itertuples(index=False)
    }
    assert len(chosen) == 2
    for _, row in rows.iterrows():
        assert row["learners.CVaR.lr"] == str(chosen[float(row["access.probability"])]["CVaR"]["lr"])


def test_check_accepts_a_tuning_whose_first_grid_is_too_high(tmp_path, monkeypatch):
    """The first grid diverges, and the widened one does not."""
    monkeypatch.chdir(tmp_path)
    passes = []

    def record_pass(candidates):
        passes.append(candidates)
        return run_dry(candidates)

    monkeypatch.setattr("netfl.simulation.dry_run.run_dry", record_pass)
    wild = FEDAVG | {"lr": 1e41, "local_steps": 20}
    tuning = {"by": "loss", "trials": 3, "factor": 100, "replicas": 1}
    settings = scenario(learners={"FedAvg": wild}, tuning=tuning, rounds=20)
    dry_run = run_dry(netfl.load(settings))
    assert [*dry_run.diverged] == []
    (of_pass,) = passes
    assert sorted(learner.lr for learner in of_pass.learners.values()) == pytest.approx([1e27, 1e29, 1e31])
    settings["tuning"] = tuning | {"factor": 1.1}
    with pytest.raises(ScenarioError, match=r"learners\.FedAvg\.lr: with the smallest lr that the tuning may try, rep"):
        run_dry(netfl.load(settings))


def test_comparing_a_run_that_was_stopped_in_its_tuning_names_the_command(tmp_path):
    run = netfl.run(scenario(), tmp_path / "run", device="cpu", observer=StopInPass(1, 3))
    with pytest.raises(ScenarioError, match=r"has none yet: the tuning is not finished.*netfl\.resume\("):
        netfl.compare(run)


def test_the_error_of_a_candidate_names_it_and_its_key():
    loaded = netfl.load(scenario(tuning=TUNING | {"keys": {"batch_size": [8, "full"], "momentum": [0, 0.9]}}))
    learners = {name: spec.model_copy(update={"local_steps": None, "local_epochs": 1})
                for name, spec in loaded.learners.items()}  # fmt: skip
    with pytest.raises(
        ScenarioError,
        match=r"the candidate 'FedAvg lr=\S+ batch_size=full momentum=0\.9' cannot run: momentum: has no effect",
    ):
        lowest_pass(loaded.model_copy(update={"learners": learners}))


@pytest.mark.slow
def test_candidates_stand_in_the_order_of_their_keys(tmp_path):
    tuning = TUNING | {"keys": {"batch_size": [16, 4, 8]}, "replicas": 1}
    table = netfl.run(scenario(tuning=tuning, replicas=1), tmp_path / "run", device="cpu").candidates
    expected = ["batch_size=16", "batch_size=4", "batch_size=8"]
    for _, of_learner in table.groupby("learner", observed=True):
        assert [*dict.fromkeys(of_learner["settings"])] == expected
        assert of_learner.groupby("settings", observed=True)["lr"].is_monotonic_increasing.all()


@pytest.mark.slow
def test_runs_of_one_learner_are_compared_with_their_states(tmp_path):
    one = scenario(learners={"FedAvg": FEDAVG}, replicas=1, rounds=4)
    tuned = netfl.run(one, tmp_path / "tuned", device="cpu")
    plain = netfl.run({**one, "tuning": None}, tmp_path / "plain", device="cpu")
    assert plain.comparison == ""
    assert tuned.comparison == tuned.manifest["tuning"]["state"]
    both = f"tuned: {tuned.comparison}; plain: settings as given, not tuned"
    assert netfl.compare([tuned, plain]).attrs["comparison"] == both
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(tuned.folder), str(plain.folder), "--out", str(page)])
    assert result.exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert f"{tuned.comparison}." in text
    assert "settings as given, not tuned." in text
    assert f"Comparison: A: {tuned.comparison}; B: settings as given, not tuned." in " ".join(text.split())


@pytest.mark.slow
def test_a_replay_needs_as_many_replicas_as_the_tuning(tmp_path):
    recorded = netfl.trace(scenario(tuning=None), tmp_path / "trace")
    replay = {"kind": "replay", "run": str(recorded.folder)}
    netfl.load(scenario(access=replay))
    expected = r"tuning\.replicas: 2 replicas are recorded, the scenario needs 3 \(3\); write a smaller number"
    with pytest.raises(ScenarioError, match=expected):
        netfl.load(scenario(access=replay, tuning=TUNING | {"replicas": 3}))


@pytest.mark.slow
def test_check_accepts_a_step_size_that_only_its_candidates_survive(tmp_path):
    path = tmp_path / "tuned.yaml"
    learners = {name: learner | {"lr": 1e25} for name, learner in {"FedAvg": FEDAVG, "CVaR": CVAR}.items()}
    tuning = {"by": "loss", "trials": 9, "factor": 100}
    changes = {"model": {"kind": "mlp", "hidden": [8]}, "learners": learners, "tuning": tuning}
    path.write_text(netfl.load(scenario(**changes)).to_yaml())
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_workers_make_the_same_choice(whole, tmp_path):
    run = netfl.run(scenario(), tmp_path / "run", device="cpu", workers=2)
    assert run.manifest["tuning"]["chosen"] == whole.manifest["tuning"]["chosen"]
    np.testing.assert_allclose(run.candidates["value"], whole.candidates["value"], rtol=1e-5)


@pytest.mark.slow
def test_state_of_the_comparison_is_in_every_output(whole, tmp_path):
    state = whole.comparison
    assert state == whole.manifest["tuning"]["state"]
    assert state in repr(netfl.compare(whole))
    assert f"% {state}" in netfl.compare(whole).to_latex()
    title, remark = netfl.plots.curves(whole.metrics).axes[0].get_title(loc="left").split("\n")
    assert title == state
    assert remark == "dots: final values, means of round 8"
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(whole.folder), "--out", str(page)])
    assert result.exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.count(state) > 3
    assert "Effective step" in text
    assert 'id="candidates"' in text or "candidates" in text


@pytest.mark.slow
def test_check_states_what_tuning_costs(tmp_path):
    path = tmp_path / "tuned.yaml"
    path.write_text(netfl.load(scenario()).to_yaml())
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 0
    assert "tuning: 6 candidates in 2 validation replicas take " in result.output


def comparison(seed, learners, **changes):
    """Return a tuned comparison of two learners on digits, in which users differ in labels and participation."""
    return {
        "name": "planted",
        "seed": seed,
        "users": 10,
        "rounds": 60,
        "access": {"kind": "bernoulli", "probability": {"zipf": 1}},
        "data": {"kind": "digits"},
        "partition": {"kind": "shards", "per_user": 2},
        "model": "logistic",
        "learners": learners,
        "evaluate": {"every": 5, "validation": 0.2},
        "tuning": {"by": "accuracy"},
        "record": "none",
        "checkpoint": "none",
        **changes,
    }


def differences(tmp_path, learners, seeds=range(20), **changes):
    """Return the final accuracy of the second learner less that of the first, of each seed."""
    found = []
    for seed in seeds:
        run = netfl.run(comparison(seed, learners, **changes), tmp_path / f"{seed}", device="cpu")
        finals = run.final_metrics.set_index("metric")["value"]
        first, second = (finals[f"{name}.accuracy.last_tenth"] for name in learners)
        found.append(second - first)
    return np.array(found)


PLANTED = {
    "honest": FEDAVG | {"lr": 0.02},
    "hidden": FEDAVG | {"lr": 0.02, "aggregation": "support.planted_rules:Tripled"},
}


@pytest.mark.slow
def test_a_hidden_step_size_does_not_win_a_tuned_comparison(tmp_path):
    equal = differences(tmp_path / "equal", PLANTED, tuning=None)
    assert (equal > 0).sum() >= 18  # at equal settings it wins by its step alone
    tuned = differences(tmp_path / "tuned", PLANTED)
    wins, losses = (tuned > 0).sum(), (tuned < 0).sum()
    assert max(wins, losses) <= 15  # of 20: beyond it, chance has 1.2 % at most
    half = 2.093 * tuned.std(ddof=1) / np.sqrt(20)
    assert abs(tuned.mean()) <= half
    assert abs(tuned.mean()) < 0.2 * equal.mean()


@pytest.mark.slow
def test_a_better_learner_wins_a_tuned_comparison(tmp_path):
    better = {"partial": FEDAVG | {"aggregation": "support.planted_rules:Partial"}, "average": FEDAVG}
    tuned = differences(tmp_path, better, rounds=40)
    assert (tuned > 0).sum() >= 18
