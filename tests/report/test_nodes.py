"""The words of reports on runs in which other nodes than the server merge."""

import html
import re

import pytest
from support.merging_accesses import Asynchronous, Edges, Everyone

import netfl
from netfl import report
from netfl.report.run_data import read_run_data
from netfl.report.summary_text import run_facts


def trace(folder, access):
    scenario = netfl.Scenario(name="nodes", users=6, rounds=9, replicas=2, access=access)
    return netfl.trace(scenario, folder / "run", progress=False)


def words_of(run):
    """Return the text of the report of a run, with single blanks."""
    text = re.sub(r"<(script|style|svg).*?</\1>|<[^>]+>", " ", report.write(run).read_text("utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(text).split())


def test_report_counts_the_merges_of_other_nodes(tmp_path):
    run = trace(tmp_path, Edges(edges=2, edge_rounds=3))
    assert run_facts(read_run_data(run)) == "6 users · 2 nodes below the server · 9 rounds · 2 replicas · seed 0"
    # 2 replicas, 9 rounds, 2 edges; an edge merges the server's model, and three times its users
    counts = (
        "2 nodes below the server merged 144 times: updates 108 times, models 36 times. The server merged 18 times."
    )
    words = words_of(run)
    assert counts in words
    assert "100 % reached the server or another node in time and were aggregated" in words
    assert "No base was older than the server's version when their round opened." in words
    assert "All of them started from the version that opened their round" not in words


def test_merges_of_the_server_are_unknown_without_the_rounds(tmp_path):
    run = trace(tmp_path, Edges(edges=2))
    (run.folder / "rounds.parquet").write_bytes(b"?")
    words = words_of(netfl.open_run(run.folder))
    assert "2 nodes below the server merged 72 times: updates 36 times, models 36 times." in words
    assert "The server merged" not in words


def test_report_of_older_bases_counts_rounds_of_the_server(tmp_path):
    words = words_of(trace(tmp_path, Asynchronous()))
    assert "Right: rounds by which the base was older than the server's version when their round opened." in words


@pytest.mark.parametrize("lost", ["merges", "merged_updates"])
def test_report_without_a_table_of_merges_is_written(tmp_path, lost):
    run = trace(tmp_path, Edges(edges=2))
    (run.folder / f"{lost}.parquet").write_bytes(b"?")
    words = words_of(netfl.open_run(run.folder))
    assert "cannot be read" in words


def test_report_of_a_server_alone_names_no_nodes(tmp_path):
    run = trace(tmp_path, Everyone())
    words = words_of(run)
    assert "below the server" not in words
    assert "100 % reached the server in time and were aggregated" in words
