"""Write the trace of scenarios/setups/availability_sampling.yaml: when each of 100 phones is charged and idle.

The trace is made up: intervals have Weibull lengths, are longer and more frequent at night, and each phone has a length
of its own, so that some are available for a tenth of the time and others for most of it.

python analysis/phone_trace.py scenarios/files/phones.csv
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

PHONES, DAYS = 100, 4
DAY_S = 86_400
HOUR_S = 3_600
SHAPE = 0.8
"""Shape of the Weibull distributions: below 1, many intervals are short and a few very long."""
AVAILABLE_S = {"day": 900, "night": 5_400}
AWAY_S = {"day": 14_400, "night": 3_600}
SPREAD = 1.0
"""Standard deviation of the logarithm of a phone's factor on the lengths of its intervals."""


def intervals(rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return the start and the end of each interval, in seconds, in which one phone is available."""
    factor = rng.lognormal(0.0, SPREAD)
    time_s = rng.uniform(0.0, HOUR_S)
    found = []
    while time_s < DAYS * DAY_S:
        time = "day" if 8 * HOUR_S <= time_s % DAY_S < 20 * HOUR_S else "night"
        end_s = time_s + 1.0 + factor * AVAILABLE_S[time] * rng.weibull(SHAPE)
        found.append((round(time_s), min(round(end_s), DAYS * DAY_S)))
        time_s = end_s + 1.0 + AWAY_S[time] * rng.weibull(SHAPE)
    return [(start, end) for start, end in found if end > start]


def trace_lines() -> list[str]:
    """Return the lines of the file."""
    rng = np.random.default_rng(3)
    rows = [f"{phone},{start},{end}" for phone in range(PHONES) for start, end in intervals(rng)]
    return ["user,start,end", *rows]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(trace_lines()) + "\n", encoding="utf-8")
