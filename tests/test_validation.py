"""The network compared with theory: each scenario of scenarios/validation is run and compared with its formula.

Replicas are independent, so (mean - theory) / (standard deviation / sqrt(n)) follows Student's t with n - 1 degrees of
freedom.  A comparison fails with probability `ALARM` although netfl is right, so about one seed in thirty fails one of
them by chance.  Seeds are fixed.  Queues are also compared, packet by packet, with a recursion in this file.
"""

import itertools
import json
import sys
from collections import deque
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.interpolate import interp1d

import netfl
from netfl.core.family_members import base_of
from netfl.core.kinds import kind_of, list_kinds
from netfl.errors import ScenarioError
from netfl.streams import Streams

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "scenarios/validation"
ALARM = 1e-3

sys.path.insert(0, str(ROOT / "tests/network"))
from support import measured_reference, parity_reference  # noqa: E402 - needs the path above
from support.dcf_reference import SETUPS, simulate  # noqa: E402


@pytest.fixture
def traced(tmp_path):
    """Return a function that traces a scenario with overrides; it returns ``{metric: array over replicas}``."""

    def run(name, overrides=None):
        run_ = netfl.trace(netfl.load(FOLDER / f"{name}.yaml", overrides), tmp_path / "run")
        table = run_.final_metrics.pivot_table(index="replica", columns="metric", values="value")
        return {metric: table[metric].to_numpy() for metric in table}

    return run


def check_mean(metrics, metric, theory):
    """Check the mean over replicas against theory."""
    values, expected = metrics[metric], metrics[theory][0] if isinstance(theory, str) else theory
    spread = values.std(ddof=1) / np.sqrt(len(values))
    allowed = stats.t.ppf(1 - ALARM / 2, len(values) - 1) * spread
    difference = abs(values.mean() - expected)
    assert difference <= allowed + 1e-9 * abs(expected), f"{metric}: {values.mean()} where theory gives {expected}"
    assert allowed < 0.35 * abs(expected) + 0.02, f"{metric}: {allowed} is too wide for a comparison"


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
                        {"loss_ratio": "loss_ratio_theory", "fade_probability": "fade_probability_theory",
                         "level_crossing_rate_hz": "level_crossing_rate_theory_hz",
                         "fade_duration_s": "fade_duration_theory_s", "autocorrelation": "autocorrelation_theory"}),
    "availability": ({"duration": "3 day", "users": 30},
                     {"availability": "availability_theory", "up_mean_s": "up_mean_theory_s",
                      "down_mean_s": "down_mean_theory_s"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_model_agrees_with_theory(name, traced):
    overrides, pairs = CASES[name]
    metrics = traced(name, overrides | {"replicas": 10})
    for metric, theory in pairs.items():
        check_mean(metrics, metric, theory)


PATH_LOSS = {"kind": "log_distance", "exponent": 3.5, "reference_distance": 250.0, "reference_loss": "108 dB"}


@pytest.mark.parametrize("snr", ["0 dBm", "20 dBm"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"access.shared_air": False},
        {"access.channel": [PATH_LOSS]},
        {"access.channel": [PATH_LOSS], "access.reception.fading": "rayleigh"},
    ],
    ids=["interference fades", "no interference", "no fading", "fading within frames"],
)
@pytest.mark.slow
def test_packet_errors_of_the_waterfall(traced, changes, snr):
    """Frames of 1 ms see up to three fades, as the coherence time is 0.7 ms."""
    metrics = traced("waterfall", changes | {"access.radio.power": snr, "duration": 0.5, "replicas": 10})
    check_mean(metrics, "loss_ratio", "loss_ratio_theory")
    check_mean(metrics, "fade_probability", "fade_probability_theory")
    if "access.shared_air" not in changes:
        check_mean(metrics, "collision_probability", "collision_probability_theory")


def parity_changes(data, total, loss):
    """Return the keys of updates of two blocks, of which each packet is lost with probability *loss*."""
    fec = {"data": data, "total": total} if total > data else None
    return {
        "access.transport.fec": fec,
        "access.update_size": 16_000 * data,
        "access.reception.threshold": f"{10 * np.log10(-np.log1p(-loss))} dB",
        "rounds": 2,
        "replicas": 10,
    }


PARITIES = pytest.mark.parametrize(
    ("data", "total", "loss"), [(2, 2, 0.1), (4, 5, 0.1), (4, 6, 0.3), (2, 6, 0.6), (1, 3, 0.4)]
)


@PARITIES
@pytest.mark.slow
def test_share_of_updates_with_parity(traced, data, total, loss):
    metrics = traced("parity", parity_changes(data, total, loss))
    check_mean(metrics, "share.delivered", parity_reference.whole_share(data, total, 2, loss))


@PARITIES
@pytest.mark.slow
def test_share_of_parts_with_parity(traced, data, total, loss):
    metrics = traced("parity", parity_changes(data, total, loss) | {"access.transport.loss": "erase"})
    arrived = metrics["share.delivered"] * (1.0 - metrics["parts_lost_share"])
    check_mean({"arrived": arrived}, "arrived", parity_reference.parts_known(data, total, loss))
    check_mean(metrics, "parts_lost_share", parity_reference.parts_lost(data, total, 2, loss))


@pytest.mark.parametrize(("data", "total", "blocks"), [(2, 2, 1), (1, 2, 2), (2, 3, 2), (3, 5, 1)])
def test_parity_reference_matches_all_patterns_of_losses(data, total, blocks):
    """Each pattern is weighted by its probability."""
    loss = 0.35
    whole = delivered = lacking = share = 0.0
    for arrived in itertools.product([True, False], repeat=total * blocks):
        weight = np.prod(np.where(arrived, 1 - loss, loss))
        known = 0
        for block in np.split(np.array(arrived), blocks):
            known += data if block.sum() >= data else block[:data].sum()
        whole += weight * (known == data * blocks)
        delivered += weight * (known > 0)
        lacking += weight * (known > 0) * (1 - known / (data * blocks))
        share += weight * known / (data * blocks)
    assert parity_reference.whole_share(data, total, blocks, loss) == pytest.approx(whole)
    assert parity_reference.delivered_share(data, total, blocks, loss) == pytest.approx(delivered)
    assert parity_reference.parts_known(data, total, loss) == pytest.approx(share)
    assert parity_reference.parts_lost(data, total, blocks, loss) == pytest.approx(lacking / delivered)


MAP, DRIVE = ROOT / "scenarios/files/street_map.csv", ROOT / "scenarios/files/drive.csv"


@pytest.mark.parametrize(("interpolation", "method"), [("bilinear", "linear"), ("nearest", "nearest")])
def test_map_between_its_points(traced, interpolation, method):
    """The SNR of 20 dBm at the gain g is 20 dBm + g - (-108 dBm)."""
    places_m = [(51.0, 7.0), (-333.3, 128.9), (479.9, -479.9), (0.1, 0.2), (20.0, -31.0), (40.0, 60.0)]
    placement = {"kind": "listed", "positions": places_m}
    changes = {"users": 6, "access.topology.placement": placement, "access.channel.0.interpolation": interpolation}
    metrics = traced("radio_map", changes)
    expected = [128.0 + measured_reference.map_gain_db(MAP, place_m, method) for place_m in places_m]
    assert metrics["snr_mean_db"][0] == pytest.approx(np.mean(expected), abs=1e-9)


@pytest.mark.parametrize("interpolation", ["linear", "previous", "nearest"])
@pytest.mark.slow
def test_fading_averages_over_a_trace(traced, interpolation):
    """The SNR of 10 dBm at a gain of 0 dB is 118 dB."""
    metrics = traced("trace", {"access.channel.0.interpolation": interpolation, "replicas": 10})
    snr, fades = measured_reference.trace_averages(DRIVE, interpolation, 118.0, 10.0)
    check_mean(metrics, "power_mean", snr)
    check_mean(metrics, "fade_probability", fades)


@pytest.mark.parametrize("interpolation", ["linear", "previous", "nearest"])
def test_reference_of_the_trace_matches_a_fine_sum(interpolation):
    table = pd.read_csv(DRIVE)
    kind = {"linear": "linear", "previous": "previous", "nearest": "nearest-up"}[interpolation]
    at_s = (np.arange(200_000) + 0.5) * 5e-4
    snr = 10 ** ((118.0 + interp1d(table["time_s"], table["gain_db"], kind)(at_s)) / 10)
    mean, fades = measured_reference.trace_averages(DRIVE, interpolation, 118.0, 10.0)
    assert mean == pytest.approx(snr.mean(), rel=1e-6)
    assert fades == pytest.approx(-np.expm1(-10.0 / snr).mean(), rel=1e-6)


@pytest.mark.parametrize("m", [0.5, 1, 1.5, 3])
@pytest.mark.slow
def test_outage_under_nakagami_fading(traced, m):
    overrides = {"access.channel.1.m": m, "access.topology.distance": "120 m", "duration": 1, "replicas": 10}
    metrics = traced("nakagami_fading", overrides)
    assert metrics["attempts"].min() >= 999  # a slot of 1 ms each; the last ends with the run
    check_mean(metrics, "fade_probability", "fade_probability_theory")


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
def test_availability_depends_on_means_only(traced, law):
    outage = "access.outages.0"
    laws = {f"{outage}.up": law | {"mean": "50 min"}, f"{outage}.down": law | {"mean": "10 min"}}
    metrics = traced("availability", laws | {"duration": "2 day", "users": 40, "replicas": 8})
    check_mean(metrics, "availability", 5 / 6)


def test_acoustic_link(traced):
    metrics = traced("underwater_link", {"duration": 600})
    assert metrics["delay_mean_s"] == pytest.approx(1500 / 1500 + 800 / 5000, rel=1e-9)
    assert metrics["delay_mean_s"] == pytest.approx(metrics["delay_theory_s"], rel=1e-9)
    assert metrics["snr_mean_db"] == pytest.approx(metrics["snr_theory_db"], abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mac", "duration_s"),
    [({}, 1.5), ({"among": "users"}, 1.5), ({"division": "need"}, 1.5), ({"division": "water_filling"}, 60.0)],
    ids=str,
)
def test_divided_band(traced, mac, duration_s):
    changes = {"access.mac": {"kind": "fdma", **mac}, "duration": duration_s, "warmup": duration_s / 3}
    metrics = traced("divided_band", changes)
    assert metrics["throughput_bps"] == pytest.approx(metrics["throughput_theory_bps"], rel=0.02)


def packets(name, duration_s, link_bps):
    """Return the packets that enter at the tower, as (time in s, size in bits)."""
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


def recursion(arrivals, links_bps, capacity, duration_s):
    """Return the delays of packets that arrived by the end, and the number of dropped packets."""
    ports = [deque() for _ in links_bps]
    events = sorted((born_s, 0, number) for number, (born_s, _) in enumerate(arrivals))
    delays_s, lost = [], 0
    for hop, link_bps in enumerate(links_bps):
        next_events = []
        for now_s, _, number in events:
            departures_s = ports[hop]
            while departures_s and departures_s[0] <= now_s:
                departures_s.popleft()
            if len(departures_s) >= capacity:
                lost += now_s <= duration_s
                continue
            start_s = departures_s[-1] if departures_s else now_s
            departures_s.append(start_s + arrivals[number][1] / link_bps)
            next_events.append((departures_s[-1], 0, number))
        events = next_events
    delays_s = [now_s - arrivals[number][0] for now_s, _, number in events if now_s <= duration_s]
    return delays_s, lost


@pytest.mark.parametrize(
    ("name", "links_bps", "capacity"),
    [("mm1", [10e6], np.inf), ("md1", [10e6], np.inf), ("mm1k", [10e6], 10), ("tandem", [8e6] * 3, np.inf),
     ("finite_tandem", [8e6] * 3, 10)],
)  # fmt: skip
@pytest.mark.quick_first
def test_queues_match_the_recursion_packet_by_packet(traced, name, links_bps, capacity):
    metrics = traced(name, {"duration": 20, "warmup": 0})
    delays_s, lost = recursion(packets(name, 20, links_bps[0]), links_bps, capacity, 20)
    assert metrics["delivered"] == len(delays_s)
    assert metrics["lost.dropped"] == lost
    assert (lost > 0) == np.isfinite(capacity)
    assert metrics["delay_mean_s"] == pytest.approx(np.mean(delays_s), rel=1e-9)
    assert metrics["delay_p99_s"] == pytest.approx(np.quantile(delays_s, 0.99), rel=1e-9)


@pytest.mark.slow
def test_packet_keeps_its_size_over_hops(traced):
    """At load 0.9, three equal links of 1 ms give 19.6 ms; independent hops would give 30 ms."""
    metrics = traced("tandem", {"duration": 60, "replicas": 8})
    assert metrics["delay_independent_s"][0] == pytest.approx(0.030)
    assert metrics["delay_theory_s"][0] == pytest.approx(0.0196, abs=5 * metrics["delay_theory_se_s"][0] + 0.00005)
    assert metrics["delay_theory_se_s"][0] < 0.00005
    check_mean(metrics, "delay_mean_s", "delay_theory_s")


@pytest.mark.slow
def test_finite_buffers_in_tandem(traced):
    metrics = traced("finite_tandem", {"duration": 40, "replicas": 8, "access.theory.packets": 100_000})
    theory_of = {"loss_ratio": ("loss_ratio_theory", "loss_ratio_theory_se")}
    theory_of["delay_mean_s"] = ("delay_theory_s", "delay_theory_se_s")
    for metric, (theory, error) in theory_of.items():
        samples = metrics[metric]
        standard_error = np.hypot(samples.std(ddof=1) / np.sqrt(len(samples)), metrics[error][0])
        assert abs(samples.mean() - metrics[theory][0]) < stats.t.ppf(1 - ALARM / 2, 7) * standard_error


@pytest.mark.parametrize("standard", SETUPS)
@pytest.mark.parametrize("stations", [1, 2, 5, 10])
@pytest.mark.quick_first
def test_dcf_matches_slot_exact_reference(traced, standard, stations):
    """The standard deviation over these durations is at most 0.3 %; docs/validation.md has all numbers of stations."""
    metrics = traced("dcf", {"users": stations, "access.mac.standard": standard, "duration": 31, "warmup": 1})
    throughput_bps, collisions, *_ = simulate(standard, stations, 100.0, 5, edition=2016)
    assert metrics["throughput_bps"][0] == pytest.approx(throughput_bps, rel=0.01)
    if stations > 1:
        assert metrics["collision_probability"][0] == pytest.approx(collisions, abs=0.01)
    assert metrics["jain"][0] > 0.98


@pytest.mark.slow
def test_dcf_of_one_station_matches_calculation_by_hand(traced):
    """DIFS, 7.5 slots on average, data, SIFS, ACK."""
    metrics = traced("dcf", {"users": 1, "duration": 31, "warmup": 1})
    assert metrics["throughput_bps"][0] == pytest.approx(12_000 / (34 + 7.5 * 9 + 2072 + 16 + 44) * 1e6, rel=2e-3)
    assert metrics["collision_probability"][0] == 0.0


@pytest.mark.slow
def test_summary_has_documented_keys(tmp_path):
    expected = {
        "dcf": {"throughput_bps", "collision_probability", "jain"},
        "mm1": {"delay_mean_s", "delay_theory_s"},
        "nakagami_fading": {"fade_probability", "fade_probability_theory"},
    }
    overrides = {"dcf": {"users": 3, "access.mac.standard": "802.11b", "duration": "2 s", "seed": 7}}
    overrides["mm1"] = {"access.traffic.load": 0.8, "duration": 200}
    overrides["nakagami_fading"] = {"access.channel.1.m": 3, "access.topology.distance": "120 m", "duration": 1}
    for name, keys in expected.items():
        netfl.trace(netfl.load(FOLDER / f"{name}.yaml", overrides[name]), tmp_path / name)
        assert keys <= json.loads((tmp_path / name / "summary.json").read_text()).keys()


INAPPLICABLE = [
    ("mm1", {"access.traffic.size.distribution": "fixed"}, "access.traffic", "exponential size"),
    ("mm1", {"access.traffic.load": 1.1}, "access.traffic", "a load below 1"),
    ("mm1", {"access.queue": {"kind": "drop_tail", "capacity": 5}}, "access.queue", "drop_tail without limits"),
    ("mm1", {"access.queues": {"tower:0": "drop_tail"}}, "access.queues", "same buffer"),
    ("mm1", {"access.topology": {"kind": "ring", "routers": 3, "radius": 100}}, "access.topology", "one sender"),
    ("md1", {"access.traffic": {"kind": "constant", "every": 0.01, "source": "towers"}}, "access.traffic", "Poisson"),
    ("mm1k", {"access.queue": {"kind": "drop_tail"}}, "access.queue", "a capacity in messages"),
    ("tandem", {"access.traffic.size.distribution": "fixed"}, "access.traffic", "exponential size"),
    ("slotted_aloha", {"access.mac": {"kind": "tdma"}}, "access.mac", "a fixed probability"),
    (
        "slotted_aloha",
        {"access.interference": {"kind": "capture", "margin": "3 dB"}},
        "access.interference",
        "all are lost",
    ),
    ("slotted_aloha", {"access.channel.0": {"kind": "rayleigh", "coherence": 0.01}}, "access.channel", "no fading"),
    ("slotted_aloha", {"access.topology": {"kind": "star", "radius": 100}}, "access.topology", "one distance"),
    ("slotted_aloha", {"access.traffic.destination": "server"}, "access.traffic", "destination: tower"),
    ("multichannel_aloha", {"access.mac": {"kind": "slotted_aloha", "probability": 0.1}}, "access.mac", "this MAC"),
    ("gilbert_elliott", {"access.traffic.buffer": 3}, "access.traffic", "unlimited waiting"),
    ("gilbert_elliott", {"access.traffic.destination": "server"}, "access.traffic", "leave at the tower"),
    (
        "nakagami_fading",
        {"access.channel.1": {"kind": "lognormal_shadowing", "sigma": "4 dB"}},
        "access.channel",
        "block",
    ),
    ("nakagami_fading", {"access.traffic": {"kind": "poisson", "rate": 9}}, "access.traffic", "saturated"),
    ("nakagami_fading", {"access.reception": {"kind": "modulation", "scheme": "qpsk"}}, "access.reception", "all-or"),
    ("jakes", {"access.probe.every": 0.005, "access.probe.lag": None}, "access.probe.every", "samples at least"),
    ("jakes", {"access.channel.1": {"kind": "rayleigh", "coherence": 0.01}}, "access.channel", "with doppler"),
    ("gilbert_elliott", {"access.probe.level": "40 dB"}, "access.probe", "a level with an SNR between"),
    ("gilbert_elliott", {"access.mac.max_attempts": 2}, "access.mac", "max_attempts: 1"),
    ("availability", {"access.outages.0.start": "up"}, "access.outages", "start stationary"),
    ("availability", {"access.outages.0.nodes": [1, 2]}, "access.outages", "all users"),
    ("divided_band", {"access.mac": {"kind": "round_robin"}}, "access.mac", "fdma"),
    ("divided_band", {"access.reception.rate": "1 Mbps"}, "access.reception", "without rate"),
    ("divided_band", {"access.radio.power": ["25 dBm", *["20 dBm"] * 4]}, "access.radio", "one radio"),
    ("waterfall", {"access.reception": {"kind": "shannon", "rate": "1 Mbps"}}, "access.reception", "with a rate"),
    ("waterfall", {"access.mac.max_attempts": 2}, "access.mac", "max_attempts: 1"),
    ("waterfall", {"access.interference": {"kind": "capture", "margin": "3 dB"}}, "access.interference", "sinr"),
    ("waterfall", {"access.channel.1": {"kind": "nakagami", "m": 2, "coherence": 0.01}}, "access.channel", "rayleigh"),
    ("waterfall", {"access.channel.1": {"kind": "rayleigh", "doppler": 10}}, "access.channel", "with coherence"),
    (
        "waterfall",
        {"users": 3, "access.topology.placement": {"kind": "listed", "positions": [[0, 9], [1, 9], [999, 9]]}},
        "access.topology",
        "one user in each cell",
    ),
    ("underwater_link", {"access.traffic.every": 1.0}, "access.traffic", "do not wait for each other"),
    ("underwater_link", {"access.radio.bandwidth": 12e3}, "access.radio.bandwidth", "quarter"),
]


@pytest.mark.parametrize(("name", "overrides", "key", "message"), INAPPLICABLE)
def test_inapplicable_theory_is_reported_with_its_key(tmp_path, name, overrides, key, message):
    with pytest.raises(ScenarioError) as raised:
        netfl.trace(netfl.load(FOLDER / f"{name}.yaml", overrides), tmp_path / "run")
    assert any(fault.key == key and message in fault.problem for fault in raised.value.faults), str(raised.value)
    assert not (tmp_path / "run").exists()


def test_every_theory_has_a_scenario():
    used = {netfl.load(path).access.theory for path in FOLDER.glob("*.yaml")} - {None}
    assert {type(theory).__module__.rpartition(".")[2] for theory in used} == set(list_kinds(base_of("network/theory")))


def test_documentation_lists_every_scenario():
    page = (ROOT / "docs/validation.md").read_text()
    names = [path.stem for path in FOLDER.glob("*.yaml")]
    assert [name for name in names if f"netfl trace validation/{name}" not in page] == []
    assert [name for name in names if not (ROOT / f"docs/validation/{name}.png").exists()] == []
