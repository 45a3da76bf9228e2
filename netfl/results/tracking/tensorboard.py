"""TensorBoard tracker: one folder of event files for a run, in it one for each learner and replica.

A resumed run writes its files again from the start, as it repeats all its metrics.  TensorBoard's times are simulated
times.
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
    """Event file, written from its beginning or continued."""

    def __init__(self, folder: Path, *, is_new: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _FILE
        self._file: BinaryIO = path.open("wb" if is_new else "ab")
        self._records = RecordWriter(self._file)
        if self._file.tell() == 0:
            self.add(Event(wall_time=0.0, file_version="brain.Event:2"))

    def add(self, event: Event) -> None:
        self._records.write(event.SerializeToString())
        self._records.flush()

    def close(self) -> None:
        self._file.close()


class TensorBoard:
    """Tracker that writes event files.

    Args:
        folder: the folder of the run.
        scenario: the scenario as plain data.
        lanes: learner and replica of each lane; none where only the summary is written.
    """

    def __init__(self, folder: Path, scenario: Mapping[str, Any], lanes: Sequence[tuple[str, int]]) -> None:
        self._folder = folder
        is_new = any(replica == 0 for _, replica in lanes)  # otherwise the run is extended
        self._whole = _File(folder, is_new=is_new)
        self._lanes = {lane: _File(folder / f"{lane[0]}-{lane[1]}", is_new=True) for lane in lanes}
        self._time_s = 0.0
        if is_new:
            self._whole.add(Event(wall_time=0.0, step=0, summary=Summary(value=[_text("scenario", dump(scenario))])))

    def log_metrics(self, lane: tuple[str, int], round: int, time_s: float, values: Mapping[str, float]) -> None:
        """Add the metrics of a lane."""
        self._time_s = max(self._time_s, time_s)
        self._lanes[lane].add(Event(wall_time=time_s, step=round, summary=_scalars(values)))

    def summary(self, values: Mapping[str, float], replicas: int) -> None:
        """Add the summary, with the number of replicas as the step."""
        named = {f"summary/{name}": value for name, value in values.items()}
        self._whole.add(Event(wall_time=self._time_s, step=replicas, summary=_scalars(named)))

    def close(self, status: str) -> None:
        for file in (self._whole, *self._lanes.values()):
            file.close()


def new_log_folder(folder: Path, name: str) -> Path:
    """Return the folder of a new run: *name* in *folder*, with a number if it exists."""
    path, number = folder / name, 2
    while path.exists():
        path, number = folder / f"{name}-{number}", number + 1
    return path


def _scalars(values: Mapping[str, float]) -> Summary:
    return Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])


def _text(name: str, text: str) -> Any:
    shown = "".join(f"    {line}\n" for line in text.splitlines()).encode()
    kind = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    tensor = TensorProto(dtype=DT_STRING, string_val=[shown])
    return Summary.Value(tag=name, metadata=kind, tensor=tensor)
