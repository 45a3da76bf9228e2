"""Scenarios of typical set-ups: bits, joules, seconds and deliveries as calculated by hand from the scenario's numbers.

Exact laws are compared exactly. Where chance decides, a result lies within four standard deviations of its mean.
"""

import csv
import heapq
import math
import re
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import setups
from matplotlib.figure import Figure
from scipy.special import exp1
from typer.testing import CliRunner

import netfl
from netfl.cli import app

ROOT = Path(__file__).parents[1]
NOISE_DBM_HZ = -174.0
"""Thermal noise."""
MLP_BITS = 32 * (64 * 32 + 32 + 32 * 10 + 10)
"""Update of a model with 32 hidden units: 2,410 numbers, 77,120 bits."""

SHORTER = {"satellites": {"duration": "8 h"}}
"""Keys of scenarios whose whole run takes more than a few seconds."""


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """Return a function that runs a scenario with blocks of overrides, once for all tests."""
    folder, runs = tmp_path_factory.mktemp("setups"), {}

    def of(name, *blocks):
        key = "-".join((name, *blocks))
        if key not in runs:
            scenario = netfl.load(ROOT / f"scenarios/setups/{name}.yaml", SHORTER.get(name, {}), blocks)
            runs[key] = netfl.run(scenario, folder / key, device="cpu", progress=False)
        return runs[key]

    return of


def loss_db(distance_m):
    """Return the path loss 128.1 + 37.6 lg d[km]."""
    return 128.1 + 37.6 * np.log10(distance_m / 1000)


def jain(counts):
    return np.sum(counts) ** 2 / (len(counts) * np.sum(np.square(counts)))


def counts_of(run, users):
    return np.bincount(run.deliveries["user"], minlength=users)


# --- unavailability -----------------------------------------------------------


def test_unavailability_follows_the_sine(run_of):
    run = run_of("unavailability")
    rounds = np.arange(1, 301)
    peak = 1 / np.sqrt(np.arange(1, 101))
    chances = np.outer(0.6 + 0.4 * np.sin(2 * np.pi * rounds / 40), peak)
    delivered = np.zeros((300, 100))
    delivered[run.deliveries["round"] - 1, run.deliveries["user"]] = 1
    surplus, variance = delivered - chances, chances * (1 - chances)
    for axis in (0, 1):  # of each user, and of each round
        assert np.all(np.abs(surplus.sum(axis)) <= 4.5 * np.sqrt(variance.sum(axis)))
    assert abs(surplus.sum()) <= 4 * math.sqrt(variance.sum())
    phase = np.sin(2 * np.pi * rounds / 40)  # a constant chance would be 30 standard deviations away
    assert abs(phase @ surplus.sum(1)) <= 4 * math.sqrt(phase**2 @ variance.sum(1))
    assert phase @ delivered.sum(1) > 15 * math.sqrt(phase**2 @ variance.sum(1))


def test_unavailability_counts_its_bits(run_of):
    run = run_of("unavailability")
    assert run.rounds["uplink_bits"].sum() == len(run.deliveries) * MLP_BITS


# --- availability_sampling ----------------------------------------------------


@pytest.fixture(scope="module")
def available():
    """Return who is available at the end of each round of 10 minutes, from the rows of the file."""
    table = np.zeros((288, 100), dtype=bool)
    ends_s = 600 * np.arange(1, 289)
    with (ROOT / "scenarios/files/phones.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            table[:, int(row["user"])] |= (float(row["start"]) < ends_s) & (ends_s <= float(row["end"]))
    return table


@pytest.mark.parametrize("rule", [(), ("uniform",), ("oldest",), ("oort",)], ids=["f3ast", "uniform", "oldest", "oort"])
def test_sampling_delivers_ten_of_those_that_are_available(rule, available, run_of):
    run = run_of("availability_sampling", *rule)
    assert run.rounds["delivered"].tolist() == np.minimum(available.sum(1), 10).tolist()
    assert available[run.deliveries["round"] - 1, run.deliveries["user"]].all()
    assert run.rounds["uplink_bits"].sum() == len(run.deliveries) * MLP_BITS


def test_blind_sampling_has_the_hypergeometric_mean(available, run_of):
    run = run_of("availability_sampling", "blind")
    share = available.mean(1)
    mean, variance = 10 * share.sum(), (10 * share * (1 - share) * 90 / 99).sum()
    assert abs(len(run.deliveries) - mean) <= 4 * math.sqrt(variance)
    assert 0.3 < share.mean() < 0.36


def test_sampling_by_rates_is_fairest(run_of):
    rules = ("availability_sampling",), *(("availability_sampling", rule) for rule in ("oldest", "uniform", "oort"))
    indices = [jain(counts_of(run_of(*rule), 100)) for rule in rules]
    assert indices == sorted(indices, reverse=True)


# --- joint_allocation ---------------------------------------------------------

KAPPA, WORK_CYCLES, FULL_HZ = 1e-28, 2e4 * 2500, 2e9
BAND_HZ, POWER_W, UPDATE_BITS = 20e6, 0.01, 28_100


def radio_of(links):
    """Return the shares of the band and of the power with which deliveries were sent: from rate, SNR and gain."""
    rate = UPDATE_BITS / links["airtime_s"]
    snr = 10 ** (links["snr_db"] / 10)
    share = rate / (BAND_HZ * np.log2(1 + snr))
    noise_w = share * BAND_HZ * 10 ** ((NOISE_DBM_HZ - 30) / 10)
    return share, snr * noise_w / (POWER_W * 10 ** (links["gain_db"] / 10))


@pytest.mark.slow
def test_allocation_meets_the_deadline_at_the_energy_by_hand(run_of):
    run = run_of("joint_allocation")
    links, energy = run.table("links"), run.table("energy").set_index("user")
    share, power = radio_of(links)
    assert share.groupby(links["round"]).sum().to_numpy() == pytest.approx(np.ones(50), rel=1e-6)
    assert power.max() <= 1 + 1e-9
    frequency = WORK_CYCLES / (1 - links["airtime_s"])  # what the upload leaves of the deadline of 1 s
    assert frequency.max() <= FULL_HZ
    train_j = (KAPPA * WORK_CYCLES * frequency**2).groupby(links["user"]).sum()
    send_j = (power * POWER_W * links["airtime_s"]).groupby(links["user"]).sum()
    assert energy["train_J"].to_numpy() == pytest.approx(train_j.to_numpy(), rel=1e-6)
    assert energy["send_J"].to_numpy() == pytest.approx(send_j.to_numpy(), rel=1e-6)
    assert run.rounds["uplink_bits"].sum() == 50 * 50 * UPDATE_BITS


def test_allocation_has_the_path_loss_of_the_paper(run_of):
    run = run_of("joint_allocation")
    gains = run.table("links").groupby("user")["gain_db"].first() + loss_db(run.users.set_index("user")["distance_m"])
    assert abs(gains.mean()) <= 4 * 8 / math.sqrt(50)  # shadowing of 8 dB
    assert 50 * gains.pow(2).mean() / 64 == pytest.approx(50, abs=4 * math.sqrt(2 * 50))


@pytest.mark.slow
def test_least_time_spends_the_budget(run_of):
    run = run_of("joint_allocation", "least_time")
    assert run.table("energy")["energy_J"].to_numpy() == pytest.approx(np.full(50, 50 * 5e-3), rel=1e-4)


def test_equal_shares_at_full_frequency(run_of):
    run = run_of("joint_allocation", "equal")
    links, energy = run.table("links"), run.table("energy")
    share, power = radio_of(links)
    assert share.to_numpy() == pytest.approx(np.full(2500, 1 / 50), rel=1e-6)
    assert power.to_numpy() == pytest.approx(np.ones(2500), rel=1e-6)
    assert energy["train_J"].to_numpy() == pytest.approx(np.full(50, 50 * KAPPA * WORK_CYCLES * FULL_HZ**2))
    assert run.summary["energy_J"] > 100 * run_of("joint_allocation").summary["energy_J"]


# --- channel_age_loss ---------------------------------------------------------


def best_channels(mean_snr, rounds_of_block, rng):
    """Return how often each user is among the 8 with the largest SNR, with a fade of its own in each block."""
    counts = np.zeros(len(mean_snr))
    for rounds in rounds_of_block:
        counts[np.argsort(mean_snr * rng.exponential(size=len(mean_snr)))[-8:]] += rounds
    return counts


def test_best_channels_have_the_fairness_of_rayleigh_fading(run_of):
    run = run_of("channel_age_loss")
    asked_s = run.rounds["opened_s"] - 40 * 0.005
    rounds_of_block = np.unique(asked_s // 10, return_counts=True)[1]
    mean_snr = 10 ** ((10 - loss_db(run.users["distance_m"].to_numpy()) - NOISE_DBM_HZ - 60 - 6) / 10)
    rng = np.random.default_rng(1)
    by_chance = [jain(best_channels(mean_snr, rounds_of_block, rng)) for _ in range(4000)]
    low, high = np.quantile(by_chance, [0.0005, 0.9995])
    assert low <= jain(counts_of(run, 40)) <= high < 0.5
    expected = np.mean([best_channels(mean_snr, rounds_of_block, rng) for _ in range(1000)], axis=0)
    assert np.corrcoef(expected, counts_of(run, 40))[0, 1] > 0.6


def test_ages_deliver_all_equally_often(run_of):
    assert counts_of(run_of("channel_age_loss", "oldest"), 40).tolist() == [16] * 40


@pytest.mark.parametrize("rule", [(), ("oldest",), ("loss",)], ids=["channel", "age", "loss"])
def test_uploads_take_the_time_of_an_eighth_of_the_band(rule, run_of):
    run = run_of("channel_age_loss", *rule)
    bits = 32 * (64 * 64 + 64 + 64 * 10 + 10)
    whole = run.table("links").loc[run.deliveries["attempts"].to_numpy() == 1]
    rate = 1e6 / 8 * np.log2(1 + 10 ** ((whole["snr_db"] - 3) / 10))
    same = np.isclose(whole["airtime_s"], bits / rate, rtol=1e-6)
    assert same.mean() > 0.9  # the fade of others changes during the upload
    assert (run.rounds["opened_s"] - run.rounds["closed_s"].shift(fill_value=0)).to_numpy() == pytest.approx(0.2)


def weighted(age, tmp_path, monkeypatch):
    """Return a run of ten rounds with the selection of the example, and no weight of losses."""
    monkeypatch.syspath_prepend(ROOT / "examples/selection")
    observe = {"check_in": {"airtime": 0.005}, "snr_db": "check_in", "loss": "last_delivery"}
    selection = {"kind": "weighted_score:WeightedScore", "m": 8, "age": age, "observe": observe}
    path = ROOT / "scenarios/setups/channel_age_loss.yaml"
    scenario = netfl.load(path, {"access.selection": selection, "rounds": 10})
    return netfl.run(scenario, tmp_path / f"age-{age}", device="cpu", progress=False)


def test_weighted_score_lies_between_channel_and_age(tmp_path, monkeypatch, run_of):
    runs = {age: weighted(age, tmp_path, monkeypatch) for age in (0, 0.5, 1)}
    users = {age: run.deliveries.groupby("round")["user"].agg(sorted).tolist() for age, run in runs.items()}
    best = run_of("channel_age_loss").deliveries.query("round <= 10").groupby("round")["user"].agg(sorted).tolist()
    assert users[0] == best
    assert counts_of(runs[1], 40).tolist() == [2] * 40
    assert jain(counts_of(runs[0], 40)) < jain(counts_of(runs[0.5], 40)) <= 1


# --- asynchronous -------------------------------------------------------------


def buffered_end_s(cycle_s, upload_s, downlink_s, rng):
    """Return the time of version 300, of 5 updates each: users begin from a version that is new to them."""
    sigma = math.sqrt(math.log(1 + 0.2**2))

    def end_s(user, start_s):
        return start_s + downlink_s + cycle_s[user] * rng.lognormal(-(sigma**2) / 2, sigma) + upload_s

    events = [(end_s(user, 0.0), user, 0) for user in range(len(cycle_s))]
    heapq.heapify(events)
    idle, version, updates, now_s = [], 0, 0, 0.0
    while version < 300:
        now_s, user, base = heapq.heappop(events)
        idle.append((user, base))
        updates += 1
        version = updates // 5
        for each in [each for each, held in idle if held < version]:
            heapq.heappush(events, (end_s(each, now_s), each, version))
        idle = [(each, held) for each, held in idle if held == version]
    return now_s


@pytest.mark.slow
def test_asynchronous_run_takes_the_time_of_its_devices(run_of):
    run = run_of("asynchronous")
    cycle_s = 300 / run.users["speed"].to_numpy()
    upload_s = (run.deliveries["arrived_s"] - run.deliveries["sent_s"]).mean()
    downlink_s = 0.005 + MLP_BITS / 1e9 + MLP_BITS / 10e6  # link to the tower, and the broadcast
    rng = np.random.default_rng(2)
    ends_s = [buffered_end_s(cycle_s, upload_s, downlink_s, rng) for _ in range(100)]
    assert abs(run.rounds["closed_s"].iloc[-1] - np.mean(ends_s)) <= 4 * np.std(ends_s)
    assert np.std(ends_s) < 0.02 * np.mean(ends_s)
    assert 1500 / (1 / cycle_s).sum() < np.mean(ends_s)


def test_asynchronous_run_counts_its_bits(run_of):
    run = run_of("asynchronous")
    assert run.rounds["delivered"].tolist() == [5] * 300
    assert run.rounds["uplink_bits"].sum() == 1500 * MLP_BITS
    assert run.rounds["downlink_bits"].sum() == 1500 * MLP_BITS  # one at the start, and one to each user that delivered
    slow = run.users["device"].to_numpy()[run.deliveries["user"]] == "slow"
    assert 0.03 < slow.mean() < 0.08  # 25 users of 30 s among 25 of 1.5 s: 1 of 21


# --- harvesting_users ---------------------------------------------------------


@pytest.mark.slow
def test_users_train_in_turns_and_pay_for_it(run_of):
    run = run_of("harvesting_users")
    delivered, energy = run.deliveries, run.table("energy")
    assert (delivered["base"] % 2 == delivered["user"] % 2).all()
    assert energy["train_J"].to_numpy() == pytest.approx(4 * counts_of(run, 40))
    assert energy["send_J"].to_numpy() == pytest.approx(0.1 * energy["sending_s"].to_numpy())
    assert run.summary["outcome.delivered"] + run.summary["outcome.not_trained"] == 40 * 100


def deliveries_by_chance(send_j, rng):
    """Return the deliveries of 4,000 users: 50 turns, 12 chances of 0.5 J between two, and 5 of 10 J to train."""
    charge = rng.uniform(0, 10, 4000)
    count = np.zeros(4000)
    for _ in range(50):
        pays = charge >= 5
        count += pays
        charge -= pays * (4 + send_j)
        for _ in range(12):
            charge = np.minimum(charge + 0.5 * rng.integers(0, 2, 4000), 10)
    return count


def test_energy_that_arrives_limits_the_deliveries(run_of):
    run = run_of("harvesting_users")
    counts = counts_of(run, 40)
    expected = deliveries_by_chance(0.01, np.random.default_rng(3))
    assert abs(counts.sum() - 40 * expected.mean()) <= 4 * math.sqrt(40) * expected.std()
    arrived_j = 40 * (5 + 100 * 60 * 0.5 / 10 * 0.5)  # half full at the start, 25 mW afterwards
    assert (
        0.9 * arrived_j
        < run.summary["energy_J"]
        < arrived_j + 4 * math.sqrt(40) * math.hypot(10 / 12**0.5, 0.25 * 600**0.5)
    )


# --- lpwan --------------------------------------------------------------------

THRESHOLD_DB = {"SF7": -7.5, "SF8": -10, "SF9": -12.5, "SF10": -15, "SF11": -17.5, "SF12": -20}


def airtime_s(factor, payload_bytes):
    """Return the time of a LoRa frame at 125 kHz and code rate 4/5 (SX1276 data sheet, §4.1.1.7)."""
    slow = 1 if factor >= 11 else 0
    blocks = max(math.ceil((8 * payload_bytes - 4 * factor + 28 + 16) / (4 * (factor - 2 * slow))), 0)
    return (8 + 4.25 + 8 + 5 * blocks) * 2**factor / 125e3


@pytest.mark.slow
def test_lora_updates_are_twelve_packets_of_known_airtime(run_of):
    run = run_of("lpwan")
    bits = 650 * 4 + 10 * 32  # 4 bits a number, and a norm of 32 bits for each 65
    packets = math.ceil(bits / (8 * 48))
    sent = packets // 4 * 6  # blocks of 4 packets with 2 of parity
    assert (packets, sent) == (8, 12)
    assert run.deliveries["attempts"].tolist() == [sent] * len(run.deliveries)
    attempts = run.attempts
    assert attempts["bits"].unique() == [bits / 8 + 24]
    assert run.summary["uplink_bits"] == len(attempts) * (bits / 8 + 24)
    for mode, airtimes_s in attempts.groupby("mode_name", observed=True)["airtime_s"]:
        expected_s = airtime_s(int(mode[2:]), math.ceil((bits / 8 + 24) / 8) + 13)  # and the headers of the MAC
        assert airtimes_s.to_numpy() == pytest.approx(expected_s)


def test_duty_cycle_sets_the_time_of_an_update(run_of):
    run = run_of("lpwan")
    attempts = run.attempts.sort_values(["user", "start_s"])
    users = attempts.groupby("user")
    pause_s = users["start_s"].shift(-1) - attempts["start_s"]
    assert (pause_s.dropna() >= 99.999 * attempts.loc[pause_s.notna().to_numpy(), "airtime_s"]).all()
    same = attempts.groupby(["user", "base"])["airtime_s"].agg(["nunique", "first"])
    steady = same[same["nunique"] == 1]["first"]
    took_s = run.deliveries.set_index(["user", "base"]).eval("arrived_s - sent_s")
    steady = steady[steady.index.isin(took_s.index)]
    assert len(steady) > 50
    assert took_s[steady.index].to_numpy() == pytest.approx(steady.to_numpy() * (11 / 0.01 + 1), abs=0.05)


def hata_loss_db(distance_m):
    """Return the loss after Okumura and Hata in a suburb at 868 MHz, towers at 30 m and users at 1.5 m."""
    lg = math.log10
    user = (1.1 * lg(868) - 0.7) * 1.5 - (1.56 * lg(868) - 0.8)
    city = 69.55 + 26.16 * lg(868) - 13.82 * lg(30) - user + (44.9 - 6.55 * lg(30)) * np.log10(distance_m / 1000)
    return city - 2 * lg(868 / 28) ** 2 - 5.4


def test_three_gateways_receive_the_union(run_of):
    """With Rayleigh fading another gateway than a user's own decodes a frame with exp(-threshold / mean SNR)."""
    own, union = run_of("lpwan", "own_gateway"), run_of("lpwan")
    frames, heard = (run.attempts.sort_values(["user", "start_s"]) for run in (own, union))
    assert frames["user"].tolist() == heard["user"].tolist()
    assert frames["start_s"].to_numpy() == pytest.approx(heard["start_s"].to_numpy(), abs=0.1)  # a copy comes by a link
    towers = union.table("nodes").query("role == 'tower'")[["x_m", "y_m"]].to_numpy()
    place = union.users[["x_m", "y_m"]].to_numpy()
    distance_m = np.linalg.norm(place[:, None] - towers[None], axis=2)
    mean_snr_db = 14 - hata_loss_db(distance_m) - (NOISE_DBM_HZ + 10 * math.log10(125e3) + 6)
    user = frames["user"].to_numpy()
    threshold_db = frames["mode_name"].astype(str).map(THRESHOLD_DB).to_numpy()
    chance = np.exp(-(10 ** ((threshold_db[:, None] - mean_snr_db[user]) / 10)))
    others = np.ones_like(chance, dtype=bool)
    others[np.arange(len(user)), union.users["tower"].to_numpy()[user]] = False
    first, second = chance[others].reshape(-1, 2).T

    faded = frames["outcome"].eq("faded").to_numpy()
    rescued = (faded & heard["outcome"].eq("received").to_numpy()).sum()
    either = (1 - (1 - first) * (1 - second))[faded]
    assert abs(rescued - either.sum()) <= 4 * math.sqrt((either * (1 - either)).sum()) + 1

    copies = np.where(faded, first * second, first + second).sum()
    deviation = math.sqrt((first * (1 - first) + second * (1 - second)).sum())
    collided = heard["outcome"].eq("collided").sum() + frames["outcome"].eq("collided").sum()
    assert abs(union.summary["duplicates"] - copies) <= 4 * deviation + 2 * collided
    assert 4 * deviation + 2 * collided < 0.1 * copies


@pytest.mark.slow
def test_erased_parts_are_those_that_parity_does_not_restore(run_of):
    """Parity restores a block of 4 packets of data if any 4 of its 6 packets arrive."""
    run = run_of("lpwan", "common_loss")
    frames = run.attempts
    assert abs((frames["outcome"] == "faded").sum() - 0.3 * len(frames)) <= 4 * math.sqrt(0.21 * len(frames))
    sent = frames.sort_values("start_s").groupby(["user", "base"])["outcome"]
    received = {key: outcomes.eq("received").to_numpy() for key, outcomes in sent}
    lost = []
    for delivery in run.deliveries.itertuples():
        blocks = received[delivery.user, delivery.base].reshape(2, 6)  # 4 packets of data, and 2 of parity
        lost += [0 if block.sum() >= 4 else 4 - block[:4].sum() for block in blocks]
    assert len(run.table("erasures")) == sum(lost)
    chance = [math.comb(6, k) * 0.7**k * 0.3 ** (6 - k) for k in range(4)]
    mean = sum(p * 4 * (6 - k) / 6 for k, p in enumerate(chance))
    assert abs(np.mean(lost) - mean) <= 4 * np.std(lost) / math.sqrt(len(lost))


# --- vehicles -----------------------------------------------------------------


def positions_m(user, times_s):
    """Return the places of a car, straight between the rows of the file, and at rest after the last."""
    steps = ElementTree.parse(ROOT / "scenarios/files/street.fcd.xml").getroot().findall("timestep")
    rows = [(float(step.get("time")), car) for step in steps for car in step if car.get("id") == f"car.{user}"]
    known_s = [time_s for time_s, _ in rows]
    return np.transpose([np.interp(times_s, known_s, [float(car.get(axis)) for _, car in rows]) for axis in "xy"])


def test_four_cars_deliver_in_each_round(run_of):
    run = run_of("vehicles")
    assert run.rounds["delivered"].tolist() == [4] * 60
    assert run.rounds["uplink_bits"].sum() == 60 * 4 * 9_610 * 32  # 9.226 MB
    assert len(run.events.query("kind == 'moved'")) > 0


def test_cars_change_masts_where_their_ways_cross_the_middle(run_of):
    """With nearest_now a car has the mast on its side of x = 0, at once: the masts stand at -300 m and 300 m."""
    run = run_of("vehicles", "nearest_now")
    for user, delivered in run.deliveries.groupby("user"):
        x_m = positions_m(user, delivered["sent_s"].to_numpy())[:, 0]
        beside = np.abs(x_m) > 1e-6  # on the street in the middle both masts are equally near
        nearest = np.where(x_m < 0, "tower:0", "tower:1")
        assert delivered["tower"][beside].tolist() == nearest[beside].tolist()
    moved = run.events.query("kind == 'moved'")
    times_s = np.arange(0, run.rounds["closed_s"].iloc[-1], 0.01)
    sides = [np.sign(positions_m(user, times_s)[:, 0]) for user in range(12)]
    sides = [np.append(side[0] or -1, side) for side in sides]  # as near to both, a car starts at the first
    crossings = sum(np.count_nonzero(np.diff(side[side != 0])) for side in sides)
    assert len(moved) == crossings > 10


# --- satellites ---------------------------------------------------------------


@pytest.fixture(scope="module")
def constellation(tmp_path_factory):
    """Return the files that the constellation of the page gives."""
    page = (ROOT / "docs/setups.md").read_text(encoding="utf-8")
    text = re.search(r"^```yaml\n# constellation.yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1]
    folder = tmp_path_factory.mktemp("constellation")
    (folder / "constellation.yaml").write_text(text, encoding="utf-8")
    arguments = ["orbits", str(folder / "constellation.yaml"), "--out", str(folder)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    return folder


@pytest.mark.parametrize("name", ["passes", "gains"])
def test_files_of_satellites_are_those_of_the_page(name, constellation):
    shipped = ROOT / f"scenarios/files/satellite_{name}.csv"
    assert shipped.read_text(encoding="utf-8") == (constellation / f"{name}.csv").read_text(encoding="utf-8")


def elevation_deg(satellite, latitude, longitude, times_s):
    """Return the elevation of a satellite of 5 planes with 8 each, 600 km high, by rotations in space."""
    earth_m, orbit_m = 6_371e3, 6_971e3
    angle = 2 * np.pi * (satellite % 8 / 8 + satellite // 8 / 40) + times_s * math.sqrt(3.986004418e14 / orbit_m**3)
    node, tilt = 2 * np.pi * (satellite // 8) / 5, math.radians(53)
    flat = np.array([np.cos(angle), np.sin(angle) * math.cos(tilt), np.sin(angle) * math.sin(tilt)])
    turn = np.array([[math.cos(node), -math.sin(node), 0], [math.sin(node), math.cos(node), 0], [0, 0, 1]])
    east, north = math.radians(longitude) + 7.2921159e-5 * times_s, math.radians(latitude)
    up = np.array([math.cos(north) * np.cos(east), math.cos(north) * np.sin(east), math.sin(north) + 0 * times_s])
    line = orbit_m * (turn @ flat) - earth_m * up
    return np.degrees(np.arcsin((line * up).sum(0) / np.linalg.norm(line, axis=0)))


def test_satellites_pass_where_geometry_has_them_above_ten_degrees():
    passes = pd.read_csv(ROOT / "scenarios/files/satellite_passes.csv")
    times_s = np.arange(0, 86_400, 20.0)
    for satellite in range(40):
        own = passes[passes["user"] == satellite]
        inside = ((own["start"].to_numpy() <= times_s[:, None]) & (times_s[:, None] < own["end"].to_numpy())).any(1)
        height = elevation_deg(satellite, 48.1, 11.6, times_s)
        clear = np.abs(height - 10) > 0.01
        assert (inside == (height > 10))[clear].all()


@pytest.mark.slow
def test_satellites_send_at_the_rate_of_their_range(run_of):
    """A frame has the n-th part of the band, and the SNR of the last line of the gains before it begins."""
    run = run_of("satellites")
    assert run.rounds["delivered"].eq(10).all()
    frames = run.attempts.query("outcome == 'received'").sort_values("start_s").rename(columns={"start_s": "time_s"})
    assert frames["bits"].eq(40e6 / 10).all()  # 5 MB in 10 packets
    assert frames.groupby(["user", "base"]).size().max() % 10 == 0
    snr = 10 ** (frames["snr_db"] / 10)
    parts = frames["airtime_s"] * 1e6 * np.log2(1 + snr / 10**0.3) / frames["bits"]
    assert np.abs(parts - parts.round()).max() < 1e-3
    gains = pd.read_csv(ROOT / "scenarios/files/satellite_gains.csv")
    both = pd.merge_asof(frames.assign(parts=parts.round()), gains.sort_values("time_s"), on="time_s", by="user")
    expected_db = 33 + 3 + 30 + both["gain_db"] + 10 * np.log10(both["parts"]) - (NOISE_DBM_HZ + 60 + 2)
    assert both["snr_db"].to_numpy() == pytest.approx(expected_db.to_numpy(), abs=1e-3)


def test_satellites_send_within_their_passes(run_of):
    run = run_of("satellites")
    frames = run.attempts.query("outcome == 'received'").sort_values("start_s")
    passes = pd.read_csv(ROOT / "scenarios/files/satellite_passes.csv").sort_values("start")
    both = pd.merge_asof(frames, passes, left_on="start_s", right_on="start", by="user", tolerance=3600.0)
    late_s = both["start_s"] + both["airtime_s"] - both["end"]
    assert late_s.max() <= 1e-5, both[~(late_s <= 1e-5)]
    assert late_s.notna().all()


# --- over the air ---------------------------------------------------------------


def fading_users(run):
    """Return the mean SNR of each user and replica, as a ratio."""
    snr_db = 10 - loss_db(run.users["distance_m"].to_numpy()) - (NOISE_DBM_HZ + 60)
    return 10 ** (snr_db / 10)


@pytest.mark.slow
@pytest.mark.parametrize(("blocks", "threshold_db", "target_db"), [((), 10, 10), (("strict",), 20, 10)])
def test_over_the_air_sums_users_by_their_fading(run_of, blocks, threshold_db, target_db):
    run = run_of("over_the_air", *blocks)
    depth = 10 ** (threshold_db / 10) / fading_users(run)
    chances = np.exp(-depth)
    expected, variance = 100 * chances.sum(), 100 * (chances * (1 - chances)).sum()
    assert abs(len(run.deliveries) - expected) <= 4 * math.sqrt(variance)
    left_out = run.table("not_summed")
    assert len(run.deliveries) + len(left_out) == 2 * 100 * 20
    assert run.summary["uplink_symbols"] == 100 * 4810
    assert run.summary["uplink_bits"] == 0
    powers = 10 ** (target_db / 10) / fading_users(run) * exp1(depth)
    spent_j = 100 * 0.5 * 4.81e-3 * powers.sum() / 2
    assert run.summary["energy_J"] == pytest.approx(spent_j, rel=0.05)


def test_over_the_air_errors_are_their_formulas(run_of):
    metrics = run_of("over_the_air").metrics
    means = metrics[metrics["learner"] == "in the air"].groupby("metric")["value"].mean()
    assert means["sum_error"] == pytest.approx(means["sum_error_formula"], rel=0.02)
    assert means["scheduled_error"] == pytest.approx(means["scheduled_error_formula"], rel=0.25)
    assert means["scheduled_error"] > 10 * means["sum_error"]


# --- NOMA -----------------------------------------------------------------------


def test_noma_pairs_have_the_capacity_of_the_band(run_of):
    pairs = setups.paired_rates(run_of("noma"))
    assert len(pairs) > 300
    assert pairs["sum"].to_numpy() == pytest.approx(pairs["capacity"].to_numpy(), rel=1e-6)
    assert (pairs["first"] < pairs["sum"]).all()


def test_noma_without_grant_takes_fewer_attempts_with_cancellation(run_of):
    attempts = {
        name: run_of("noma", *blocks).summary["attempts_mean"]
        for name, blocks in {
            "collide": ("grant_free_collide",),
            "sinr": ("grant_free_sinr",),
            "sic": ("grant_free",),
        }.items()
    }
    waiting = np.arange(12)
    expected = (0.7**-waiting).mean()
    deviation = math.sqrt((0.7 ** (-2.0 * waiting)).sum() / 60) / 12
    assert abs(attempts["collide"] - expected) < 4 * deviation
    assert attempts["sic"] < attempts["sinr"] < attempts["collide"]


# --- plots --------------------------------------------------------------------


def test_every_scenario_has_a_plot_and_a_section():
    names = {path.stem for path in ROOT.glob("scenarios/setups/*.yaml")}
    page = (ROOT / "docs/setups.md").read_text(encoding="utf-8")
    assert set(setups.PLOTS) == names
    for name in names:
        assert f"setups/{name}" in page
        assert f"](setups/{name}.png)" in page


@pytest.mark.parametrize("name", ["unavailability", "lpwan", "vehicles", "joint_allocation"])
def test_plots_draw_the_runs(name, run_of):
    plot = setups.PLOTS[name]
    shown = {label: run_of(name, *variant.blocks) for label, variant in plot.variants.items()}
    figure = Figure(figsize=plot.size)
    plot.draw(shown, figure)
    assert all(ax.lines and ax.get_xlabel() for ax in figure.axes)


def test_users_delivered_so_far_are_a_share_of_all_users():
    """Three of five users have been delivered at the end, 60 %."""
    deliveries = pd.DataFrame({"user": [0, 1, 0, 4], "round": [1, 2, 2, 3]})
    rounds = pd.DataFrame({"round": range(1, 6)})
    run = SimpleNamespace(deliveries=deliveries, rounds=rounds, users=pd.DataFrame({"user": range(5)}))
    figure = Figure()
    setups.draw_availability_sampling({"A": run}, figure)
    (line,) = figure.axes[1].lines
    assert line.get_xdata().tolist() == [1, 2, 3, 5]
    assert line.get_ydata().tolist() == [20, 40, 60, 60]


@pytest.mark.parametrize("name", setups.PLOTS)
def test_runs_are_in_folders_named_by_their_labels(name, monkeypatch, tmp_path):
    """Another order of the variants finds the same runs."""
    folders = []
    monkeypatch.setattr(setups, "run_variant", lambda name, variant, folder: folders.append(folder))
    monkeypatch.setattr(setups.style, "png", lambda draw, path, size: path)
    setups.draw(name, tmp_path, tmp_path)
    labels = [*setups.PLOTS[name].variants]
    assert folders == [tmp_path / name / setups.folder_name(label) for label in labels]
    assert len({*folders}) == len(labels)
    assert setups.folder_name("in turns, with 5 J") == "in-turns-with-5-J"
