"""A column or a metric is declared once, and then arrives in tables, readers, recordings, views and reports."""

import inspect
import json
import math
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import netfl
from netfl.core.columns import columns_of, complete_columns, to_arrays
from netfl.results.metrics import CATALOGUE, Metric, find_metric
from netfl.results.tables import SCHEMAS
from netfl.types import Delivery, LinkReport, Round, RoundBatch

PACKAGE = Path(netfl.__file__).parent

NEW_COLUMN = "    snr_db: float = 2.5\n"
ACCESS_METRICS = "_ACCESS: tuple[Metric, ...] = (\n"
NEW_METRIC = 'Metric(name="warmth_K", label="warmth of towers", unit="%", rank=-1, views={"points": ""}), '

PROGRAM = """
import json, sys
from pathlib import Path
import pandas as pd
from rich.console import Console
import netfl
from netfl.access import Access
from netfl.cli.views.run_summary import show_run
from netfl.results import formatting
from netfl.results.metrics import metrics_in
from netfl.types import Delivery, Law, Round


class Warm(Access):
    def rounds(self, context):
        for index in range(1, context.rounds + 1):
            update = Delivery(
                snr_db=7.0 * index, user=0, base=index - 1, sent_s=index - 1.0, arrived_s=float(index)
            )
            yield Round(
                index=index, opened_s=index - 1.0, closed_s=float(index), deliveries=(update,), oldest=index
            )
        context.recorder.final_metrics({"jain": 1.0, "warmth_K": 0.25})

    def laws(self):
        return (Law.none("nothing is drawn"),)


def trace(folder, access):
    scenario = netfl.Scenario(name="warm", users=2, rounds=3, access=access)
    return netfl.trace(scenario, folder)


live = trace("live", Warm())
replayed = trace("replayed", {"kind": "replay", "run": "live"})
drawn = trace("drawn", {"kind": "stationary", "rho": [0.5, 0.5]})
values = {run.folder.name: run.deliveries["snr_db"].tolist() for run in (live, replayed, drawn)}
path = Path("live/deliveries.parquet")
pd.read_parquet(path).drop(columns="snr_db").to_parquet(path)
older = trace("older", {"kind": "replay", "run": "live"})
console = Console(width=120, record=True, file=open("terminal.txt", "w"))
show_run(live, console)
print(json.dumps({
    "live": values,
    "older": [run.deliveries["snr_db"].tolist() for run in (netfl.open_run("live"), older)],
    "first": formatting.access_metrics(live.summary)[0],
    "text": formatting.format_metric("warmth_K", 0.25),
    "points": list(metrics_in("points")),
    "terminal": console.export_text(),
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedDelivery(Delivery):
    """A delivery with one more field.

    Args:
        snr_db: signal-to-noise ratio, in
            decibels.
    """

    snr_db: float = math.nan


def test_fields_are_columns_with_type_default_and_meaning():
    *inherited, added = columns_of(NotedDelivery)
    assert [column.name for column in inherited] == [column.name for column in columns_of(Delivery)]
    assert (added.name, added.arrow_type, added.meaning) == ("snr_db", "double", "signal-to-noise ratio, in decibels")
    assert math.isnan(added.default)
    attempts = columns_of(Delivery)[-1]
    assert (attempts.arrow_type, attempts.default) == ("int32", 1)


@pytest.mark.parametrize("rows", [Round, Delivery, LinkReport])
def test_rows_are_built_by_keyword(rows):
    """By place, a field that is added anywhere but at the end would shift the others: a time becomes the deliveries."""
    places = {each.name: each.kind for each in inspect.signature(rows).parameters.values()}
    assert set(places.values()) == {inspect.Parameter.KEYWORD_ONLY}


def test_hints_rename_and_convert_fields():
    arrays = to_arrays(
        Round,
        [
            Round(
                index=3,
                opened_s=0.0,
                closed_s=2.0,
                deliveries=(Delivery(user=1, base=2, sent_s=0.0, arrived_s=1.0),),
                oldest=3,
            ),
            Round(index=4, opened_s=2.0, closed_s=3.0, deliveries=(), oldest=4, energy_j=5.0),
        ],
    )
    assert [*arrays] == SCHEMAS["rounds"].names[1:]
    assert arrays["round"].tolist() == [3, 4]
    assert arrays["delivered"].tolist() == [1, 0]
    np.testing.assert_array_equal(arrays["energy_J"], [np.nan, 5.0])
    assert "queries" not in arrays


def test_columns_that_are_not_given_have_their_defaults():
    arrays = complete_columns(NotedDelivery, 2, {"user": np.array([4, 5]), "base": 0, "sent_s": 0.5, "arrived_s": 1.0})
    assert arrays["user"].tolist() == [4, 5]
    assert arrays["attempts"].tolist() == [1, 1]
    assert np.isnan(arrays["snr_db"]).all()


def test_tables_begin_with_the_columns_of_the_declaration():
    batch = RoundBatch.of(
        [
            Round(
                index=1,
                opened_s=0.0,
                closed_s=2.0,
                deliveries=(Delivery(user=1, base=0, sent_s=0.0, arrived_s=1.0),),
                oldest=1,
            )
        ]
    )
    for table, columns in batch.tables.items():
        assert ["replica", *columns] == SCHEMAS[table].names


def test_names_in_the_catalogue_are_unique():
    names = [metric.name for metric in CATALOGUE]
    assert len(names) == len({*names})


@pytest.mark.parametrize(
    ("name", "label", "unit", "rank"),
    [
        ("delay_mean_s", "delay, mean", "s", 6),
        ("share.given_up", "updates given up", "%", 3),
        ("lost.collided", "lost, collided", "", 5),
        ("traffic.lost.collided", "traffic, lost, collided", "", 100),
        ("utilisation.router:0", "utilisation, router:0", "%", 7),
        ("collision_probability_theory", "collision probability, theory", "%", 100),
        ("own_rate_bps", "own rate", "bps", 100),
        ("validation_loss", "validation loss", "", 100),
        ("accuracy@raw", "accuracy@raw", "%", 100),
    ],
)
def test_metrics_are_found_by_name_and_by_pattern(name, label, unit, rank):
    metric = find_metric(name)
    assert (metric.label, metric.unit, metric.rank) == (label, unit, rank)


def test_pattern_names_what_its_star_stands_for():
    assert Metric(name="heat.*_K", label="heat of {}").named("heat.tower:0_K").label == "heat of tower:0"


@pytest.mark.slow
def test_column_and_metric_take_one_edit_each(tmp_path):
    """Add a field to `Delivery` and an entry to the catalogue in a copy of the package, and run the copy."""
    copy = tmp_path / "netfl"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for file, before, added in (
        ("types/deliveries.py", "    user: int\n", NEW_COLUMN + "    user: int\n"),
        ("results/metrics.py", ACCESS_METRICS, ACCESS_METRICS + NEW_METRIC),
    ):
        text = (copy / file).read_text()
        assert text.count(before) == 1
        (copy / file).write_text(text.replace(before, added))
    work = tmp_path / "work"
    work.mkdir()
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["live"] == {
        "live": [7.0, 14.0, 21.0],
        "replayed": [7.0, 14.0, 21.0],  # from the table
        "drawn": [2.5, 2.5, 2.5],  # an access that does not know the column
    }
    assert result["older"] == [[2.5, 2.5, 2.5]] * 2  # a run without the column, and its replay
    assert result["first"] == "warmth_K"
    assert result["text"] == "25 %"
    assert "warmth_K" in result["points"]
    assert "warmth of towers" in result["terminal"]
