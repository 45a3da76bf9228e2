"""Write the files of scenarios/networks/vehicles.yaml: a map of gains in a grid of streets, and the ways of cars in it.

python analysis/street_files.py scenarios/files
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

BLOCK_M = 120
"""Distance between the middles of two parallel streets."""
SIDE_M = 480
"""Half the side of the map; the tower stands at the crossing in its middle."""
STEP_M = 20
WAVELENGTH_M = 0.0508
"""Wavelength at 5.9 GHz, the band of intelligent transport systems."""
CARS, END_S, EVERY_S = 12, 300, 5


def gain_db(x_m: int, y_m: int) -> float:
    """Return free space along the tower's two streets, and 12 dB and 10 dB per decade less behind corners."""
    distance_m = max(np.hypot(x_m, y_m), 10.0)
    free_space_db = -20.0 * np.log10(4.0 * np.pi * distance_m / WAVELENGTH_M)
    if min(abs(x_m), abs(y_m)) <= STEP_M / 2:
        return float(free_space_db)
    return float(free_space_db - 12.0 - 10.0 * np.log10(distance_m / 10.0))


def map_lines() -> list[str]:
    """Return the lines of the map."""
    lines = ["x_m,y_m,gain_db"]
    for x_m in range(-SIDE_M, SIDE_M + 1, STEP_M):
        lines += [f"{x_m},{y_m},{gain_db(x_m, y_m):.1f}" for y_m in range(-SIDE_M, SIDE_M + 1, STEP_M)]
    return lines


def way(rng: np.random.Generator) -> list[tuple[float, float, float]]:
    """Return x, y and speed of a car at each step: at a crossing it turns at random, and it stays on the map."""
    place = rng.integers(-3, 4, 2) * float(BLOCK_M)
    heading = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)][rng.integers(4)], float)
    points = []
    left_m = 0.0
    for _ in range(0, END_S + 1, EVERY_S):
        speed_m_s = rng.uniform(8.0, 14.0)
        points.append((place[0], place[1], speed_m_s))
        way_m = speed_m_s * EVERY_S
        while way_m > 0.0:
            if left_m == 0.0:  # at a crossing
                place = np.round(place)
                turns = [heading, np.array([-heading[1], heading[0]]), np.array([heading[1], -heading[0]])]
                open_turns = [turn for turn in turns if np.abs(place + BLOCK_M * turn).max() < SIDE_M]
                heading = open_turns[rng.integers(len(open_turns))]
                left_m = float(BLOCK_M)
            drive_m = min(way_m, left_m)
            place = place + drive_m * heading
            way_m -= drive_m
            left_m -= drive_m
    return points


def fcd_lines() -> list[str]:
    """Return the lines of the ways, as sumo --fcd-output with the attributes x, y and speed writes them."""
    rng = np.random.default_rng(1)
    ways = [way(rng) for _ in range(CARS)]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<fcd-export>"]
    for step, time_s in enumerate(range(0, END_S + 1, EVERY_S)):
        lines.append(f'<timestep time="{time_s:.2f}">')
        for car, points in enumerate(ways):
            x_m, y_m, speed_m_s = points[step]
            lines.append(f'<vehicle id="car.{car}" x="{x_m:.2f}" y="{y_m:.2f}" speed="{speed_m_s:.2f}"/>')
        lines.append("</timestep>")
    return [*lines, "</fcd-export>"]


def main() -> None:
    """Write both files into the folder that the command names."""
    folder = Path(sys.argv[1])
    (folder / "street_map.csv").write_text("\n".join(map_lines()) + "\n")
    (folder / "street.fcd.xml").write_text("\n".join(fcd_lines()) + "\n")


if __name__ == "__main__":
    main()
