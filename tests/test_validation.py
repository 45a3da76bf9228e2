"""The network beside theory: every scenario of scenarios/validation, run and held to what the formula says of it.

Replicas are independent, so that (mean - theory) / (standard deviation / sqrt(n)) follows Student's t with n - 1
degrees of freedom; a comparison fails with probability `ALARM` if netfl is right, so that one seed in about thirty
would fail one of those below by chance.  Seeds are fixed.  Queues are also held, packet by packet, to a recursion
that is written here.
"""

import json
import sys
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import netfl
from netfl.errors import ScenarioError
from netfl.registry import base_of, kind_of, list_kinds
from netfl.streams import Streams

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "scenarios/validation"
ALARM = 1e-3

sys.path.insert(0, str(ROOT / "tests/network"))
from support.dcf_reference import SETUPS, simulate  # noqa: E402 - lies beside the tests of the network


@pytest.fixture
def traced(tmp_path):
    """``traced(name, {path: value})``: the figures of a scenario, ``{figure: array over replicas}``."""

    def run(name, changes=None):
        done = netfl.trace(netfl.load(FOLDER / f"{name}.yaml", changes), tmp_path / "run")
        table = done.final_metrics.pivot_table(index="replica", columns="metric", values="value")
        return {figure: table[figure].to_numpy() for figure in table}

    return run


def held(told, figure, theory):
    """Hold the mean over replicas to theory."""
    seen, wanted = told[figure], told[theory][0] if isinstance(theory, str) else theory
    spread = seen.std(ddof=1) / np.sqrt(len(seen))
    allowed = stats.t.ppf(1 - ALARM / 2, len(seen) - 1) * spread
    apart = abs(seen.mean() - wanted)
    assert apart <= allowed + 1e-9 * abs(wanted), f"{figure}: {seen.mean()} where theory says {wanted}"
    assert allowed < 0.35 * abs(wanted) + 0.02, f"{figure}: {allowed} is too wide to tell anything"


CASES = {
    "mm1": ({"duration": 60, "warmup": 5, "access.traffic.load": 0.6},
            {"delay_mean_s": "delay_theory_s", "delay_p95_s": "delay_p95_theory_s",
             "utilisation.tower:0-server": "utilisation_theory"}),
    "md1": ({"duration": 40, "warmup": 2}, {"delay_mean_s": "delay_theory_s"}),
    "mm1k": ({"duration": 30, "access.traffic.load": 1.2, "access.queue.capacity": 4},
             {"loss_ratio": "loss_ratio_theory", "delay_mean_s": "delay_theory_s",
              "utilisation.tower:0-server": "utilisation_theory"}),
    "slotted_aloha": ({"duration": 3, "warmup": 0},
                      {"throughput_bps": "throughput_theory_bps", "delay_mean_s": "delay_theory_s",
                       "collision_probability": "collision_probability_theory"}),
    "multichannel_aloha": ({"duration": 0.5, "warmup": 0},
                           {"throughput_bps": "throughput_theory_bps",
                            "collision_probability": "collision_probability_theory"}),
    "jakes": ({"duration": 3, "users": 8, "access.channel.1.sinusoids": 64},
              {"level_crossing_rate_hz": "level_crossing_rate_theory_hz", "fade_duration_s": "fade_duration_theory_s"}),
    "gilbert_elliott": ({"duration": 3},
                        {"loss_ratio": "loss_ratio_theory", "outage_probability": "outage_theory",
                         "level_crossing_rate_hz": "level_crossing_rate_theory_hz",
                         "fade_duration_s": "fade_duration_theory_s", "autocorrelation": "autocorrelation_theory"}),
    "availability": ({"duration": "3 day", "users": 30},
                     {"availability": "availability_theory", "up_mean_s": "up_mean_theory_s",
                      "down_mean_s": "down_mean_theory_s"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_the_model_agrees_with_theory(name, traced):
    changes, pairs = CASES[name]
    told = traced(name, changes | {"replicas": 10})
    for figure, theory in pairs.items():
        held(told, figure, theory)


@pytest.mark.parametrize("m", [0.5, 1, 1.5, 3])
@pytest.mark.slow
def test_outage_under_nakagami_fading(traced, m):
    changes = {"access.channel.1.m": m, "access.topology.distance": "120 m", "duration": 1, "replicas": 10}
    told = traced("nakagami_outage", changes)
    assert told["attempts"].min() >= 999  # a slot of 1 ms each; the last ends with the run
    held(told, "outage_probability", "outage_theory")


@pytest.mark.parametrize(
    "law",
    [
        {"distribution": "fixed"},
        {"distribution": "weibull", "shape": 0.7},
        {"distribution": "lognormal", "sigma": 1},
        {"distribution": "pareto", "shape": 3},
    ],
    ids=lambda law: law["distribution"],
)
@pytest.mark.slow
def test_availability_whatever_the_laws(traced, law):
    outage = "access.outages.0"
    laws = {f"{outage}.up": law | {"mean": "50 min"}, f"{outage}.down": law | {"mean": "10 min"}}
    told = traced("availability", laws | {"duration": "2 day", "users": 40, "replicas": 8})
    held(told, "availability", 5 / 6)


def test_an_acoustic_link(traced):
    told = traced("underwater_link", {"duration": 600})
    assert told["delay_mean_s"] == pytest.approx(1500 / 1500 + 800 / 5000, rel=1e-9)
    assert told["delay_mean_s"] == pytest.approx(told["delay_theory_s"], rel=1e-9)
    assert told["snr_mean_db"] == pytest.approx(told["snr_theory_db"], abs=0.1)


def packets(name, duration_s, link_bps):
    """The very packets that enter at the tower: when, and their sizes in bits."""
    scenario = netfl.load(FOLDER / f"{name}.yaml")
    (traffic,) = scenario.access.traffic
    streams = Streams(scenario.seed).at("replica", 0).at("access").at("traffic", 0, kind_of(type(traffic)))
    tower = scenario.access.topology.open(scenario.users, streams).number("tower:0")
    born_s, bits = [], []
    for times, sizes in traffic.blocks(tower, link_bps, streams):
        born_s += times.tolist()
        bits += sizes.tolist()
        if times[-1] > duration_s:
            return [pair for pair in zip(born_s, bits, strict=True) if pair[0] <= duration_s]
    return []


def recursion(arrivals, links_bps, room, duration_s):
    """Delays of what has arrived by the end, and how many have been turned away by then, one event after the other."""
    ports = [deque() for _ in links_bps]
    events = sorted((born_s, 0, number) for number, (born_s, _) in enumerate(arrivals))
    delays_s, lost = [], 0
    for hop, link_bps in enumerate(links_bps):
        following = []
        for now_s, _, number in events:
            held_until_s = ports[hop]
            while held_until_s and held_until_s[0] <= now_s:
                held_until_s.popleft()
            if len(held_until_s) >= room:
                lost += now_s <= duration_s
                continue
            start_s = held_until_s[-1] if held_until_s else now_s
            held_until_s.append(start_s + arrivals[number][1] / link_bps)
            following.append((held_until_s[-1], 0, number))
        events = following
    delays_s = [now_s - arrivals[number][0] for now_s, _, number in events if now_s <= duration_s]
    return delays_s, lost


@pytest.mark.parametrize(
    ("name", "links_bps", "room"),
    [("mm1", [10e6], np.inf), ("md1", [10e6], np.inf), ("mm1k", [10e6], 10), ("tandem", [8e6] * 3, np.inf),
     ("finite_tandem", [8e6] * 3, 10)],
)  # fmt: skip
@pytest.mark.quick_first
def test_queues_packet_by_packet(traced, name, links_bps, room):
    told = traced(name, {"duration": 20, "warmup": 0})
    delays_s, lost = recursion(packets(name, 20, links_bps[0]), links_bps, room, 20)
    assert told["delivered"] == len(delays_s)
    assert told["lost.dropped"] == lost
    assert (lost > 0) == np.isfinite(room)
    assert told["delay_mean_s"] == pytest.approx(np.mean(delays_s), rel=1e-9)
    assert told["delay_p99_s"] == pytest.approx(np.quantile(delays_s, 0.99), rel=1e-9)


@pytest.mark.slow
def test_a_packet_keeps_its_size_from_hop_to_hop(traced):
    """At load 0.9 three equal links of 1 ms give 19.6 ms, where independent hops would give 30."""
    told = traced("tandem", {"duration": 60, "replicas": 8})
    assert told["delay_independent_s"][0] == pytest.approx(0.030)
    assert told["delay_theory_s"][0] == pytest.approx(0.0196, abs=5 * told["delay_theory_se_s"][0] + 0.00005)
    assert told["delay_theory_se_s"][0] < 0.00005
    held(told, "delay_mean_s", "delay_theory_s")


@pytest.mark.slow
def test_finite_rooms_in_a_tandem(traced):
    told = traced("finite_tandem", {"duration": 40, "replicas": 8, "access.theory.packets": 100_000})
    told_by = {"loss_ratio": ("loss_ratio_theory", "loss_ratio_theory_se")}
    told_by["delay_mean_s"] = ("delay_theory_s", "delay_theory_se_s")
    for figure, (theory, error) in told_by.items():
        seen = told[figure]
        apart = np.hypot(seen.std(ddof=1) / np.sqrt(len(seen)), told[error][0])
        assert abs(seen.mean() - told[theory][0]) < stats.t.ppf(1 - ALARM / 2, 7) * apart


@pytest.mark.parametrize("standard", SETUPS)
@pytest.mark.parametrize("stations", [1, 2, 5, 10])
@pytest.mark.quick_first
def test_dcf_against_a_slot_exact_reference(traced, standard, stations):
    """Over these times chance moves either by 0.3 % at most (standard deviation); all n in docs/validation.md."""
    told = traced("dcf", {"users": stations, "access.mac.standard": standard, "duration": 31, "warmup": 1})
    throughput_bps, collisions, *_ = simulate(standard, stations, 100.0, 5, edition=2016)
    assert told["throughput_bps"][0] == pytest.approx(throughput_bps, rel=0.01)
    if stations > 1:
        assert told["collision_probability"][0] == pytest.approx(collisions, abs=0.01)
    assert told["jain"][0] > 0.98


@pytest.mark.slow
def test_dcf_of_one_station_by_hand(traced):
    """DIFS, 7.5 slots on average, data, SIFS, ACK."""
    told = traced("dcf", {"users": 1, "duration": 31, "warmup": 1})
    assert told["throughput_bps"][0] == pytest.approx(12_000 / (34 + 7.5 * 9 + 2072 + 16 + 44) * 1e6, rel=2e-3)
    assert told["collision_probability"][0] == 0.0


@pytest.mark.slow
def test_the_summary_has_the_promised_keys(tmp_path):
    wanted = {
        "dcf": {"throughput_bps", "collision_probability", "jain"},
        "mm1": {"delay_mean_s", "delay_theory_s"},
        "nakagami_outage": {"outage_probability", "outage_theory"},
    }
    changes = {"dcf": {"users": 3, "access.mac.standard": "802.11b", "duration": "2 s", "seed": 7}}
    changes["mm1"] = {"access.traffic.load": 0.8, "duration": 200}
    changes["nakagami_outage"] = {"access.channel.1.m": 3, "access.topology.distance": "120 m", "duration": 1}
    for name, keys in wanted.items():
        netfl.trace(netfl.load(FOLDER / f"{name}.yaml", changes[name]), tmp_path / name)
        assert keys <= json.loads((tmp_path / name / "summary.json").read_text()).keys()


WRONG = [
    ("mm1", {"access.traffic.size.distribution": "fixed"}, "access.traffic", "exponential size"),
    ("mm1", {"access.traffic.load": 1.1}, "access.traffic", "a load below 1"),
    ("mm1", {"access.queue": {"kind": "drop_tail", "capacity": 5}}, "access.queue", "drop_tail without limits"),
    ("mm1", {"access.queues": {"tower:0": "drop_tail"}}, "access.queues", "same buffer"),
    ("mm1", {"access.topology": {"kind": "ring", "routers": 3, "radius": 100}}, "access.topology", "one sender"),
    ("md1", {"access.traffic": {"kind": "constant", "every": 0.01, "source": "towers"}}, "access.traffic", "Poisson"),
    ("mm1k", {"access.queue": {"kind": "drop_tail"}}, "access.queue", "a capacity in messages"),
    ("tandem", {"access.traffic.size.distribution": "fixed"}, "access.traffic", "exponential size"),
    ("slotted_aloha", {"access.mac": {"kind": "tdma"}}, "access.mac", "a fixed probability"),
    ("slotted_aloha", {"access.capture": "3 dB"}, "access.capture", "all are lost"),
    ("slotted_aloha", {"access.channel.0": {"kind": "rayleigh", "coherence": 0.01}}, "access.channel", "no fading"),
    ("slotted_aloha", {"access.topology": {"kind": "star", "radius": 100}}, "access.topology", "one distance"),
    ("slotted_aloha", {"access.traffic.destination": "server"}, "access.traffic", "destination: tower"),
    ("multichannel_aloha", {"access.mac": {"kind": "slotted_aloha", "probability": 0.1}}, "access.mac", "this MAC"),
    ("gilbert_elliott", {"access.traffic.buffer": 3}, "access.traffic", "unlimited waiting"),
    ("gilbert_elliott", {"access.traffic.destination": "server"}, "access.traffic", "leave at the tower"),
    (
        "nakagami_outage",
        {"access.channel.1": {"kind": "lognormal_shadowing", "sigma": "4 dB"}},
        "access.channel",
        "block",
    ),
    ("nakagami_outage", {"access.traffic": {"kind": "poisson", "rate": 9}}, "access.traffic", "saturated"),
    ("nakagami_outage", {"access.reception": {"kind": "modulation", "scheme": "qpsk"}}, "access.reception", "all-or"),
    ("jakes", {"access.probe.every": 0.005, "access.probe.lag": None}, "access.probe.every", "samples at least"),
    ("jakes", {"access.channel.1": {"kind": "rayleigh", "coherence": 0.01}}, "access.channel", "with doppler"),
    ("gilbert_elliott", {"access.probe.level": "40 dB"}, "access.probe", "a level with an SNR between"),
    ("gilbert_elliott", {"access.mac.max_attempts": 2}, "access.mac", "max_attempts: 1"),
    ("availability", {"access.outages.0.start": "up"}, "access.outages", "start stationary"),
    ("availability", {"access.outages.0.nodes": [1, 2]}, "access.outages", "all users"),
    ("underwater_link", {"access.traffic.every": 1.0}, "access.traffic", "do not wait for each other"),
    ("underwater_link", {"access.radio.bandwidth": 12e3}, "access.radio.bandwidth", "quarter"),
]


@pytest.mark.parametrize(("name", "changes", "key", "words"), WRONG)
def test_a_theory_that_does_not_hold_is_a_located_fault(tmp_path, name, changes, key, words):
    with pytest.raises(ScenarioError) as caught:
        netfl.trace(netfl.load(FOLDER / f"{name}.yaml", changes), tmp_path / "run")
    assert any(fault.key == key and words in fault.problem for fault in caught.value.faults), str(caught.value)
    assert not (tmp_path / "run").exists()


def test_every_theory_has_a_scenario():
    shown = {netfl.load(path).access.theory for path in FOLDER.glob("*.yaml")} - {None}
    assert {type(theory).__module__.rpartition(".")[2] for theory in shown} == set(
        list_kinds(base_of("network/theory"))
    )


def test_every_scenario_is_on_the_page():
    page = (ROOT / "docs/validation.md").read_text()
    names = [path.stem for path in FOLDER.glob("*.yaml")]
    assert [name for name in names if f"scenarios/validation/{name}.yaml" not in page] == []
    assert [name for name in names if not (ROOT / f"docs/validation/{name}.png").exists()] == []
