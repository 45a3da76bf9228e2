"""The slices of one user's update, from its events."""

import io
import json

import numpy as np
import pytest

from netfl.results.export.perfetto import _Event, _UserTimelines
from netfl.results.export.trace_events import TraceEvents


def slices_of(*events, restarts=True):
    """Return name, start and end of each slice of user 0, from (time, kind, value) of its events."""
    rows = rows_of(*events, restarts=restarts)
    return [(row["name"], row["ts"] / 1e6, (row["ts"] + row["dur"]) / 1e6) for row in rows]


def rows_of(*events, restarts=True):
    """Return the slices of user 0 as they are written."""
    file = io.StringIO()
    tracks = TraceEvents(file, {})
    timelines = _UserTimelines(
        tracks, [0.0, 50.0], is_network=True, restarts=restarts, packets=False, has_attempts=False
    )
    for time_s, kind, value in events:
        timelines.add(_Event(time_s, kind, 0, "tower:0", 1, value, ""))
    timelines.close(60.0)
    tracks.close()
    written = json.loads(file.getvalue())
    rows = written["traceEvents"] if isinstance(written, dict) else written
    return [row for row in rows if row["ph"] == "X"]


@pytest.mark.parametrize("version", [0, 3])
def test_an_arrival_names_the_version_from_which_it_was_trained(version):
    rows = rows_of(
        (1.0, "received", version), (5.0, "trained", version), (8.0, "sent", 800.0), (9.0, "delivered", version)
    )
    assert [row["args"] for row in rows if row["cat"] == "server" and row["ts"] == 9e6] == [{"version": version}]


def test_training_ends_as_the_waiting_begins():
    slices = slices_of((1.0, "received", 0), (5.0, "trained", 0), (8.0, "sent", 800.0), (9.0, "delivered", 0))
    assert ("training", 1.0, 5.0) in slices
    assert ("waiting", 5.0, 8.0) in slices


def test_update_that_is_queued_later_waits_since_its_training():
    """The second event is that of a queue, of an update that waits already."""
    slices = slices_of((1.0, "received", 0), (5.0, "trained", 0), (6.0, "queued", 0), (8.0, "sent", 800.0))
    assert ("training", 1.0, 5.0) in slices
    assert ("waiting", 5.0, 8.0) in slices


def test_update_of_unknown_start_has_no_training():
    slices = slices_of((5.0, "trained", 0), (8.0, "sent", 800.0), (9.0, "delivered", 0))
    assert [name for name, *_ in slices if name.startswith("training")] == []
    assert ("waiting", 5.0, 8.0) in slices


@pytest.mark.parametrize("restarts", [True, False])
def test_newer_version_begins_a_training_at_once_or_after_the_update(restarts):
    slices = slices_of(
        (1.0, "received", 0), (3.0, "received", 1), (5.0, "trained", 1 if restarts else 0), restarts=restarts
    )
    began_s = 3.0 if restarts else 1.0
    assert [(began, end) for name, began, end in slices if name == "training"][-1] == (began_s, 5.0)
    assert np.isfinite([began for _, began, _ in slices]).all()
