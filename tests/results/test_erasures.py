"""Codec and lost parts of a run: one number in its tables, its summary, its report and on the terminal."""

import io
import re

import pytest
from rich.console import Console

import netfl
from netfl.cli.views.run_summary import show_run
from netfl.report import summary_text
from netfl.report.run_data import RunData

SCENARIO = {
    "name": "erasing", "users": 4, "rounds": 6, "replicas": 2,
    "access": {
        "kind": "network", "topology": {"kind": "star", "radius": "1 km"},
        "radio": {"power": "14 dBm", "bandwidth": "1 MHz"},
        "channel": [
            {"kind": "log_distance", "exponent": 3.2, "frequency": "868 MHz"},
            {"kind": "rayleigh", "coherence": "1 ms"},
        ],
        "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "50 kbps"},
        "mac": {"kind": "round_robin", "max_attempts": 1}, "compute": {"speed": 100}, "broadcast_rate": "50 kbps",
        "round": {"kind": "first", "deadline": "1 s"},
        "transport": {"grain": "packet", "mtu": "16 bit", "loss": "erase"},
    },
    "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 60}, "partition": "iid", "model": "logistic",
    "codec": {"kind": "qsgd", "bits_per_parameter": 4},
    "learners": {
        "A": {"objective": "erm", "aggregation": "average_received", "lr": 0.1, "batch_size": 4, "local_steps": 1}
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("erasing") / "run"
    return netfl.run(netfl.load(SCENARIO), folder, device="cpu", progress=False)


def lost_share(run):
    """Return the mean over replicas of the mean share of lost parts, from the rows of the tables alone."""
    of_replicas = []
    erasures = run.table("erasures")
    for replica in range(2):
        lost = {}
        for row in erasures[erasures["replica"] == replica].itertuples():
            key = row.round, row.user, row.base, row.arrived_s
            lost[key] = lost.get(key, 0.0) + 1.0 / row.parts
        of_replicas.append(sum(lost.values()) / (run.deliveries["replica"] == replica).sum())
    return sum(of_replicas) / 2


def test_the_share_of_lost_parts_is_that_of_the_table(run):
    expected = lost_share(run)
    assert 0.0 < expected < 1.0
    assert run.summary["parts_lost_share"] == pytest.approx(expected, rel=1e-12)
    assert RunData(run).lost_share == pytest.approx(expected, rel=1e-12)


def test_the_terminal_and_the_report_name_the_codec_and_the_share(run):
    share = f"{100 * lost_share(run):.1f}"
    console = Console(file=io.StringIO(), width=120)
    show_run(run, console)
    terminal = console.file.getvalue()
    shown = re.search("parts lost of delivered updates +([0-9.]+)", terminal)[1]  # as precise as its interval allows
    assert float(shown) == pytest.approx(float(share), abs=0.5)
    sentences = " ".join(summary_text.run_summary(RunData(run)))
    assert f"lack {share} % of their parts" in sentences.replace("\u00a0", " ")
    for text in (terminal, sentences):
        assert "Encoded: updates by qsgd (bits_per_parameter: 4), " in text


def test_the_report_says_if_no_part_was_lost(run, monkeypatch):
    monkeypatch.setattr(RunData, "lost_share", 0.0)
    assert "All delivered updates arrived whole." in summary_text.run_summary(RunData(run))


def test_the_codec_is_billed_as_it_is_stated(run):
    """A logistic model of two features and two classes has 6 parameters: 32 bits for the norm, 4 for each."""
    assert "56 bits (29.2 % of 192)" in run.manifest["codecs"]


def test_a_run_without_parts_states_neither(tmp_path):
    values = {name: value for name, value in SCENARIO.items() if name not in {"codec", "access", "replicas"}}
    values["access"] = {"kind": "bernoulli", "probability": 0.5}
    run = netfl.run(netfl.load(values), tmp_path / "run", device="cpu", progress=False)
    assert "parts_lost_share" not in run.summary
    assert "codecs" not in run.manifest
    assert RunData(run).lost_share is None
