"""Tracker for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, ClassVar

from pydantic import AfterValidator

from netfl.tracker import Lane, RunLog, TrackedRun, Tracker

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

_FILE = "events.out.tfevents.0.netfl"


class TensorBoard(Tracker):
    """Event files for TensorBoard: a folder for the run, in it one for each learner and replica.

    Times are simulated times.  A resumed run writes its files again.  The metrics at the end are ``summary/NAME``, over
    the number of replicas.

    Example::

        kind: tensorboard
        folder: runs/board
    """

    packages: ClassVar[tuple[str, ...]] = ("tensorboard",)
    requirement: ClassVar[str] = "netfl-sim[tensorboard]"
    folder: Annotated[Path, AfterValidator(Path.absolute)] | None = None
    """Folder in which the run gets a subfolder of its name; by default the run directory, with the subfolder
    ``tensorboard``.  A relative path starts at the current directory."""

    def open(self, run: TrackedRun) -> RunLog:
        if "folder" not in run.memory:
            if self.folder is None:
                folder = run.folder / "tensorboard"
            else:
                folder = _new_folder(self.folder, run.name)
            run.memory["folder"] = str(folder)
        return _EventLog(Path(run.memory["folder"]), run)


class _EventLog(RunLog):
    def __init__(self, folder: Path, run: TrackedRun) -> None:
        self._whole = _EventFile(folder, is_new=not run.is_extension)
        self._lanes = {lane: _EventFile(folder / f"{lane[0]}-{lane[1]}", is_new=True) for lane in run.lanes}
        self._time_s = 0.0
        if not run.is_extension:
            text = (run.folder / "scenario.yaml").read_text(encoding="utf-8")
            self._whole.add(0.0, 0, _as_text("scenario", text))

    def log_metrics(self, lane: Lane, round: int, time_s: float, values: Mapping[str, float]) -> None:
        self._time_s = max(self._time_s, time_s)
        self._lanes[lane].add(time_s, round, _as_scalars(values))

    def log_summary(self, values: Mapping[str, float], replicas: int) -> None:
        named = {f"summary/{name}": value for name, value in values.items()}
        self._whole.add(self._time_s, replicas, _as_scalars(named))

    def close(self, status: str) -> None:
        for file in (self._whole, *self._lanes.values()):
            file.close()


class _EventFile:
    """Event file, written from its beginning or continued."""

    def __init__(self, folder: Path, *, is_new: bool) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = (folder / _FILE).open("wb" if is_new else "ab")
        self._records = RecordWriter(self._file)
        self._event = Event
        if self._file.tell() == 0:
            self._write(Event(wall_time=0.0, file_version="brain.Event:2"))

    def add(self, time_s: float, step: int, summary: Summary) -> None:
        self._write(self._event(wall_time=time_s, step=step, summary=summary))

    def _write(self, event: Event) -> None:
        self._records.write(event.SerializeToString())
        self._records.flush()

    def close(self) -> None:
        self._file.close()


def _new_folder(folder: Path, name: str) -> Path:
    """Return the folder of a new run: *name* in *folder*, with a number if it exists."""
    path = folder / name
    number = 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}"
    return path


def _as_scalars(values: Mapping[str, float]) -> Summary:
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])


def _as_text(name: str, text: str) -> Summary:
    """Return *text* as TensorBoard shows it: a block of code."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    shown = "".join(f"    {line}\n" for line in text.splitlines())
    kind = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    tensor = TensorProto(dtype=DT_STRING, string_val=[shown.encode()])
    return Summary(value=[Summary.Value(tag=name, metadata=kind, tensor=tensor)])
