"""The benchmark for GPUs runs to its end on a CPU, and writes its results into the page."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/speed.md"


def run_benchmark(*arguments):
    """Run the program; return what it printed."""
    command = [sys.executable, "benchmarks/gpu.py", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.thorough
def test_the_benchmark_checks_and_times_both_models(tmp_path):
    out = tmp_path / "results" / "gpu.json"
    printed = run_benchmark("--device", "cpu", "--quick", "--out", out)
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["draws_are_equal"]
    for precision in ("float64", "float32"):
        assert result["distances"][precision]["CNN of Table 1"] == {"scaffold": 0.0}
    timings = [(entry["workload"], entry["lanes"]) for entry in result["timings"]]
    assert timings == [(name, lanes) for name in ("MLP 784-128-128-10", "CNN of Table 1") for lanes in (1, 2)]
    assert all(entry["lane_steps_per_s"] > 0 for entry in result["timings"])
    hours = result["timings"][2]["table_1_hours"]
    assert hours == pytest.approx(192e6 / result["timings"][2]["lane_steps_per_s"] / 3600)
    assert f"| {hours:.2f} |" in printed
    (recording,) = result["recordings"]
    assert (recording["model"], recording["is_recorded"], recording["distance"]) == ("fedau grey", True, 0.0)
    assert min(recording[key] for key in ("plain_ms", "direct_ms", "recording_s", "replayed_ms", "lane_ms")) > 0
    assert [(found["rule"], found["lanes"]) for found in result["aggregation"]] == [("scaffold", 1), ("scaffold", 2)]
    assert min(found["round_ms"] for found in result["aggregation"]) > 0


MADE_UP = {
    "device": "Made-up GPU",
    "torch": "9.9",
    "precision": "tf32",
    "draws_are_equal": True,
    "distances": {"float64": {"MLP": {"average": 1e-15}}, "tf32": {"MLP": {"average": 0.0, "afl": 0.0123}}},
    "timings": [
        {
            "workload": "MLP", "lanes": 1000, "lane_steps_per_s": 123456.7, "tflops": 1.5, "utilisation": None,
            "memory_gb": 2.25, "table_1_hours": None,
        }
    ],
    "recordings": [
        {
            "model": "lstm", "is_recorded": False, "distance": 0.00012, "plain_ms": 1.25, "direct_ms": 30.5,
            "recording_s": 2.5, "replayed_ms": 3.25, "lanes": 32, "lane_ms": 0.125,
        }
    ],
    "aggregation": [
        {"rule": "afl", "lanes": 1, "round_ms": 2.0},
        {"rule": "afl", "lanes": 100, "round_ms": 12.34},
    ],
}  # fmt: skip


@pytest.mark.slow
def test_stored_results_are_written_into_the_page(tmp_path):
    page, out = tmp_path / "speed.md", tmp_path / "gpu.json"
    shutil.copy(PAGE, page)
    run_benchmark("--page", page, "--out", tmp_path / "missing.json")
    without = page.read_text(encoding="utf-8")
    assert "No GPU has measured this yet." in without
    out.write_text(json.dumps(MADE_UP), encoding="utf-8")
    run_benchmark("--page", page, "--out", out)
    text = page.read_text(encoding="utf-8")
    assert "No GPU has measured" not in text
    assert "Measured on Made-up GPU with torch 9.9, in tf32. The mini-batches equal those of the CPU." in text
    assert "relative to their change in four rounds, is 1e-15 in float64 and 0.012 in tf32." in text
    assert "| MLP | 1000 | 123,457 | 1.500 |  | 2.25 |  |" in text
    assert "| lstm | no | 1.2e-04 | 1.25 | 30.50 | 3.25 | 0.125 (32) | 2.50 |" in text
    assert "| aggregation | 1 lane | 100 lanes |\n|---|---|---|\n| `afl` | 2.0 | 12.3 |" in text
    run_benchmark("--page", page, "--out", tmp_path / "missing.json")
    assert page.read_text(encoding="utf-8") == without


@pytest.mark.slow
def test_the_page_has_the_stored_results(tmp_path):
    page = tmp_path / "speed.md"
    shutil.copy(PAGE, page)
    run_benchmark("--page", page)
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
