"""Delays, queues and utilisation compared with calculations by hand, and their plots."""

import numpy as np
import pandas as pd
import pytest

from netfl.plots import latency
from netfl.report import sections
from netfl.report.run_data import RunData
from netfl.results import aggregates

ROUNDS = pd.DataFrame({"replica": 0, "round": [1, 2, 3], "opened_s": [0.0, 10.0, 30.0]})
DELIVERIES = pd.DataFrame(
    {
        "replica": 0,
        "round": [1, 2, 3, 3],
        "user": [0, 1, 0, 2],
        "base": [0, 1, 1, 2],
        "sent_s": [4.0, 12.0, 25.0, 31.0],
        "arrived_s": [6.0, 30.0, 35.0, 36.0],
    }
)
FORWARDED = pd.DataFrame(
    {
        "replica": 0,
        "kind": ["forwarded", "forwarded", "sent", "forwarded"],
        "node": ["tower:0", "tower:0", "tower:0", "router:0"],
        "time_s": [4.0, 10.0, 5.0, 8.0],
        "value": [2.0, 8.0, 7.0, 1.0],
    }
)


def test_delay_starts_with_its_round_and_has_two_parts():
    table = aggregates.delays(DELIVERIES, ROUNDS)
    assert table["delay_s"].tolist() == [6.0, 20.0, 5.0, 6.0]
    np.testing.assert_array_equal(table["before_s"], [4.0, 2.0, np.nan, 1.0])
    np.testing.assert_array_equal(table["way_s"], [2.0, 18.0, np.nan, 5.0])
    assert table["age"].tolist() == [0, 0, 1, 0]


def test_ages_are_shares_with_a_last_open_bin():
    shares = aggregates.ages(pd.Series([0, 0, 1, 5, 9]), max_age=5)
    assert shares.to_dict() == {"0": 0.4, "1": 0.2, "2": 0.0, "3": 0.0, "4": 0.0, "5+": 0.4}
    assert aggregates.ages(pd.Series([2])).to_dict() == {"0": 0.0, "1": 0.0, "2": 1.0}


def test_node_delays_come_from_forwarded_events():
    rows = aggregates.node_delays(FORWARDED)
    assert rows["from_s"].tolist() == [2.0, 2.0, 7.0]
    assert rows["node"].tolist() == ["tower:0", "tower:0", "router:0"]


def test_mean_backlog_is_total_delay_over_time():
    table = aggregates.queues(aggregates.node_delays(FORWARDED), 20.0).set_index("node")
    assert list(table.index) == ["tower:0", "router:0"]
    assert table.loc["tower:0", ["passed", "mean_s", "longest_s", "held"]].tolist() == [2, 5.0, 8.0, 0.5]


def test_backlog_over_time_matches_sampling():
    rng = np.random.default_rng(3)
    from_s = rng.uniform(0, 90, 40)
    rows = pd.DataFrame({"from_s": from_s, "to_s": from_s + rng.exponential(5, 40)})
    fine = np.linspace(0, 100, 200_001)[:-1] + 0.00025
    backlog = sum((row.from_s <= fine) & (fine < row.to_s) for row in rows.itertuples())
    np.testing.assert_allclose(
        aggregates.backlog_over_time(rows, 100.0, bins=10), backlog.reshape(10, -1).mean(axis=1), atol=1e-3
    )


def test_utilisation_is_read_from_final_metrics():
    metrics = pd.DataFrame(
        {"replica": [0, 0, 1], "metric": ["utilisation.a-b", "utilisation_theory", "utilisation.a-b"], "value": 0.5}
    )
    assert aggregates.utilisation(metrics).to_dict("list") == {
        "replica": [0, 1],
        "part": ["a-b"] * 2,
        "share": [0.5] * 2,
    }


def test_boxes_are_quartiles_in_order_of_users():
    users = pd.DataFrame({"user": [0, 1, 2], "delivered": [2, 1, 1], "rare": False})
    ax = latency.user_delays(users, DELIVERIES, ROUNDS)
    boxes = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in ax.containers[0]]
    assert boxes == [(5.25, 5.75), (20.0, 20.0), (6.0, 6.0)]
    assert ax.get_yscale() == "log"
    assert not any("mathdefault" in text.get_text() for text in ax.get_yticklabels())


def as_metrics(table):
    return pd.DataFrame(
        {"replica": table["replica"], "metric": "utilisation." + table["part"], "value": table["share"]}
    )


def test_busiest_part_is_on_top_with_its_interval():
    table = pd.DataFrame({"replica": [0, 1] * 2, "part": ["a", "a", "b-c", "b-c"], "share": [0.1, 0.1, 0.4, 0.6]})
    ax = latency.utilisation(as_metrics(table))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["b-c", "a"]
    assert [bar.get_width() for bar in ax.containers[0]] == pytest.approx([50.0, 10.0])


def section_text(run):
    """Return the section on delays, queues and utilisation of a run, which is opened again."""
    found = {section.key: section.parts for section in sections.access_sections(RunData(type(run)(run.folder)))}
    return "".join(found["network-metrics"])


@pytest.mark.slow
def test_section_matches_tables(make, monkeypatch):
    run = make(users=8, rounds=30, replicas=2)
    text = section_text(run)
    assert "Delays of delivered updates" in text
    assert "was not recorded; set" in text
    assert "Shown: replica 0 of 2." in text
    assert "in use" not in text
    events = pd.concat(
        [
            run.events.astype({"kind": str, "node": str, "traffic": str}),
            FORWARDED.assign(user=1, round=1, detail="", traffic=""),
        ]
    )
    events.to_parquet(run.folder / "events.parquet")
    pd.DataFrame({"replica": [0], "metric": ["utilisation.tower:0"], "value": [0.25]}).to_parquet(
        run.folder / "final_metrics.parquet"
    )
    text = section_text(run)
    assert "Little" in text
    assert "nodes with most messages" not in text
    monkeypatch.setattr(sections, "MAX_TABLE_ROWS", 1)
    assert "The 1 of 2 nodes with most messages on average are shown." in section_text(run)
    assert "The share of the time that the air of each cell" in text


def test_equal_delays_have_no_plot(make):
    run = make(users=8, rounds=30, replicas=1, network=False)
    run.rounds.assign(opened_s=lambda table: table["closed_s"] - 1.0).to_parquet(run.folder / "rounds.parquet")
    assert section_text(run) == ""


def test_distribution_includes_zero_delays():
    ax = latency.distributions({"a": pd.Series([0.0, 0.0, 0.0, 1.0, 2.0]), "b": pd.Series([0.0, 0.0])})
    (line,) = ax.get_lines()
    at, share = line.get_data()
    assert list(at / at[-1]) == [0.5, 0.5, 1.0]
    assert list(share) == pytest.approx([60, 80, 100])


def test_the_legend_of_distributions_hides_no_curve():
    ax = latency.distributions({name: pd.Series([1.0, 2.0]) for name in ("first part of the delay", "second part")})
    ax.figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1


def test_cell_may_have_any_name():
    table = pd.DataFrame(
        {"replica": 0, "part": ["tower:Baden-Baden", "tower:0-server", "tower:A-router:B-C"], "share": [0.5, 0.3, 0.1]}
    )
    ax = latency.utilisation(as_metrics(table))
    colours = {bar.get_facecolor() for bar in ax.patches[1:]}
    assert len(colours) == 1
    assert ax.patches[0].get_facecolor() not in colours
