"""Logs of a Flower server: rounds, results and failures, times and metrics.

Read are the lines that Flower 1.8 to 1.42 writes on the screen and into files: those of the server and its workflow
(``[ROUND 1]``, ``configure_fit``, ``aggregate_fit``, ``History``), and those of the strategies of ``flwr.serverapp``
since 1.21 (``[ROUND 1/3]``, ``configure_train``, ``aggregate_train``).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from netfl.errors import Fault, ScenarioError
from netfl.files import open_text, raise_unreadable

MIB = 1 << 20
"""Bytes of what Flower writes as MB."""
_REMEDY = "name a log of a Flower server, 1.8 to 1.42"
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_LEVEL = r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
_TIME = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[-+]\d\d:?\d\d)?"
_FORMS = (
    re.compile(rf"(?:(?P<before>{_TIME})\s+)?{_LEVEL} (?P<time>{_TIME})?: {{1,9}}(?P<message>.*)"),
    re.compile(rf"\{{lvl='{_LEVEL}', time='(?P<time>{_TIME})', msg='(?P<message>.*)'\}}"),
    re.compile(rf"(?:.* \| )?{_LEVEL} \S+ (?P<time>{_TIME}) \| \S+:\d+ \| (?P<message>.*)"),
)
"""Lines of the screen, perhaps with a time in front as of ``docker logs -t``; of its JSON; and of files."""
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_NUMPY = re.compile(r"(?:np\.|numpy\.)?(?:float|int)[0-9]+\(([^()]*)\)")
_KINDS = {"fit": "train", "train": "train", "evaluate": "evaluate"}


@dataclass(frozen=True, slots=True)
class FlowerLog:
    """Content of a log.

    Args:
        rounds: a row for each round: ``round``; ``opened_s``, ``aggregated_s`` and ``closed_s`` from the first round on
            (the last result of the training was aggregated at ``aggregated_s``), NaN without times in the log;
            ``elapsed_s``, which the server writes after its evaluation; ``sampled``, ``available``, ``received`` and
            ``failed`` of the training, and of the evaluation with ``evaluate_`` in front; ``loss_centralized`` and
            ``loss_distributed``; and a column for each metric, with ``train_``, ``evaluate_`` or ``server_`` in front.
        failures: a row for each failure whose node the log names: ``round``, ``during``, ``node`` and ``reason``.
        planned_rounds: number of rounds that the run has, if the log states it.
        total_s: duration that the server states at the end; NaN for a run that has not ended.
        model_bytes: size of the model; NaN if the log does not state it.
        other_lines: number of lines that are not of Flower, such as those of the app.
        unread_metrics: number of metrics that are no numbers.
    """

    rounds: pd.DataFrame
    failures: pd.DataFrame
    planned_rounds: int | None
    total_s: float
    model_bytes: float
    other_lines: int
    unread_metrics: int

    @property
    def is_finished(self) -> bool:
        """True if the log has the end of the run."""
        return not math.isnan(self.total_s)

    @property
    def has_times(self) -> bool:
        """True if its lines have times."""
        return bool(self.rounds["opened_s"].notna().any())

    @property
    def round_s(self) -> float:
        """Mean duration of a round: of the lines with times, or else of the duration of the run; NaN without both."""
        spans_s = (self.rounds["closed_s"] - self.rounds["opened_s"]).dropna()
        if len(spans_s):
            return float(spans_s.mean())
        return self.total_s / len(self.rounds)


def read_flower_log(path: Path) -> FlowerLog:
    """Read the log of one run of a Flower server.

    Args:
        path: a text file, of any size, with colours or without.

    Raises:
        ScenarioError: it has no rounds; a line is cut, or contradicts another; it has two runs, or times that descend.
            The key is empty, and the problem names the line.
    """
    reader = _Reader(path.name)
    try:
        with open_text(path, is_limited=False) as text:
            for number, line in enumerate(text, start=1):
                reader.read(number, line)
    except (OSError, UnicodeDecodeError) as error:
        raise_unreadable(path, error, _REMEDY)
    return reader.finish()


_COLUMNS = (
    *("round", "opened_s", "aggregated_s", "closed_s", "elapsed_s"),
    *("sampled", "available", "received", "failed"),
    *("evaluate_sampled", "evaluate_available", "evaluate_received", "evaluate_failed"),
    *("loss_centralized", "loss_distributed"),
)
_COUNTS = tuple(name for name in _COLUMNS if name.endswith(("sampled", "available", "received", "failed")))
_HISTORY = {"fit": "train", "evaluate": "evaluate", "centralized": "server"}


@dataclass(slots=True)
class _Reader:
    """State of the reading: the rounds so far, and what the lines that follow are about."""

    name: str
    line: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    begin: datetime | None = None
    last: datetime | None = None
    ended: datetime | None = None
    planned_rounds: int | None = None
    total_s: float = math.nan
    model_bytes: float = math.nan
    other_lines: int = 0
    unread_metrics: int = 0
    part: str = "train"
    history: str = ""
    """Part whose metrics the lines of the history are about; empty outside of it."""
    text: str = ""
    """The lines of this part so far."""
    losses: str = ""

    def read(self, number: int, line: str) -> None:
        """Read one line of the log."""
        self.line = number
        plain = _COLOR.sub("", line).rstrip("\r\n")
        for form in _FORMS:
            match = form.fullmatch(plain)
            if match is not None:
                break
        else:
            self.other_lines += bool(plain.strip())
            if re.search(r"\bfit_round \d+", plain):
                self._refuse("a line of a Flower before 1.8", plain.strip()[:60], _REMEDY)
            return
        groups = match.groupdict()
        message = groups["message"].strip()
        if re.search(r"\bfit_round \d+", message):
            self._refuse("a line of a Flower before 1.8", message[:60], _REMEDY)
        time = self._time(groups["time"] or groups.get("before"), message)
        if not self._read_history(message):
            self._read_message(message, time)

    def _time(self, word: str | None, message: str) -> datetime | None:
        """Return the time of a line; only those that the tables need have to have one."""
        if word is None:
            if self.begin is not None and _is_read(message):
                self._refuse("no time, but lines above have one", message[:60], "keep the times of all lines")
            return None
        try:
            time = datetime.fromisoformat(word.replace(",", "."))
        except ValueError:
            self._refuse("not a time", word, "write a time such as 2024-03-30 08:00:00,250")
        if self.last is not None:
            if (time.tzinfo is None) != (self.last.tzinfo is None):
                self._refuse("only one of this time and that before has a time zone", word, "give both one")
            if time < self.last:
                problem = f"the time is before that of the line above, {self.last}"
                remedy = (
                    "split the file where a run begins; local times go back when summer time ends: write the log in UTC"
                )
                self._refuse(problem, word, remedy)
        self.last = time
        return time

    def _read_message(self, message: str, time: datetime | None) -> None:
        for pattern, act in _MESSAGES:
            match = pattern.fullmatch(message)
            if match is not None:
                act(self, match, time)
                return
        if _is_read(message):
            self._refuse_cut(message)

    def _refuse_cut(self, message: str) -> None:
        remedy = "remove the line if it is cut, as the last one of a log that is still written"
        self._refuse("a line of Flower that is cut, or of another version", message.strip()[:60], remedy)

    def _refuse(self, problem: str, value: object, remedy: str) -> None:
        raise ScenarioError([Fault("", f"{self.name}:{self.line}: {problem}", value, remedy)])

    def _row(self, word: str) -> dict[str, Any]:
        if not self.rows:
            self._refuse("before any round", word, "give the log from its first line on")
        return self.rows[-1]

    # what a message does: pattern by pattern, in the order of a run

    def on_size(self, match: re.Match[str], time: datetime | None) -> None:
        if math.isnan(self.model_bytes):
            self.model_bytes = float(match[1]) * MIB

    def on_planned(self, match: re.Match[str], time: datetime | None) -> None:
        self.planned_rounds = int(match[1])

    def on_round(self, match: re.Match[str], time: datetime | None) -> None:
        index = int(match[1])
        if index != len(self.rows) + 1:
            problem = f"round {index} follows round {len(self.rows)}"
            if not self.rows:
                problem = f"the first round is round {index}"
            remedy = "give one run from its first line on: split the file where a run begins"
            self._refuse(problem, match[0], remedy)
        if match[2] is not None:
            self.planned_rounds = int(match[2])
        if index == 1:
            self.begin = time
        opened_s = self._seconds(time)
        if self.rows:
            self.rows[-1]["closed_s"] = opened_s
        self.rows.append(dict.fromkeys(_COLUMNS, math.nan) | {"round": index, "opened_s": opened_s})

    def on_sampled(self, match: re.Match[str], time: datetime | None) -> None:
        self._set(match, "sampled", "available")
        if int(match[2]) > int(match[3]):
            self._refuse("more sampled than there are", match[0], "correct the line")

    def on_no_clients(self, match: re.Match[str], time: datetime | None) -> None:
        self._row(match[0])[f"{_prefix(match[1])}sampled"] = 0

    def on_received(self, match: re.Match[str], time: datetime | None) -> None:
        self._set(match, "received", "failed")
        row = self._row(match[0])
        sampled = row[f"{_prefix(match[1])}sampled"]
        answers = int(match[2]) + int(match[3])
        if answers > sampled:
            self._refuse(f"{answers} answers of {sampled} clients that were sampled", match[0], "correct the line")
        self.part = _KINDS[match[1]]
        if self.part == "train":
            row["aggregated_s"] = self._seconds(time)

    def on_failure(self, match: re.Match[str], time: datetime | None) -> None:
        round_ = self._row(match[0])["round"]
        self.failures.append({"round": round_, "during": self.part, "node": int(match[1]), "reason": match[2]})

    def on_metrics(self, match: re.Match[str], time: datetime | None) -> None:
        self._add_metrics(self._row(match[0]), self.part, match[1])

    def on_server_metrics(self, match: re.Match[str], time: datetime | None) -> None:
        self._add_metrics(self._row(match[0]), "server", match[1])

    def on_progress(self, match: re.Match[str], time: datetime | None) -> None:
        row = self._row(match[0])
        if int(match[1]) != row["round"]:
            self._refuse(f"progress of round {match[1]} in round {row['round']}", match[0], "correct the line")
        row["loss_centralized"] = float(match[2])
        row["elapsed_s"] = float(match[4])
        self._add_metrics(row, "server", match[3])

    def on_end(self, match: re.Match[str], time: datetime | None) -> None:
        self.total_s = float(match[1])
        self._row(match[0])["closed_s"] = self._seconds(time)

    def _set(self, match: re.Match[str], first: str, second: str) -> None:
        row = self._row(match[0])
        prefix = _prefix(match[1])
        if not math.isnan(row[f"{prefix}{first}"]):
            self._refuse(f"the second line of its kind in round {row['round']}", match[0], "remove one of them")
        row[f"{prefix}{first}"] = int(match[2])
        row[f"{prefix}{second}"] = int(match[3])

    def _seconds(self, time: datetime | None) -> float:
        if time is None or self.begin is None:
            return math.nan
        return (time - self.begin).total_seconds()

    def _add_metrics(self, row: dict[str, Any], part: str, text: str) -> None:
        values = _literal(text)
        if not isinstance(values, dict):
            self.unread_metrics += 1
            return
        for name, value in values.items():
            if isinstance(value, int | float):
                row[f"{part}_{name}"] = float(value)
            else:
                self.unread_metrics += 1

    # the history at the end of a run, which has losses and metrics of all rounds

    def _read_history(self, message: str) -> bool:
        """Read a line of the history; return False if it is none."""
        heading = re.fullmatch(r"History \((?:(loss), (\w+)|metrics, (?:distributed, )?(\w+))\):", message)
        if heading is None and not (self.history or self.losses):
            return False
        loss = re.fullmatch(rf"round (\d{{1,9}}): ({_NUMBER}|nan|inf)", message)
        if heading is not None:
            self._end_history()
            self.losses = heading[2] or ""
            self.history = _HISTORY.get(heading[3] or "", "")
        elif self.losses and loss is not None:
            self._set_of_round(int(loss[1]), f"loss_{self.losses}", float(loss[2]))
        elif self.history and message:
            self.text += f" {message}"
        elif self.losses and message:
            self._refuse_cut(message)
        else:
            self._end_history()
        return True

    def _end_history(self) -> None:
        if self.history and self.text:
            series = _literal(self.text)
            if not isinstance(series, dict):
                self.unread_metrics += 1
                series = {}
            for name, values in series.items():
                pairs = values if isinstance(values, list) else [values]
                for pair in pairs:
                    self._add_of_history(f"{self.history}_{name}", pair)
        self.history = ""
        self.text = ""
        self.losses = ""

    def _add_of_history(self, column: str, pair: object) -> None:
        """Add one value of the history, a pair of its round and a number."""
        match pair:
            case (int(round_), int(value) | float(value)):
                self._set_of_round(round_, column, float(value))
            case _:
                self.unread_metrics += 1

    def _set_of_round(self, index: int, column: str, value: float) -> None:
        if index == 0:  # the model before the first round
            return
        if not 1 <= index <= len(self.rows):
            self._refuse(f"the history has round {index}, and the log {len(self.rows)}", value, "give the whole log")
        self.rows[index - 1][column] = value

    def finish(self) -> FlowerLog:
        """Return the content of the log."""
        self._end_history()
        if not self.rows:
            raise ScenarioError([Fault("", f"{self.name} has no rounds in {self.line} lines", None, _REMEDY)])
        rounds = pd.DataFrame(self.rows)
        rounds = rounds.astype(dict.fromkeys(_COUNTS, "Int64"))
        columns = ["round", "during", "node", "reason"]
        return FlowerLog(
            rounds=rounds,
            failures=pd.DataFrame(self.failures, columns=columns),
            planned_rounds=self.planned_rounds,
            total_s=self.total_s,
            model_bytes=self.model_bytes,
            other_lines=self.other_lines,
            unread_metrics=self.unread_metrics,
        )


def _prefix(kind: str) -> str:
    """Return what is in front of the columns of the training or the evaluation."""
    return "evaluate_" if _KINDS[kind] == "evaluate" else ""


def _literal(text: str) -> Any:
    """Return the value of a literal of Python, with numbers of NumPy; ``None`` if it is none."""
    try:
        return ast.literal_eval(_NUMPY.sub(r"\1", text.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


_Act = Callable[[_Reader, re.Match[str], "datetime | None"], None]


def _messages() -> Iterator[tuple[re.Pattern[str], _Act]]:
    kind = "(fit|train|evaluate)"
    yield re.compile(r"├── ArrayRecord \(([0-9]{1,9}\.[0-9]{1,9}) MB\)"), _Reader.on_size
    yield re.compile(r"├── Number of rounds: (\d{1,9})"), _Reader.on_planned
    yield re.compile(r"\[ROUND (\d{1,9})(?:/(\d{1,9}))?\]"), _Reader.on_round
    yield (
        re.compile(rf"configure_{kind}: (?:strategy s|S)ampled (\d{{1,9}}) (?:clients|nodes) \(out of (\d{{1,9}})\)"),
        _Reader.on_sampled,
    )
    yield re.compile(rf"configure_{kind}: no clients selected, .*"), _Reader.on_no_clients
    yield (
        re.compile(rf"aggregate_{kind}: [rR]eceived (\d{{1,9}}) results and (\d{{1,9}}) failures"),
        _Reader.on_received,
    )
    yield re.compile(r"> Received error in reply from node (\d{1,20}): (.*)"), _Reader.on_failure
    yield re.compile(r"└──> Aggregated MetricRecord: (.*)"), _Reader.on_metrics
    yield re.compile(r"└──> MetricRecord: (.*)"), _Reader.on_server_metrics
    yield re.compile(rf"fit progress: \((\d{{1,9}}), ({_NUMBER}|nan|inf), (.*), ({_NUMBER})\)"), _Reader.on_progress
    yield re.compile(rf"Run finished \d+ round\(s\) in ({_NUMBER})s"), _Reader.on_end
    yield re.compile(rf"Strategy execution finished in ({_NUMBER})s"), _Reader.on_end


_MESSAGES = tuple(_messages())
"""Messages that are read, each with what it does."""
_STEMS = (
    "[ROUND ",
    *(f"configure_{kind}: {word}ampled" for kind in _KINDS for word in ("strategy s", "S")),
    *(f"aggregate_{kind}: {word}eceived" for kind in _KINDS for word in ("r", "R")),
    "> Received error in reply",
    "fit progress: ",
    "Run finished ",
    "Strategy execution finished ",
)
"""Beginnings of these messages."""
_SHORTEST = 4
"""Characters from which on the beginning of such a beginning is taken for a line that is cut."""


def _is_read(message: str) -> bool:
    """Return whether a *message* is one of those that are read, or is cut from one."""
    if message.startswith(_STEMS):
        return True
    is_long_enough = len(message) >= _SHORTEST
    return is_long_enough and any(stem.startswith(message) for stem in _STEMS)


def duration_note(log: FlowerLog) -> str:
    """Return a sentence on how long rounds take, and where that is from."""
    if math.isnan(log.round_s):
        return "Nothing states how long a round takes: the lines have no times, and the run has not ended."
    if log.has_times:
        return f"A round takes {log.round_s:.3f} s on average, by the times of the lines."
    return f"A round takes {log.round_s:.3f} s on average, by the duration of the run; the lines have no times."
