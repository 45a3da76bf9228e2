"""Findings: verdicts by paired intervals, results of sweeps, and the page."""

import findings
import numpy as np
import pandas as pd
import pytest
import torch
from findings import FINDINGS, Finding, Hypothesis, Series
from scipy import stats
from support.inline_sweep_engine import Here

import netfl
from netfl.learning.aggregation._intervals import add_round
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.tuning import grid_centres
from netfl.results.statistics import ConfidenceInterval, interval

A, B = Series("", "1", "A"), Series("", "1", "B")


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.name)
def test_every_series_of_a_hypothesis_is_run(finding):
    for block in finding.blocks.values():
        scenario = finding.load(block)
        assert [*scenario.learners] == [*finding.learners]
        assert len([*scenario.sweep.points()]) == len(finding.points)
        assert scenario.tuning is not None
        # a choice before the runs, for these rows alone
        least = 5 if (finding.name, block) == ("rare_class_rivals", "cifar") else 10
        assert scenario.replicas >= least
    for hypothesis in finding.hypotheses:
        for series in (hypothesis.first, hypothesis.second):
            assert series.block in finding.blocks
            assert series.point in finding.points
            assert series.learner in ("", *finding.learners)
            assert series.metric in findings.METRICS


@pytest.mark.slow
def test_the_page_is_that_of_the_stored_results():
    assert findings.PAGE.read_text(encoding="utf-8") == findings.page()


@pytest.mark.parametrize(
    ("mean", "half", "above", "equal"),
    [
        (0.20, 0.10, "yes", "no"),
        (0.10, 0.10, "open", "open"),
        (0.00, 0.04, "no", "yes"),
        (0.00, 0.06, "open", "open"),
        (-0.20, 0.10, "no", "no"),
        (0.20, float("nan"), "open", "open"),
    ],
)
def test_a_verdict_needs_the_whole_interval_on_one_side(mean, half, above, equal):
    difference = ConfidenceInterval(mean, half, 5)
    assert Hypothesis("", A, B, 0.05).verdict(difference) == above
    assert Hypothesis("", A, B, 0.05, is_equality=True).verdict(difference) == equal


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A finding without results, with the scenario of another one and results in a folder of its own."""
    monkeypatch.setattr(findings, "RESULTS", tmp_path / "results")
    return Finding(
        name="absence", title="Toy", question="Is A above B?", blocks={"": ""}, points=("1", "2"), axis="point",
        learners=("A", "B"), hypotheses=[Hypothesis("A is above B", A, B)], core_hours=1.0,
    )  # fmt: skip


def rows(values):
    """Return stored rows from (point, learner, replica, value), as rare accuracy and as accuracy."""
    found = [
        ("", point, learner, 0.1, replica, metric, value, findings.FORMER)
        for point, learner, replica, value in values
        for metric in ("rare_accuracy", "accuracy")
    ]
    return pd.DataFrame(found, columns=findings._COLUMNS)


def test_differences_are_paired_by_replica(toy):
    assert "not run" in "\n".join(findings.section(toy))
    a, b = np.array([0.5, 0.7, 0.9]), np.array([0.4, 0.55, 0.85])
    values = [("1", "A", replica, value) for replica, value in enumerate(a)]
    values += [("1", "B", replica, b[replica]) for replica in (2, 0, 1)]  # in any order
    findings.store(toy, "", rows(values))
    low, high = stats.ttest_rel(a, b).confidence_interval(0.95)
    found = toy.difference(toy.hypotheses[0])
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))
    assert f"| A is above B | +10.0 ± {100 * (high - low) / 2:.1f} points, 3 pairs | open |" in findings.section(toy)


def test_results_of_a_block_replace_those_before(toy):
    findings.store(toy, "", rows([("1", "A", 0, 0.5)]))
    findings.store(toy, "", rows([("1", "A", 0, 0.75), ("2", "A", 0, 0.25)]))
    assert toy.values(A).tolist() == [0.75]
    assert len(toy.results) == 4


@pytest.mark.parametrize(("at_edge", "verdict"), [(0, "yes"), (2, "yes"), (3, "open")])
def test_no_order_is_printed_of_a_learner_at_the_edge_in_most_replicas(toy, at_edge, verdict):
    values = [("1", "A", replica, 0.9 + 0.01 * replica) for replica in range(4)]
    values += [("1", "B", replica, 0.5 + 0.01 * replica + 0.001 * (replica % 2)) for replica in range(4)]
    table = rows(values).assign(tuning="inside")
    is_edge = (table["learner"] == "B") & (table["replica"] < at_edge)
    findings.store(toy, "", table.assign(tuning=np.where(is_edge, "edge", "inside")))
    assert toy.verdict(toy.hypotheses[0]) == verdict
    inside = np.array([0.4 - 0.001 * (replica % 2) for replica in range(at_edge, 4)])  # without those at an edge
    row = findings._hypothesis_row(toy, toy.hypotheses[0])
    if at_edge == 2:
        low, high = stats.ttest_1samp(inside, 0).confidence_interval(0.95)
        half = 100 * (high - low) / 2
        assert f"; inside: {100 * inside.mean():+.1f} ± {half:.1f} points, 2 pairs | yes; inside: yes |" in row
    else:
        assert "inside" not in row
    sentence = findings._choice_sentence(toy)
    assert "each replica by itself" in sentence
    assert sentence.endswith(
        f"at the edge of the widest range: B, 1 in {at_edge}" if at_edge else "inside their ranges"
    )
    cells = findings._cells(toy, Series("", "1", "A"))
    assert cells == ("91.5 ± 2.1", "91.5", "0.1")  # the choice is not one of the former rule


def test_step_sizes_of_replicas_are_a_median_and_a_range(toy):
    table = rows([("1", "A", replica, 0.9) for replica in range(3)]).assign(tuning="inside")
    findings.store(toy, "", table.assign(lr=0.1 * 2.0 ** table["replica"]))
    assert findings._cells(toy, Series("", "1", "A"))[2] == "0.2 (0.1 to 0.4)"


@pytest.mark.parametrize(
    ("places", "edges"),
    [
        ({"FedAvg": 9, "FedAU": 0}, ["FedAvg, 20"]),  # the last candidate after two widenings by three
        ({"FedAvg": -9, "FedAU": 8}, ["FedAvg, 20"]),
        ({"FedAvg": 6, "FedAU": 2}, ["FedAvg, 20"]),  # the second widening may have been on the other side
        ({"FedAvg": 6, "FedAU": 8}, []),
        ({"FedAvg": -3, "FedAU": 5}, []),  # the edge of the first grid, which was widened
    ],
)
def test_the_page_names_step_sizes_at_the_edge_of_the_widest_grid(monkeypatch, tmp_path, places, edges):
    monkeypatch.setattr(findings, "RESULTS", tmp_path / "results")
    finding = next(each for each in FINDINGS if each.name == "absence")
    scenario = finding.load("")
    centres = grid_centres(scenario.learners, scenario.step_rule)
    chosen = rows([("20", learner, 0, 0.5) for learner in places])
    steps = {learner: centres[learner] * scenario.tuning.factor**place for learner, place in places.items()}
    findings.store(finding, "", chosen.assign(lr=chosen["learner"].map(steps)))
    sentence = findings._tuning_sentence(finding)
    state = "tuned by validation rare accuracy, with 7 candidates each or more"
    at_edge = f". At the edge of the widest grid, and so not tuned: {'; '.join(edges)}"
    assert sentence == state + (at_edge if edges else ", inside of all grids")


@pytest.mark.parametrize("cutoff", [1, 3, 7, None])
def test_interval_weights_are_those_of_fedau(cutoff):
    participates = np.random.default_rng(4).random(60) < 0.2
    aggregation = Fedau(cutoff=cutoff)
    zero = torch.zeros(1, dtype=torch.float64)
    state = aggregation.open(1, zero)
    expected = []
    for is_participating in participates.tolist():
        expected.append(float(aggregation.user_weights(state)[0]))
        state = add_round(state, torch.tensor([is_participating]), cutoff)
    assert findings.interval_weights(participates, cutoff) == pytest.approx(np.array(expected))


@pytest.mark.slow
@pytest.mark.thorough
def test_a_map_stores_the_weights_that_were_used(monkeypatch, tmp_path):
    monkeypatch.setattr(findings, "RESULTS", tmp_path / "results")
    finding = next(each for each in FINDINGS if each.is_map)
    short = {"rounds": 150, "replicas": 2, "evaluate.every": 50, "tuning.trials": 3, "tuning.replicas": 1}
    short |= {"access.probability": [0.5] * 9 + [0.2], "sweep": {"access.switch_on": [0.25, 0.2, 0.1, 0.05]}}
    scenario = netfl.load(findings.ROOT / finding.scenario_file, short)
    sweep = netfl.sweep(scenario, tmp_path / "sweep", engine=Here())
    findings.store(finding, "", findings.extract(sweep, finding, ""))
    deliveries = sweep.run(sweep.tasks["task"][0]).table("deliveries").query("user == 9 and replica == 1")
    participates = np.isin(np.arange(1, 151), deliveries["round"])
    used = findings.interval_weights(participates, 5)[participates].mean() * 0.2
    stored = finding.values(Series("", "20", "K = 5", findings.WEIGHT))
    assert stored[1] == pytest.approx(used, rel=1e-5)
    assert finding.values(Series("", "20", "MIFA", findings.WEIGHT)).empty
    assert len(findings.draw(finding).axes) == 4


@pytest.mark.slow
def test_a_sweep_is_stored_with_its_chosen_steps_and_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(findings, "RESULTS", tmp_path / "results")
    finding = next(each for each in FINDINGS if each.name == "step_or_cvar")
    short = {"rounds": 60, "replicas": 2, "evaluate.every": 10, "tuning.trials": 3, "tuning.replicas": 1}
    scenario = netfl.load(findings.ROOT / finding.scenario_file, short)
    sweep = netfl.sweep(scenario, tmp_path / "sweep", engine=Here())
    with pytest.raises(ValueError, match="is no sweep of a finding"):
        findings.place_of(sweep)
    monkeypatch.setattr(Finding, "load", lambda self, block: scenario)
    assert findings.place_of(sweep) == (finding, "independent")
    findings.store(finding, "independent", findings.extract(sweep, finding, "independent"))
    for number, point in enumerate(finding.points):
        for learner in finding.learners:
            summary = sweep.summary
            own = summary[(summary["point"] == number) & (summary["learner"] == learner)]
            mean = own[own["metric"] == "rare_accuracy.last_tenth"]["mean"].iloc[0]
            stored = finding.values(Series("independent", point, learner))
            assert interval(stored).mean == pytest.approx(mean, rel=1e-5)
    run = sweep.run(sweep.tasks["task"][0])
    chosen = run.candidates.query("chosen == 1").set_index("learner")["lr"]
    first = finding.results[finding.results["point"] == finding.points[0]].groupby("learner")["lr"].first()
    assert first[[*finding.learners]].tolist() == pytest.approx(chosen[[*finding.learners]].tolist(), rel=1e-5)
    assert any("| independent | 2 % |" in line for line in findings.section(finding))
    assert len(findings.draw(finding).axes) == 1
