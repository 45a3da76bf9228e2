"""Logs of a Flower server: both forms, with times and without, and lines that are wrong.

``flower_1_41_server.log`` and ``flower_1_41_strategy.log`` were written by Flower 1.41.0: a server of four clients
without times, and a strategy of four nodes, of which one always fails, with times and without colours.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.error_messages import assert_messages
from typer.testing import CliRunner

from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.files.flower_log import duration_note, read_flower_log

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "scenarios/files/flower.log"


def test_example_has_times_counts_and_metrics():
    log = read_flower_log(EXAMPLE)
    rounds = log.rounds
    assert rounds["round"].tolist() == [1, 2, 3, 4]
    assert rounds["opened_s"].tolist() == pytest.approx([0.0, 28.2, 56.0, 120.3])
    assert (rounds["aggregated_s"] - rounds["opened_s"]).tolist() == pytest.approx([25.1, 24.7, 61.2, 25.4])
    assert rounds["closed_s"].tolist() == pytest.approx([28.2, 56.0, 120.3, 148.8])
    assert rounds["sampled"].tolist() == [4] * 4
    assert rounds["available"].tolist() == [10] * 4
    assert rounds["received"].tolist() == [4, 4, 3, 4]
    assert rounds["failed"].tolist() == [0, 0, 1, 0]
    assert rounds["evaluate_received"].tolist() == [2] * 4
    assert rounds["train_train_loss"].tolist() == [1.62, 1.05, 0.84, 0.71]
    assert rounds["evaluate_accuracy"].tolist() == [0.41, 0.58, 0.66, 0.71]
    assert log.failures.to_dict("records") == [
        {
            "round": 3,
            "during": "train",
            "node": 8214095560142379165,
            "reason": "Message unavailable: the reply did not arrive in time",
        }
    ]
    assert (log.planned_rounds, log.total_s, log.is_finished, log.other_lines) == (4, 148.8, True, 1)
    assert log.model_bytes == 1.14 * 2**20
    assert log.round_s == pytest.approx(148.8 / 4)


def test_server_of_flower_is_read():
    """Losses and metrics are in the history at the end, and the progress of the central evaluation."""
    log = read_flower_log(HERE / "flower_1_41_server.log")
    rounds = log.rounds
    assert rounds["received"].tolist() == [3, 2, 3]
    assert rounds["failed"].tolist() == [0, 1, 0]
    assert rounds["loss_distributed"].tolist() == [0.5, 0.25, 0.16666666666666666]
    assert rounds["loss_centralized"].tolist() == [1.15, 0.7666666666666666, 0.575]
    assert rounds["evaluate_accuracy"].tolist() == [0.1, 0.2, 0.30000000000000004]
    assert rounds["server_acc"].tolist() == [0.2, 0.4, 0.6000000000000001]
    assert rounds["elapsed_s"].is_monotonic_increasing
    assert not log.has_times
    assert rounds[["opened_s", "aggregated_s", "closed_s"]].isna().all(axis=None)
    assert (log.total_s, log.unread_metrics, len(log.failures)) == (0.09, 0, 0)
    assert log.round_s == 0.03
    assert "the lines have no times" in duration_note(log)


def test_strategy_of_flower_is_read():
    log = read_flower_log(HERE / "flower_1_41_strategy.log")
    assert log.rounds["received"].tolist() == [3] * 3
    assert log.failures["node"].tolist() == [12] * 3
    assert log.failures["reason"].tolist() == ["Client failed: out of memory"] * 3
    assert log.rounds["aggregated_s"].tolist() == pytest.approx([0.045, 0.151, 0.263])
    assert log.rounds["closed_s"].tolist() == pytest.approx([0.11, 0.222, 0.334])
    assert log.rounds["server_accuracy"].tolist() == pytest.approx([0.1, 0.2, 0.3])


ROUNDS = [
    "[ROUND 1]",
    "configure_fit: strategy sampled 2 clients (out of 3)",
    "aggregate_fit: received 1 results and 1 failures",
    "[ROUND 2]",
    "configure_fit: strategy sampled 2 clients (out of 3)",
    "aggregate_fit: received 2 results and 0 failures",
]
TIMES = [f"2024-03-30 08:00:{second:02d},500" for second in (0, 0, 9, 10, 10, 25)]
FORMS = {
    "screen": lambda time, message: f"\x1b[92mINFO \x1b[0m:      {message}",
    "screen with times": lambda time, message: f"\x1b[92mINFO {time}\x1b[0m:      {message}",
    "docker logs -t": lambda time, message: f"{time.replace(' ', 'T').replace(',', '.')}123456Z INFO :      {message}",
    "json": lambda time, message: f"{{lvl='INFO', time='{time}', msg='{message}'}}",
    "file of a SuperLink": lambda time, message: f"INFO flwr {time} | server.py:112 | {message}",
    "file": lambda time, message: f"mine | INFO flwr {time} | server.py:112 | {message}",
}


@pytest.fixture
def log(tmp_path):
    """Return a function that writes lines and reads them."""

    def read(*lines):
        path = tmp_path / "run.log"
        path.write_text("".join(f"{line}\n" for line in lines))
        return read_flower_log(path)

    return read


def screen(*messages):
    return [f"INFO :      {message}" for message in messages]


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_lines_have_the_same_rounds(log, form):
    read = log(*(FORMS[form](*pair) for pair in zip(TIMES, ROUNDS, strict=True)))
    assert read.rounds["received"].tolist() == [1, 2]
    assert not read.is_finished
    if form == "screen":
        assert math.isnan(read.round_s)
        assert "Nothing states how long a round takes" in duration_note(read)
    else:
        assert read.rounds["opened_s"].tolist() == [0.0, 10.0]
        assert read.rounds["aggregated_s"].tolist() == [9.0, 25.0]
        assert read.round_s == 10.0  # the second round has no end


def test_lines_of_the_app_are_counted(log):
    lines = screen(*ROUNDS)
    read = log("Epoch 1: 0.5", *lines[:3], "(ClientAppActor pid=1) hello", "", *lines[3:], *screen("any other message"))
    assert (read.other_lines, len(read.rounds)) == (2, 2)


def test_round_without_clients_has_none_sampled(log):
    read = log(*screen("[ROUND 1]", "configure_fit: no clients selected, cancel"))
    assert read.rounds["sampled"].tolist() == [0]
    assert read.rounds["received"].isna().all()


def test_history_over_several_lines_with_numbers_of_numpy(log):
    history = ["\tHistory (metrics, distributed, fit):", "\t{'loss': [(1, np.float64(0.5)),", "\t          (2, 0.25)],"]
    history += ["\t 'name': [(1, 'a'), (2, 'b')]}", "\tHistory (loss, distributed):", "\t\tround 2: nan", ""]
    read = log(*screen(*ROUNDS, "[SUMMARY]", "Run finished 2 round(s) in 30.00s", *history))
    assert read.rounds["train_loss"].tolist() == [0.5, 0.25]
    assert np.isnan(read.rounds["loss_distributed"]).all()
    assert (read.unread_metrics, read.round_s) == (2, 15.0)


@pytest.mark.parametrize("text", ["{'a': 1}", "{'a': [1, 2]}", "[1]", "{'a': [(1, 2, 3)]}", "{'a': <Array>}", "{'a':"])
def test_history_of_another_form_is_counted(log, text):
    read = log(*screen(*ROUNDS, "History (metrics, centralized):", text))
    assert read.unread_metrics >= 1


def problems(log, *lines):
    with pytest.raises(ScenarioError) as error:
        log(*lines)
    return [str(fault) for fault in error.value.faults]


def changed(index, message):
    """Return the lines of the log without times, with another one, or a further one, at a place."""
    return screen(*ROUNDS[:index], message, *ROUNDS[index + 1 :])


@pytest.mark.parametrize(
    ("lines", "pattern"),
    [
        (changed(2, "aggregate_fit: received 1 res"), "run.log:3: a line of Flower that is cut … remove the line"),
        (changed(5, "aggreg"), "run.log:6: a line of Flower that is cut … ('aggreg')"),
        (changed(3, "[ROUND"), "run.log:4: a line of Flower that is cut"),
        (changed(3, "[ROUND 1]"), "run.log:4: round 1 follows round 1 ('[ROUND 1]'); … split the file where a run"),
        (changed(3, "[ROUND 4/9]"), "run.log:4: round 4 follows round 1 ('[ROUND 4/9]')"),
        (changed(0, "[ROUND 7]"), "run.log:1: the first round is round 7"),
        (screen(*ROUNDS[1:]), "run.log:1: before any round … give the log from its first line on"),
        (changed(1, ROUNDS[1].replace("out of 3", "out of 1")), "run.log:2: more sampled than there are"),
        (changed(2, ROUNDS[5].replace("0 fail", "1 fail")), "run.log:3: 3 answers of 2 clients that were sampled"),
        (screen(*ROUNDS[:2], *ROUNDS[1:]), "run.log:3: the second line of its kind in round 1"),
        (screen(*ROUNDS, "fit progress: (1, 0.5, {}, 3.1)"), "run.log:7: progress of round 1 in round 2"),
        (screen(*ROUNDS, "History (loss, centralized):", "round 3: 0.1"), "run.log:8: the history has round 3 … 2"),
        (screen(*ROUNDS, "History (loss, centralized):", "roun"), "run.log:8: a line of Flower that is cut"),
        (["INFO flwr 2023-03-30 08:00:00,1 | server.py:1 | fit_round 1: strategy sampled 2 clients"],
         "run.log:1: a line of a Flower before 1.8 … name a log of a Flower server, 1.8 to 1.42"),
        (["one", "two"], "run.log has no rounds in 2 lines; name a log of a Flower server"),
    ],
)  # fmt: skip
def test_wrong_line_is_one_located_error(log, lines, pattern):
    assert_messages(problems(log, *lines), [pattern])


def timed(*times):
    return [
        f"INFO {time}:      {message}" if time else f"INFO :      {message}"
        for time, message in zip(times, ROUNDS, strict=False)
    ]


@pytest.mark.parametrize(
    ("times", "pattern"),
    [
        ([*TIMES[:3], TIMES[0]], "run.log:4: the time is before that of the line above … split the file … UTC"),
        ([*TIMES[:3], ""], "run.log:4: no time, but lines above have one ('[ROUND 2]'); keep the times of all lines"),
        ([*TIMES[:3], "2024-03-30 08:61:00"], "run.log:4: not a time ('2024-03-30 08:61:00'); write a time such as"),
        ([*TIMES[:3], "2024-03-30T09:00:00Z"], "run.log:4: only one of this time and that before has a time zone"),
    ],
)
def test_wrong_time_is_one_located_error(log, times, pattern):
    assert_messages(problems(log, *timed(*times)), [pattern])


def call(*words):
    result = CliRunner().invoke(app, ["import", "flower", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_command_writes_tables(tmp_path):
    code, output = call(EXAMPLE, "--out", tmp_path / "tables")
    assert code == 0
    assert "flower.log: 4 of 4 rounds; 1 lines that are not of Flower" in output
    assert "16 clients sampled: 15 results, 1 failures" in output
    assert "A round takes 37.200 s on average, by the times of the lines." in output
    assert "The model has 1.195 MB." in output
    assert "does not name the clients of results" in output
    assert pd.read_csv(tmp_path / "tables/rounds.csv")["received"].tolist() == [4, 4, 3, 4]
    assert pd.read_csv(tmp_path / "tables/failures.csv")["node"].tolist() == [8214095560142379165]
    code, output = call(EXAMPLE, "--out", tmp_path / "tables")
    assert (code, "--out: the folder is not empty" in output) == (2, True)


def test_command_reports_what_is_missing(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("\n".join(screen(*ROUNDS, "fit progress: (2, 0.5, {'a': 'b'}, 3.1)")))
    code, output = call(path, "--out", tmp_path / "tables")
    assert code == 0
    assert "run.log: 2 rounds, without its end" in output
    assert "1 metrics are no numbers" in output
    assert "Nothing states how long a round takes" in output
