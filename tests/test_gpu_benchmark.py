"""The benchmark for GPUs runs to its end on a CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_benchmark_checks_and_times_both_models(tmp_path):
    out = tmp_path / "results" / "gpu.json"
    command = [sys.executable, "benchmarks/gpu.py", "--device", "cpu", "--quick", "--out", out]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    printed = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["draws_are_equal"]
    assert result["distances"]["CNN of Table 1"] == {"average": 0.0, "scaffold": 0.0}
    timings = [(entry["workload"], entry["lanes"]) for entry in result["timings"]]
    assert timings == [(name, lanes) for name in ("MLP 784-128-128-10", "CNN of Table 1") for lanes in (1, 2)]
    assert all(entry["lane_steps_per_s"] > 0 for entry in result["timings"])
    hours = result["timings"][2]["table_1_hours"]
    assert hours == pytest.approx(192e6 / result["timings"][2]["lane_steps_per_s"] / 3600)
    assert f"| {hours:.2f} |" in printed
