"""How fast the network is: queues beside plain SimPy and ns.py, 802.11 stations, a hundred thousand users.

    python benchmarks/network.py [--only queues|stations|users] [--packets 1000000] [--turns 5] [--ns-py PYTHON]

All times are processor time.  The sides of a comparison take turns, and medians are compared, so that another load on
the machine meets all of them.  ns.py is no dependency: ``--ns-py`` names the interpreter of an environment in which it
is installed; without it, that side is left out.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
from queues import CASES, SIDES, seconds
from rich.console import Console
from rich.table import Table

import netfl
from netfl.access import Access
from netfl.access.network import NetworkAccess
from netfl.network.backhaul import traffic_sources
from netfl.network.radio.cell import Cell
from netfl.simulation.setup import prepare_run
from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder

HERE = Path(__file__).resolve().parent
OWN = ("netfl, in batches", "netfl, by events")
STATIONS = (10, 50, 100, 300, 1000)
STATIONS_OF_BAR = 50
SPAN_S = 10.0
WINDOWS = 100
NS_PY_BAR, REAL_TIME_BAR, WALL_BAR_S, MEMORY_BAR_MB = 2.0, 100.0, 60.0, 2000.0


def setting(users: int, duration_s: float) -> AccessContext:
    """Traffic alone, of which nothing is recorded."""
    return AccessContext(
        users=users,
        rounds=WINDOWS,
        replica=0,
        streams=Streams(1),
        samples=np.ones(users),
        uplink_bits=0.0,
        downlink_bits=0.0,
        recorder=NullRecorder(),
        duration_s=duration_s,
    )


def queue(case: str) -> Access:
    """A chain of equal links on which a packet takes 1 s in the mean."""
    load, hops, room = CASES[case]
    names = ["tower:0", *(f"router:{index}" for index in range(hops - 1)), "server"]
    nodes = {name: {"role": name.partition(":")[0], "position": [0, 0]} for name in names}
    links = [{"between": list(pair), "rate": 1000.0, "delay": 0.0} for pair in pairwise(names)]
    size = {"distribution": "exponential", "mean": 1000.0}
    return NetworkAccess.model_validate(
        {
            "topology": {
                "kind": "inline",
                "nodes": nodes,
                "links": links,
                "placement": {"kind": "disk", "radius": 1.0},
            },
            "traffic": {"kind": "poisson", "rate": load, "size": size, "source": "towers"},
            "queue": {"kind": "drop_tail", "capacity": room},
        }
    )


def own_seconds(case: str, side: str, packets: int) -> float:
    """The processor time that netfl takes for a case, the building of the world included."""
    access, told = queue(case), setting(1, packets / CASES[case][0])
    can_batch = traffic_sources.can_batch if side == OWN[0] else lambda *told: False
    with patch.object(traffic_sources, "can_batch", can_batch):
        begin = time.process_time()
        for _ in access.rounds(told):
            pass
        return time.process_time() - begin


def other_seconds(case: str, side: str, packets: int, ns_py: str) -> float:
    """The same of another side."""
    if side != "ns.py":
        return seconds(case, side, packets)
    command = [ns_py, str(HERE / "queues.py"), case, side, str(packets)]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def queues(packets: int, turns: int, ns_py: str) -> Table:
    """Packets per second of processor time, each side of each case."""
    table = Table("queue", "side", "packets per CPU second", "over SimPy", "over ns.py", "bar")
    others = [side for side in SIDES if side != "ns.py" or ns_py]
    for case in CASES:
        spent: dict[str, list[float]] = {side: [] for side in (*OWN, *others)}
        for _ in range(turns):
            for side in OWN:
                spent[side].append(own_seconds(case, side, packets))
            for side in others:
                spent[side].append(other_seconds(case, side, packets, ns_py))
        pace = {side: packets / statistics.median(each) for side, each in spent.items()}
        for side, each in pace.items():
            over = f"{each / pace['ns.py']:.1f}" if ns_py else "not there"
            bar = judged(each / pace["ns.py"] >= NS_PY_BAR) if ns_py and side == OWN[0] else ""
            table.add_row(case, side, f"{each:,.0f}", f"{each / pace['SimPy, a Store']:.1f}", over, bar)
        table.add_section()
    return table


def stations(turns: int) -> Table:
    """How much faster than real time saturated 802.11 stations run, and what an event on the channel costs."""
    table = Table("standard", "stations", "times real time", "us per channel event", "bar")
    for standard in ("802.11a", "802.11b"):
        spent: dict[int, list[float]] = {users: [] for users in STATIONS}
        for _ in range(turns):
            for users, each in spent.items():
                each.append(wifi_seconds(standard, users))
        for users, each in spent.items():
            median_s = statistics.median(each)
            verdict = judged(SPAN_S / median_s >= REAL_TIME_BAR) if users == STATIONS_OF_BAR else ""
            cost = f"{1e6 * median_s / events(standard, users):.1f}"
            table.add_row(standard, str(users), f"{SPAN_S / median_s:.0f}", cost, verdict)
        table.add_section()
    return table


def wifi_seconds(standard: str, users: int) -> float:
    """The processor time of saturated stations, once they stand."""
    said = {
        "topology": {"kind": "star", "distance": 10.0},
        "mac": {"kind": "csma_ca", "standard": standard},
        "traffic": {"kind": "saturated", "size": {"mean": 12000.0}, "destination": "tower"},
    }
    windows = NetworkAccess.model_validate(said).rounds(setting(users, SPAN_S))
    next(windows)
    begin = time.process_time()
    for _ in windows:
        pass
    return time.process_time() - begin


def events(standard: str, users: int) -> int:
    """How often somebody began to send meanwhile."""
    with patch.object(Cell, "attempt", autospec=True, side_effect=Cell.attempt) as attempts:
        wifi_seconds(standard, users)
    return attempts.call_count


def many_users() -> None:
    """Run the scenario of a hundred thousand users in this process, and print what it took."""
    begin, begin_wall = time.process_time(), time.perf_counter()
    scenario = netfl.load(HERE / "many_users.yaml")
    rounds = [*scenario.access.rounds(prepare_run(scenario, learning=False).contexts[0])]
    heard = sum(len(one.deliveries) for one in rounds)
    spent = time.process_time() - begin, time.perf_counter() - begin_wall
    print(len(rounds), heard, *spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0)


def users() -> Table:
    """What the scenario of a hundred thousand users takes, in a process of its own."""
    table = Table("users", "rounds", "deliveries", "CPU s", "wall s", "peak memory, MB", "bar")
    command = [sys.executable, str(Path(__file__)), "--only", "many"]
    told = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    cpu_s, wall_s, memory_mb = map(float, told[2:])
    verdict = judged(wall_s < WALL_BAR_S and memory_mb < MEMORY_BAR_MB)
    table.add_row("100000", told[0], told[1], f"{cpu_s:.1f}", f"{wall_s:.1f}", f"{memory_mb:.0f}", verdict)
    return table


def judged(good: bool) -> str:
    """Whether a bar is met."""
    return "met" if good else "MISSED"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["queues", "stations", "users", "many"], help="one table alone")
    parser.add_argument("--packets", type=int, default=1_000_000, help="packets of each side in each turn")
    parser.add_argument("--turns", type=int, default=5, help="how often the sides take turns")
    parser.add_argument("--ns-py", default="", help="the python of an environment in which ns.py is installed")
    told = parser.parse_args()
    if told.only == "many":
        many_users()
        return
    console = Console(width=110)
    if told.only in {None, "queues"}:
        console.print(queues(told.packets, told.turns, told.ns_py))
    if told.only in {None, "stations"}:
        console.print(stations(told.turns))
    if told.only in {None, "users"}:
        console.print(users())


if __name__ == "__main__":
    main()
