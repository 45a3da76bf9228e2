"""The speed of the network: queues compared with plain SimPy and ns.py, 802.11 stations, large and moving populations.

    python benchmarks/network.py [--packets 1000000] [--turns 5] [--ns-py PYTHON]
        [--only queues|stations|bands|users|association|satellites|lorawan|waypoint|polling|setup|towers]

The last five are the rows of one table, measured once each, and any of them can be selected.  All times are processor
time.  The sides of a comparison take turns, and medians are compared, so that other load on the machine affects all of
them.  ns.py is not a dependency: ``--ns-py`` names the interpreter of an environment with ns.py; without it, that side
is left out.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from unittest.mock import patch

import numpy as np
from queues import CASES, SIDES, seconds
from rich.console import Console
from rich.table import Table

import netfl
from netfl.access import Access
from netfl.access._open_network import OpenNetwork
from netfl.access.network import NetworkAccess
from netfl.network.backhaul import traffic_sources
from netfl.network.orbits import Orbits
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
SETUP_BAR_S = 2.0
BAND_USERS, BAND_SPAN_S, BAND_BAR = 1000, 30.0, 3.0
BAND_MACS = ({"kind": "round_robin"}, {"kind": "fdma"}, {"kind": "fdma", "division": "need"})
ROAMING_USERS, ROAMING_ROUNDS, ROAMING_BAR = 100_000, 3, 20.0
SATELLITES, DAY_S, SATELLITES_BAR_S = 66, 86_400.0, 30.0
NS_PY_BAR, REAL_TIME_BAR, WALL_BAR_S, MEMORY_BAR_MB = 2.0, 100.0, 60.0, 2000.0


def make_context(users: int, duration_s: float) -> AccessContext:
    """Return the context of a simulation without recording."""
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
    """Return a chain of equal links on which a packet takes 1 s on average."""
    load, hops, capacity = CASES[case]
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
            "queue": {"kind": "drop_tail", "capacity": capacity},
        }
    )


def own_seconds(case: str, side: str, packets: int) -> float:
    """Return the processor time of netfl for a case, including the set-up."""
    access, context = queue(case), make_context(1, packets / CASES[case][0])
    can_batch = traffic_sources.can_batch if side == OWN[0] else lambda *args: False
    with patch.object(traffic_sources, "can_batch", can_batch):
        begin = time.process_time()
        for _ in access.rounds(context):
            pass
        return time.process_time() - begin


def other_seconds(case: str, side: str, packets: int, ns_py: str) -> float:
    """Return the processor time of another simulator for a case."""
    if side != "ns.py":
        return seconds(case, side, packets)
    command = [ns_py, str(HERE / "queues.py"), case, side, str(packets)]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def queues(packets: int, turns: int, ns_py: str) -> Table:
    """Return the table of packets per second of processor time, for each side of each case."""
    table = Table("queue", "side", "packets per CPU second", "over SimPy", "over ns.py", "bar")
    others = [side for side in SIDES if side != "ns.py" or ns_py]
    for case in CASES:
        spent: dict[str, list[float]] = {side: [] for side in (*OWN, *others)}
        for _ in range(turns):
            for side in OWN:
                spent[side].append(own_seconds(case, side, packets))
            for side in others:
                spent[side].append(other_seconds(case, side, packets, ns_py))
        pace = {side: packets / statistics.median(times) for side, times in spent.items()}
        for side, rate in pace.items():
            over = f"{rate / pace['ns.py']:.1f}" if ns_py else "not measured"
            bar = judged(rate / pace["ns.py"] >= NS_PY_BAR) if ns_py and side == OWN[0] else ""
            table.add_row(case, side, f"{rate:,.0f}", f"{rate / pace['SimPy, a Store']:.1f}", over, bar)
        table.add_section()
    return table


def stations(turns: int) -> Table:
    """Return the table of saturated 802.11 stations: speed relative to real time, and cost of a channel event."""
    table = Table("standard", "stations", "times real time", "us per channel event", "bar")
    for standard in ("802.11a", "802.11b"):
        spent: dict[int, list[float]] = {users: [] for users in STATIONS}
        for _ in range(turns):
            for users, times in spent.items():
                times.append(wifi_seconds(standard, users))
        for users, times in spent.items():
            median_s = statistics.median(times)
            verdict = judged(SPAN_S / median_s >= REAL_TIME_BAR) if users == STATIONS_OF_BAR else ""
            cost = f"{1e6 * median_s / events(standard, users):.1f}"
            table.add_row(standard, str(users), f"{SPAN_S / median_s:.0f}", cost, verdict)
        table.add_section()
    return table


def wifi_seconds(standard: str, users: int) -> float:
    """Return the processor time of saturated stations, without the set-up."""
    settings = {
        "topology": {"kind": "star", "distance": 10.0},
        "mac": {"kind": "csma_ca", "standard": standard},
        "traffic": {"kind": "saturated", "size": {"mean": 12000.0}, "destination": "tower"},
    }
    windows = NetworkAccess.model_validate(settings).rounds(make_context(users, SPAN_S))
    next(windows)
    begin = time.process_time()
    for _ in windows:
        pass
    return time.process_time() - begin


def events(standard: str, users: int) -> int:
    """Return the number of attempts of stations."""
    with patch.object(Cell, "attempt", autospec=True, side_effect=Cell.attempt) as attempts:
        wifi_seconds(standard, users)
    return attempts.call_count


def bands(turns: int) -> Table:
    """Return the table of a delivery of 1,000 users that share a band, beside one of users that are polled in turn."""
    table = Table("reception", "MAC", "us per delivery", "over round_robin", "bar")
    receptions = ({"kind": "snr_threshold", "threshold": "3 dB", "rate": "6 Mbps"}, {"kind": "shannon"})
    for reception in receptions:
        costs: list[list[float]] = [[] for _ in BAND_MACS]
        for _ in range(turns):
            for mac, values in zip(BAND_MACS, costs, strict=True):
                values.append(delivery_seconds(mac, reception))
        medians = [statistics.median(values) for values in costs]
        for mac, median_s in zip(BAND_MACS, medians, strict=True):
            ratio = median_s / medians[0]
            verdict = judged(ratio <= BAND_BAR) if mac["kind"] == "fdma" else ""
            name = " ".join(mac.values())
            table.add_row(reception["kind"], name, f"{1e6 * median_s:.0f}", f"{ratio:.2f}", verdict)
        table.add_section()
    return table


def delivery_seconds(mac: dict[str, Any], reception: dict[str, Any]) -> float:
    """Return the processor time of a delivery, without the set-up: users with 0.2 packets per second each."""
    settings = walkers(mac, 0.2) | {"reception": reception, "unreachable": "keep"}
    del settings["motion"]
    windows = NetworkAccess.model_validate(settings).rounds(make_context(BAND_USERS, BAND_SPAN_S))
    next(windows)
    begin = time.process_time()
    bits = sum(window.uplink_bits for window in windows)
    return (time.process_time() - begin) / (bits / 8000.0)


def many_users() -> None:
    """Run the scenario of a hundred thousand users in this process and print its cost."""
    begin, begin_wall = time.process_time(), time.perf_counter()
    scenario = netfl.load(HERE / "many_users.yaml")
    rounds = [*scenario.access.rounds(prepare_run(scenario, learning=False).contexts[0])]
    deliveries = sum(len(round_.deliveries) for round_ in rounds)
    spent = time.process_time() - begin, time.perf_counter() - begin_wall
    print(len(rounds), deliveries, *spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0)


def users() -> Table:
    """Return the cost of the scenario of a hundred thousand users, measured in a separate process."""
    table = Table("users", "rounds", "deliveries", "CPU s", "wall s", "peak memory, MB", "bar")
    command = [sys.executable, str(Path(__file__)), "--only", "many"]
    values = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    cpu_s, wall_s, memory_mb = map(float, values[2:])
    verdict = judged(wall_s < WALL_BAR_S and memory_mb < MEMORY_BAR_MB)
    table.add_row("100000", values[0], values[1], f"{cpu_s:.1f}", f"{wall_s:.1f}", f"{memory_mb:.0f}", verdict)
    return table


def association() -> Table:
    """Return the cost of vehicles among 100 towers that look for the strongest of the nearest 7 every 10 s.

    Each moves to it at once; a thousand of them deliver in each round.
    """
    settings = {
        "topology": {"kind": "grid", "rows": 10, "columns": 10, "spacing": "1 km"},
        "motion": {"kind": "random_waypoint", "width": "10 km", "height": "10 km", "speed": [10, 20]},
        "association": {"kind": "strongest", "every": "10 s", "moves": "any_time"},
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "channel": [
            {"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"},
            {"kind": "lognormal_shadowing", "sigma": "6 dB"},
        ],
        "reception": {"kind": "snr_threshold", "threshold": "-7.5 dB", "rate": "50 kbps"},
        "mac": {"kind": "slotted_aloha", "probability": 0.1},
        "compute": {"speed": 1, "samples": 10},
        "broadcast_rate": "100 kbps",
        "update_size": "1 kB",
        "round": {"kind": "first", "m": 1000, "deadline": "60 s"},
        "selection": {"kind": "uniform", "m": 1000},
        "unreachable": "keep",
    }
    context = replace(make_context(ROAMING_USERS, 0.0), rounds=ROAMING_ROUNDS, duration_s=None)
    begin = time.process_time()
    opened = NetworkAccess.model_validate(settings).open(context)
    opened_s = time.process_time() - begin
    simulated_s = [opened.next_round(None).closed_s for _ in range(ROAMING_ROUNDS)][-1]
    spent_s = time.process_time() - begin - opened_s
    network = cast(OpenNetwork, opened).network
    pace = simulated_s / spent_s
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0

    table = Table("users", "simulated", "handovers", "set-up, CPU s", "rounds, CPU s", "times real time", "MB", "bar")
    table.add_row(
        str(ROAMING_USERS),
        f"{simulated_s:.0f} s",
        str(network.membership.moved),
        f"{opened_s:.1f}",
        f"{spent_s:.1f}",
        f"{pace:.1f}",
        f"{memory_mb:.0f}",
        judged(pace >= ROAMING_BAR),
    )
    return table


def satellites() -> Table:
    """Return the cost of a day of 66 satellites over three stations: their passes, the set-up, and the rounds."""
    constellation = {
        "satellites": SATELLITES,
        "planes": 6,
        "phasing": 2,
        "pattern": "star",
        "inclination": 86.4,
        "altitude": "781 km",
        "min_elevation": 10,
        "stations": [
            {"latitude": 78.2, "longitude": 15.4},
            {"latitude": 47.9, "longitude": 11.1},
            {"latitude": -33.2, "longitude": -70.7},
        ],
        "frequency": "2 GHz",
        "duration": "1 day",
        "every": "10 s",
    }
    with TemporaryDirectory() as folder:
        begin = time.process_time()
        orbits = Orbits.model_validate(constellation)
        passes = orbits.passes()
        windows, gains = orbits.write(Path(folder), passes)
        passes_s = time.process_time() - begin
        settings = {
            "topology": {"kind": "tree", "fanout": [3], "ring": "1000 km", "radius": "1 km", "rate": "100 Mbps"},
            "association": {"kind": "windows", "file": str(windows)},
            "radio": {
                "power": "33 dBm",
                "tower": {"antenna_gain": "25 dB"},
                "bandwidth": "1 MHz",
                "noise_figure": "3 dB",
            },
            "channel": [{"kind": "trace", "file": str(gains)}],
            "reception": {"kind": "shannon", "rate": "1 Mbps"},
            "mac": "round_robin",
            "compute": {"speed": 20, "samples": 100},
            "broadcast_rate": "1 Mbps",
            "update_size": "1 MB",
            "round": {"kind": "first", "m": SATELLITES, "deadline": "1 min", "losses": "unknown"},
        }
        context = replace(make_context(SATELLITES, 0.0), rounds=int(DAY_S / 60.0), duration_s=None)
        rounds = [*NetworkAccess.model_validate(settings).rounds(context)]
        spent_s = time.process_time() - begin
    deliveries = sum(len(round_.deliveries) for round_ in rounds)

    table = Table("satellites", "simulated", "passes", "deliveries", "passes, CPU s", "all, CPU s", "bar")
    table.add_row(
        str(SATELLITES),
        f"{rounds[-1].closed_s / 3600.0:.1f} h",
        str(len(passes)),
        str(deliveries),
        f"{passes_s:.1f}",
        f"{spent_s:.1f}",
        judged(spent_s < SATELLITES_BAR_S),
    )
    return table


def lorawan() -> tuple[dict[str, Any], int, float]:
    """Return a cell of 1,000 LoRaWAN users for a day, with SINR; each has one uplink in ten minutes."""
    settings = {
        "topology": {"kind": "star", "radius": "3 km"},
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "channel": [
            {"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"},
            {"kind": "rayleigh", "coherence": "1 s"},
        ],
        "reception": "lora",
        "interference": "sinr",
        "mac": {"kind": "lorawan", "max_attempts": 1},
        "traffic": {"kind": "poisson", "rate": 1.0 / 600.0, "size": {"mean": "20 B"}, "destination": "tower"},
    }
    return settings, 1000, 86_400.0


def waypoint() -> tuple[dict[str, Any], int, float]:
    """Return 200 walking users for half a day, each with one uplink in ten minutes, about four legs later."""
    return walkers({"kind": "pure_aloha", "backoff": "1 s"}, 1.0 / 600.0), 200, 43_200.0


def polling() -> tuple[dict[str, Any], int, float]:
    """Return 100 walking users that are polled, so that each leg has many frames."""
    return walkers({"kind": "tdma"}, 1.0), 100, 300.0


def walkers(mac: dict[str, Any], rate_hz: float) -> dict[str, Any]:
    """Return a cell of walking users, whose place is asked for at each frame."""
    return {
        "topology": {"kind": "star", "radius": "250 m"},
        "motion": {"kind": "random_waypoint", "radius": "250 m", "speed": [1, 3], "pause": [0, "1 min"]},
        "radio": {"power": "23 dBm", "bandwidth": "20 MHz", "noise_figure": "6 dB"},
        "channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "2.4 GHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "3 dB", "rate": "6 Mbps"},
        "mac": mac,
        "traffic": {"kind": "poisson", "rate": rate_hz, "size": {"mean": "1 kB"}, "destination": "tower"},
    }


def setup() -> tuple[dict[str, Any], int, float]:
    """Return a cell of 100,000 users that send next to nothing, so that its cost is that of the set-up."""
    settings = {
        "topology": {"kind": "star", "distance": "10 m"},
        "mac": {"kind": "pure_aloha", "backoff": "1 min"},
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "channel": [{"kind": "constant", "gain": "-80 dB"}],
        "reception": {"kind": "snr_threshold", "threshold": "-7.5 dB", "rate": "100 kbps"},
        "traffic": {"kind": "poisson", "rate": 1e-5, "size": {"mean": "125 B"}, "destination": "tower"},
    }
    return settings, 100_000, 1.0


def towers() -> tuple[dict[str, Any], int, float]:
    """Return 100 towers on a lattice with 2,000 users on one frequency."""
    settings = {
        "topology": {"kind": "grid", "rows": 10, "columns": 10, "spacing": "1 km"},
        "shared_air": True,
        "interference": "sinr",
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "-7.5 dB", "rate": "50 kbps"},
        "mac": {"kind": "slotted_aloha", "probability": 0.1, "max_attempts": 8},
        "traffic": {"kind": "poisson", "rate": 0.02, "size": {"mean": "125 B"}},
    }
    return settings, 2000, 300.0


CELLS = {
    "lorawan": ("LoRaWAN with SINR, one uplink in 10 min", lorawan),
    "waypoint": ("random waypoint, one uplink in 10 min", waypoint),
    "polling": ("random waypoint, polled", polling),
    "setup": ("set-up of traffic", setup),
    "towers": ("100 towers on one frequency", towers),
}


def cells(names: Sequence[str]) -> Table:
    """Return the table of cells of traffic: processor time from the settings on, the set-up included."""
    table = Table("case", "users", "simulated", "frames", "CPU s", "us per frame", "bar")
    for name in names:
        title, build = CELLS[name]
        settings, users, duration_s = build()
        begin = time.process_time()
        access = NetworkAccess.model_validate(settings)
        bits = sum(window.uplink_bits for window in access.rounds(make_context(users, duration_s)))
        spent_s = time.process_time() - begin
        frames = bits / access.traffic[0].size.mean
        cost = f"{1e6 * spent_s / frames:.0f}" if frames > users else ""
        verdict = judged(spent_s < SETUP_BAR_S) if name == "setup" else ""
        table.add_row(title, str(users), f"{duration_s:g} s", f"{frames:.0f}", f"{spent_s:.2f}", cost, verdict)
    return table


def judged(good: bool) -> str:
    """Return whether a bar is met, as text."""
    return "met" if good else "MISSED"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only",
        choices=["queues", "stations", "bands", "users", "many", "association", "satellites", *CELLS],
        help="one table alone",
    )
    parser.add_argument("--packets", type=int, default=1_000_000, help="packets of each side in each turn")
    parser.add_argument("--turns", type=int, default=5, help="number of turns of each side")
    parser.add_argument("--ns-py", default="", help="the python of an environment in which ns.py is installed")
    options = parser.parse_args()
    if options.only == "many":
        many_users()
        return
    console = Console(width=110)
    if options.only in {None, "queues"}:
        console.print(queues(options.packets, options.turns, options.ns_py))
    if options.only in {None, "stations"}:
        console.print(stations(options.turns))
    if options.only in {None, "bands"}:
        console.print(bands(options.turns))
    if options.only in {None, "users"}:
        console.print(users())
    if options.only in {None, "association"}:
        console.print(association())
    if options.only in {None, "satellites"}:
        console.print(satellites())
    if options.only is None:
        console.print(cells([*CELLS]))
    elif options.only in CELLS:
        console.print(cells([options.only]))


if __name__ == "__main__":
    main()
