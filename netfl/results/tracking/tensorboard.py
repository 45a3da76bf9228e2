"""Event files for TensorBoard: one folder for a run, in it one for each learner and replica.

The files are written anew whenever a run goes on, as that tells all that was told before once more.  TensorBoard's
times are the simulated ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.summary.writer.record_writer import RecordWriter

from netfl.scenario.yaml_document import dump

_FILE = "events.out.tfevents.0.netfl"


class _File:
    """One event file, written from its beginning or gone on with."""

    def __init__(self, folder: Path, *, anew: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _FILE
        self._file: BinaryIO = path.open("wb" if anew else "ab")
        self._records = RecordWriter(self._file)
        if self._file.tell() == 0:
            self.add(Event(wall_time=0.0, file_version="brain.Event:2"))

    def add(self, event: Event) -> None:
        """Add an event."""
        self._records.write(event.SerializeToString())
        self._records.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard:
    """Writes event files into *folder*.

    Args:
        folder: the run's own folder.
        scenario: the scenario as plain data.
        lanes: learner and replica of each lane whose figures come; none where only the summary does.
    """

    def __init__(self, folder: Path, scenario: Mapping[str, Any], lanes: Sequence[tuple[str, int]]) -> None:
        self._folder = folder
        anew = any(replica == 0 for _, replica in lanes)  # and else replicas come to it
        self._whole = _File(folder, anew=anew)
        self._lanes = {lane: _File(folder / f"{lane[0]}-{lane[1]}", anew=True) for lane in lanes}
        self._time_s = 0.0
        if anew:
            self._whole.add(Event(wall_time=0.0, step=0, summary=Summary(value=[_text("scenario", dump(scenario))])))

    def figures(self, lane: tuple[str, int], round: int, time_s: float, values: Mapping[str, float]) -> None:
        """Add the figures of a lane."""
        self._time_s = max(self._time_s, time_s)
        self._lanes[lane].add(Event(wall_time=time_s, step=round, summary=_scalars(values)))

    def summary(self, values: Mapping[str, float], replicas: int) -> None:
        """Add what the run came to, by the number of its replicas."""
        named = {f"summary/{name}": value for name, value in values.items()}
        self._whole.add(Event(wall_time=self._time_s, step=replicas, summary=_scalars(named)))

    def close(self, status: str) -> None:
        """Close the files."""
        for file in (self._whole, *self._lanes.values()):
            file.close()


def new_log_folder(folder: Path, name: str) -> Path:
    """The folder of a new run: *name* in *folder*, with a number where that is taken."""
    place, number = folder / name, 2
    while place.exists():
        place, number = folder / f"{name}-{number}", number + 1
    return place


def _scalars(values: Mapping[str, float]) -> Summary:
    """Figures."""
    return Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])


def _text(name: str, text: str) -> Any:
    """A text, shown as it is."""
    shown = "".join(f"    {line}\n" for line in text.splitlines()).encode()
    kind = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    tensor = TensorProto(dtype=DT_STRING, string_val=[shown])
    return Summary.Value(tag=name, metadata=kind, tensor=tensor)
