r"""LaTeX tables of `compare`: each value in the column of its metric, with units."""

import math

import pytest

from netfl.report.paper_tables import ComparisonTable

NONE = math.nan
VALUES = {
    "accuracy": [("FedAvg", 0.53, 0.01, NONE), ("FED-CVaR-AVG", 0.55, 0.02, 0.02)],
    "rare_accuracy": [("FedAvg", 0.3, 0.01, NONE), ("FED-CVaR-AVG", 0.4, 0.02, 0.1)],
    "validation_loss": [("FedAvg", 0.7, 0.1, NONE)],
    "throughput_bps": [("", 412785.311, 6365.557, NONE)],
    "delay_mean_s": [("aloha", 0.5, NONE, NONE), ("tdma", 0.025, 0.005, -0.475)],
    "loss_ratio": [("", 0.0425, 0.001, NONE)],
    "delay_p95_s": [("", NONE, NONE, NONE)],
    "jain": [("", 0.9, 0.05, NONE)],
}


def latex_rows(values):
    """The rows of a LaTeX table, each a dictionary from the name of a column to its cell."""
    columns = [
        "learner",
        "metric",
        "mean",
        "half",
        "replicas",
        "difference",
        "difference_half",
        "difference_replicas",
        "paired",
    ]
    rows = [
        (learner, metric, mean, half, 3, difference, NONE if math.isnan(difference) else half, 3, False)
        for metric, lines in values.items()
        for learner, mean, half, difference in lines
    ]
    text = ComparisonTable(rows, columns=columns).to_latex()
    header, *cells = [line[:-3].split(" & ") for line in text.splitlines() if line.endswith(r" \\")]
    return [dict(zip(header, line, strict=True)) for line in cells]


@pytest.mark.parametrize("metrics", [["accuracy", "jain"], ["jain", "accuracy"], ["accuracy", "jain", "rare_accuracy"]])
def test_each_value_is_in_the_column_of_its_metric(metrics):
    rows = {row["learner"]: row for row in latex_rows({metric: VALUES[metric] for metric in metrics})}
    assert set(rows) == {"", "FedAvg", "FED-CVaR-AVG"}
    assert [row["Jain index of deliveries"] for row in rows.values()].count("--") == 2
    assert rows[""]["Jain index of deliveries"] == r"$0.900 \pm 0.050$ ($n = 3$)"
    assert rows[""][r"accuracy (\%)"] == rows[""][r"difference, accuracy (\%)"] == "--"
    assert rows["FedAvg"][r"accuracy (\%)"] == r"$53.0 \pm 1.0$ ($n = 3$)"
    assert rows["FED-CVaR-AVG"][r"difference, accuracy (\%)"] == r"$+2.0 \pm 2.0$ ($n = 3$)"


def test_a_metric_that_a_learner_does_not_have_is_a_dash():
    first, second = latex_rows({name: VALUES[name] for name in ("accuracy", "validation_loss")})
    assert first["validation loss"] == r"$0.700 \pm 0.100$ ($n = 3$)"
    assert second["validation loss"] == "--"


def test_a_metric_of_the_network_has_its_unit_in_the_header():
    [row] = latex_rows({name: VALUES[name] for name in ("throughput_bps", "loss_ratio", "jain", "delay_p95_s")})
    assert row == {
        "learner": "",
        "throughput (kbps)": r"$412.8 \pm 6.4$ ($n = 3$)",
        r"lost, total (\%)": r"$4.25 \pm 0.10$ ($n = 3$)",
        "Jain index of deliveries": r"$0.900 \pm 0.050$ ($n = 3$)",
        "delay, p95": "--",
    }


def test_the_values_and_differences_of_a_column_have_one_unit():
    first, second = latex_rows({"delay_mean_s": VALUES["delay_mean_s"]})
    assert first["delay, mean (ms)"] == "$500$"
    assert second["delay, mean (ms)"] == r"$25.0 \pm 5.0$ ($n = 3$)"
    assert second["difference, delay, mean (ms)"] == r"$-475.0 \pm 5.0$ ($n = 3$)"
