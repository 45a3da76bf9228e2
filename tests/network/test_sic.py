"""Successive interference cancellation: against `sinr`, against all cases by brute force, and by hand in the medium.

The brute force is written apart from the package: it goes through every set of frames that may be decoded.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from network.radio.test_medium import RandomReception, build_medium, failure_causes, simultaneous_causes

import netfl
from netfl.errors import ScenarioError
from netfl.network.interference import DisturbedFrames, OverlappingFrames, ScheduledSignals
from netfl.network.interference.collide import Collide
from netfl.network.interference.sic import Sic
from netfl.network.interference.sinr import Sinr
from netfl.network.layout import NodeId
from netfl.network.radio.transmission import Frames, SharedChannel, Transmission
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.units import db_to_linear

ORDERS = ["received_power", "weakest_first"]


@dataclass(frozen=True)
class Frame:
    """One frame of a user of that number, on the air by itself."""

    user: int
    start_s: float
    end_s: float
    snr: float
    threshold: float
    mode: int = 0
    slope: float = math.inf
    """Slope of the probability of reception over the SINR in nats; infinity for a threshold."""
    interrupted: bool = False

    def chance(self, sinr):
        if self.slope == math.inf:
            return float(sinr >= self.threshold)
        return 1.0 / (1.0 + (self.threshold / sinr) ** self.slope)


def meet(first, second):
    return first.start_s < second.end_s and second.start_s < first.end_s


def as_judged(frames, groups, chosen, bands=None, min_sir_db=None):
    """Return the frames of one group of *groups*, lists of places, as the medium passes them to the model."""
    members = [frames[place] for place in groups[chosen]]
    first = members[0]

    def received_over(disturbance):
        over = np.broadcast_to(disturbance, len(members))
        return np.array([frame.chance(frame.snr / each) for frame, each in zip(members, over, strict=True)])

    others = []
    for number, group in enumerate(groups):
        other = frames[group[0]]
        if number != chosen and meet(first, other):
            judged = lambda number=number: as_judged(frames, groups, number, bands, min_sir_db)  # noqa: E731
            users = np.array([frames[place].user for place in group])
            snr = np.array([frames[place].snr for place in group])
            others.append(OverlappingFrames(users, other.mode, other.start_s, other.end_s, snr, None, None, judged))
    power_in_band = band_noise = None
    if bands is not None:
        power_in_band = lambda users, others: weights(bands, users, others)  # noqa: E731
        band_noise = lambda users: bands[users]  # noqa: E731
    return DisturbedFrames(
        users=np.array([frame.user for frame in members]),
        mode=first.mode,
        start_s=first.start_s,
        end_s=first.end_s,
        snr_db=10.0 * np.log10([frame.snr for frame in members]),
        alone=received_over(1.0),
        others=others,
        received_over=received_over,
        min_sir_db=min_sir_db,
        power_in_band=power_in_band,
        band_noise=band_noise,
        interrupted=[frame.interrupted for frame in members],
    )


def weights(bands, users, others):
    """Return the interference in bands of one centre, over a noise in proportion to the bandwidth."""
    part = np.minimum(1.0, bands[users][:, None] / bands[others][None, :])
    return part * bands[others][None, :] / bands[users][:, None]


def worst_interference(frames, judged, residual, decoded, order, bands=None):
    """Return the largest sum of interference in a frame, over 400 moments of it, without the code of the package."""
    moments_s = judged.start_s + (judged.end_s - judged.start_s) * (np.arange(400) + 0.5) / 400
    total = np.zeros(len(moments_s))
    for other in frames:
        if other is judged:
            continue
        is_before = order.index(other) < order.index(judged) and decoded[order.index(other)]
        weight = 1.0
        if bands is not None:
            own_hz, other_hz = bands[judged.user], bands[other.user]
            weight = min(1.0, own_hz / other_hz) * other_hz / own_hz
        share = residual if is_before else 1.0
        is_on_air = (other.start_s <= moments_s) & (moments_s < other.end_s)
        total += share * weight * other.snr * is_on_air
    return total.max()


def brute_force(frames, residual, rule, bands=None):
    """Return the probability of each frame, over all permutations and all sets of decoded frames."""

    def power(frame):
        return frame.snr * (1.0 if bands is None else bands[frame.user])

    for order in itertools.permutations(frames):
        powers = [power(frame) for frame in order]
        if powers == sorted(powers, reverse=rule == "received_power"):
            break
    chance = dict.fromkeys((frame.user for frame in frames), 0.0)
    for decoded in itertools.product((False, True), repeat=len(frames)):
        probability = 1.0
        for place, frame in enumerate(order):
            interference = worst_interference(frames, frame, residual, decoded, order, bands)
            received = 0.0 if frame.interrupted else frame.chance(frame.snr / (1.0 + interference))
            probability *= received if decoded[place] else 1.0 - received
        for place, frame in enumerate(order):
            if decoded[place]:
                chance[frame.user] += probability
    return [chance[frame.user] for frame in frames]


def draw_frames(rng, count, *, together, slope=math.inf):
    """Return frames that all overlap at the middle of their times, of powers that differ by up to 30 dB."""
    frames = []
    for user in range(count):
        start_s, end_s = (0.0, 1.0) if together else (rng.uniform(0.0, 0.45), rng.uniform(0.55, 1.0))
        snr = 10.0 ** rng.uniform(0.0, 3.0)
        frames.append(Frame(user, start_s, end_s, snr, 10.0 ** rng.uniform(-0.5, 1.0), slope=slope))
    return frames


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("residual", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("slope", [math.inf, 2.0])
@pytest.mark.parametrize("is_banded", [False, True])
def test_chances_are_those_of_all_cases(order, residual, slope, is_banded):
    """Three frames, alone or in one transmission, of equal or of different bandwidths."""
    rng = np.random.default_rng(5)
    model = Sic(residual=residual, order=order)
    certain = 0
    for _ in range(25):
        together = bool(rng.integers(2))
        frames = draw_frames(rng, 3, together=together, slope=slope)
        groups = [[0, 1], [2]] if together else [[0], [1], [2]]
        bands = rng.choice([0.25, 0.5, 1.0], 3) if is_banded else None
        expected = brute_force(frames, residual, order, bands)
        chances = [model.success(as_judged(frames, groups, number, bands)) for number in range(len(groups))]
        assert np.concatenate(chances) == pytest.approx(expected, abs=3e-6)
        certain += sum(expected)
    assert 10 < certain < 75, "some are received, and some are not"


def test_an_interrupted_frame_is_not_subtracted():
    strong = Frame(0, 0.0, 1.0, 100.0, 1.0, interrupted=True)
    weak = Frame(1, 0.0, 1.0, 10.0, 1.0)
    judged = as_judged([strong, weak], [[0], [1]], 1)
    assert Sic().success(judged).tolist() == [0.0]
    together = as_judged([strong, weak], [[0, 1]], 0)
    assert Sic().success(together).tolist() == [1.0, 0.0], "the outage is for the medium to state"


@pytest.mark.parametrize("kind", ["one band", "bands", "modes"])
def test_residual_of_1_is_sinr(kind):
    """The steps of the receiver end at the same probabilities, also with partial overlaps."""
    rng = np.random.default_rng(7)
    received = 0.0
    for _ in range(100):
        frames = draw_frames(rng, 5, together=False, slope=1.5)
        frames[1] = Frame(1, frames[0].start_s, frames[0].end_s, frames[1].snr, 2.0, slope=1.5)
        if kind == "modes":
            frames = [replace(frame, mode=frame.user // 2) for frame in frames]
        groups = [[0, 1], [2], [3], [4]]
        bands = rng.choice([0.25, 0.5, 1.0], 5) if kind == "bands" else None
        min_sir_db = np.array([[1.0, -8.0, -9.0], [-11.0, 1.0, -11.0], [-15.0, -13.0, 1.0]])
        for number in range(len(groups)):
            judged = as_judged(frames, groups, number, bands, min_sir_db if kind == "modes" else None)
            expected = Sinr().success(judged)
            assert Sic(residual=1).success(judged).tolist() == expected.tolist()
            assert Sic(residual=1).decode(judged) == pytest.approx(expected, rel=1e-12)
            received += expected.sum()
    assert received > 10.0


def test_subtracting_a_frame_of_another_mode():
    """Of a mode that tolerates -10 dB of the strong one, and of one that does not."""
    strong = Frame(0, 0.0, 1.0, 1000.0, 1.0)
    weak = Frame(1, 0.0, 1.0, 10.0, 1.0, mode=1)
    min_sir_db = np.array([[1.0, -10.0], [-10.0, 1.0]])
    judged = as_judged([strong, weak], [[0], [1]], 1, min_sir_db=min_sir_db)
    assert Sinr().success(judged).tolist() == [0.0], "10 / 1000 < -10 dB"
    assert Sic().success(judged).tolist() == [1.0]
    assert Sic(residual=0.11).success(judged).tolist() == [0.0], "10 / 110 < -10 dB"
    assert Sic(residual=0.09).success(judged).tolist() == [1.0]


def test_what_was_decided_before_is_used():
    """Frame 2 was decoded or lost before frame 0 began; it disturbed frame 1 alone, which disturbs frame 0."""
    first = Frame(0, 2.0, 3.0, 4.0, 1.0)
    middle = Frame(1, 0.5, 2.5, 10.0, 1.0)
    early = Frame(2, 0.0, 1.0, 100.0, 1.0)
    for decoded, received in ((np.array([True]), 1.0), (np.array([False]), 0.0), (None, 0.0)):
        known = OverlappingFrames(np.array([2]), 0, early.start_s, early.end_s, np.array([early.snr]), None, decoded)
        of_first = as_judged([first], [[0]], 0)
        overlapping = OverlappingFrames(np.array([0]), 0, first.start_s, first.end_s, np.array([first.snr]))
        base = as_judged([middle], [[0]], 0)
        of_middle = DisturbedFrames(
            base.users, 0, 0.5, 2.5, base.snr_db, base.alone, [overlapping, known], base.received_over
        )
        other = OverlappingFrames(np.array([1]), 0, 0.5, 2.5, np.array([10.0]), judged=lambda of=of_middle: of)
        judged = DisturbedFrames(
            of_first.users, 0, 2.0, 3.0, of_first.snr_db, of_first.alone, [other], of_first.received_over
        )
        assert Sic().success(judged).tolist() == [received]


def test_many_cases_end():
    """Forty frames of probability 1/2, whatever the interference: 2^40 cases, of which 256 are followed."""
    frames = [Frame(user, 0.0, 1.0, 10.0 + user, 1.0, slope=0.0) for user in range(40)]
    chances = Sic().success(as_judged(frames, [[*range(40)]], 0))
    assert chances == pytest.approx(np.full(40, 0.5))


def test_scheduled_rates_are_a_corner_of_the_region():
    rng = np.random.default_rng(3)
    snr = 10.0 ** rng.uniform(-1.0, 4.0, (200, 4))
    for row in snr:
        users = np.arange(4)
        signals = ScheduledSignals(users, row, np.ones((4, 4)), row)
        for order in ORDERS:
            rates = np.log2(1.0 + Sic(order=order).scheduled_snr(signals))
            assert rates.sum() == pytest.approx(np.log2(1.0 + row.sum()), rel=1e-12)
        strongest, weakest = int(row.argmax()), int(row.argmin())
        assert Sic().scheduled_snr(signals)[weakest] == row[weakest], "decoded last"
        assert Sic(order="weakest_first").scheduled_snr(signals)[strongest] == row[strongest]
        assert Sic(residual=1).scheduled_snr(signals) == pytest.approx(Sinr().scheduled_snr(signals), rel=1e-12)
        assert Sinr().scheduled_snr(signals) == pytest.approx(row / (1.0 + row.sum() - row))
        assert Collide().scheduled_snr(signals).tolist() == row.tolist()


def test_users_of_equal_power_are_decoded_by_their_numbers():
    """The user whose rate allows for the other one is decoded first, whatever its place in the group."""
    snr = np.array([9.0, 9.0])
    for users in ([4, 7], [7, 4]):
        expected = Sic().scheduled_snr(ScheduledSignals(np.array(users), snr, np.ones((2, 2)), snr))
        assert dict(zip(users, expected.tolist(), strict=True)) == {4: 0.9, 7: 9.0}


# in the medium: the threshold is 0 dB


@pytest.mark.parametrize(
    ("powers", "residual", "causes"),
    [
        ([100, 10, 2], 0.0, ["", "", ""]),  # 100 / 13, 10 / 3, 2 / 1
        ([100, 10, 8], 0.0, ["", "", ""]),  # 10 / 9
        ([100, 10, 9.5], 0.0, ["", "collided", "collided"]),  # 10 / 10.5; the third meets the second
        ([100, 10, 2], 0.005, ["", "", ""]),  # 2 / (1 + 0.5 + 0.05)
        ([100, 10, 2], 0.01, ["", "", "collided"]),  # 10 / (1 + 1 + 2), 2 / (1 + 1 + 0.1)
        ([100, 10, 0.5], 0.0, ["", "", "faded"]),
        ([2, 10, 100], 0.0, ["", "", ""]),
    ],
)
def test_frames_that_begin_together(powers, residual, causes):
    assert simultaneous_causes(build_medium(powers, interference=Sic(residual=residual)), 3) == causes
    apart = build_medium(powers, interference=Sic(residual=residual))
    assert failure_causes(apart, (0, 1), (0, 1), (0, 1)) == causes


def test_frame_that_ends_before_the_stronger_one():
    """The weaker one ends at 1 s; the stronger one lasts until 2 s, and meets a stronger third one from 1.5 s on."""
    spans = (0, 1), (0, 2), (1.5, 2.5)
    assert failure_causes(build_medium([2, 10, 100], interference=Sic()), *spans) == ["", "", ""]
    assert failure_causes(build_medium([2, 10, 100], interference=Sinr()), *spans) == ["collided", "collided", ""]
    # the third and the second are lost, but the first was received before
    assert failure_causes(build_medium([2, 10, 10.1], interference=Sic()), *spans) == ["", "collided", "collided"]


def test_frame_received_before_is_subtracted_from_one_that_lasts():
    """Frame 0 disturbs frame 1, and has ended when frame 2 begins, which needs frame 1 subtracted."""
    spans = (0, 1), (0.5, 2.5), (2, 3)
    assert failure_causes(build_medium([100, 10, 2], interference=Sic()), *spans) == ["", "", ""]
    assert failure_causes(build_medium([10.5, 10, 2], interference=Sic()), *spans) == ["collided"] * 3


def test_weakest_first_suits_low_rates():
    """At a threshold of -10 dB, both orders receive both; a strong frame alone meets the whole weak one."""
    low = SnrThreshold(threshold=-10, rate=1000)
    assert simultaneous_causes(build_medium([10, 2], reception=low, interference=Sic(order="weakest_first")), 2) == [
        "",
        "",
    ]
    high = SnrThreshold(threshold=3, rate=1000)
    first = build_medium([10, 5], reception=high, interference=Sic(order="weakest_first"))
    assert simultaneous_causes(first, 2) == ["collided", "collided"], "5 / 11, then 10 / 6"


def test_frames_of_another_cell_are_subtracted():
    """Tower 0 hears user 1 of tower 1 at 20 dB, and cannot decode it at 1 dB beside its own user."""
    for power, causes in ((100, ["", ""]), (10.5, ["collided", ""])):
        medium = build_medium({"tower:0": [10, power], "tower:1": [1e-3, 10]}, interference=Sic())
        towers = ["tower:0", "tower:1"]
        assert failure_causes(medium, (0, 1), (0, 1), towers=towers) == causes


def test_frame_that_an_outage_cuts_is_not_subtracted():
    medium = build_medium([100, 10], interference=Sic())
    assert failure_causes(medium, (0, 1), (0, 1), cuts=[True, False]) == ["lost", "collided"]
    assert failure_causes(build_medium([100, 10], interference=Sic()), (0, 1), (0, 1)) == ["", ""]


def test_powers_are_those_with_which_frames_were_sent():
    """User 1 sends with a tenth of its power, so that user 0 is the stronger one, and is decoded."""
    medium = build_medium([10, 20], interference=Sic())
    medium.set_power_offset(np.array([0.0, -10.0]))
    channel, transmissions = SharedChannel(), []
    for user in range(2):
        ids = np.array([user])
        sent_db = medium.power_offset_db(ids)
        frames = Frames(ids, 1000.0, None)
        transmissions.append(
            Transmission(frames, ids, [0], NodeId("tower:0", 100), 0, 0.0, 1.0, power_offset_db=sent_db)
        )
        channel.enter(transmissions[-1])
    medium.set_power_offset(None)
    assert [medium.outcomes(each)[0][0] for each in transmissions] == ["", ""]
    assert transmissions[0].frames.decoded_at[100].tolist() == [True]


def test_nothing_is_computed_for_other_models(monkeypatch):
    medium = build_medium([100, 10], interference=Sinr())
    monkeypatch.setattr(type(medium), "_judge", lambda *_: pytest.fail("nobody asks for it"))
    ids = np.arange(2)
    transmission = Transmission(Frames(ids, 1000.0, None), ids, range(2), NodeId("tower:0", 100), 0, 0.0, 1.0)
    medium.outcomes(transmission)
    assert transmission.frames.decoded_at is None


def test_probability_is_that_of_many_draws():
    """Three frames whose reception is a probability of the SINR, by the frequency of outcomes."""

    class Middle(RandomReception):
        """Received with a probability that follows the SINR."""

        def success(self, sinr_db, bandwidth_hz, bits, mode=0):
            return 1.0 / (1.0 + db_to_linear(3.0 - np.asarray(sinr_db)))

    powers = [30.0, 8.0, 3.0]
    medium = build_medium(powers, reception=Middle(), interference=Sic())
    trials = 1500
    received = np.zeros(3)
    for _ in range(trials):
        received += [not cause for cause in simultaneous_causes(medium, 3)]
    frames = [Frame(user, 0.0, 1.0, snr, 10.0**0.3, slope=1.0) for user, snr in enumerate(powers)]
    expected = np.array(brute_force(frames, 0.0, "received_power"))
    error = np.sqrt(expected * (1.0 - expected) / trials)
    assert np.abs(received / trials - expected).max() < 4.5 * error.max()


CELL = """
name: overlaps
users: 3
rounds: 1
access:
  kind: network
  topology: {kind: star, distance: 10 m, rate: 1 Gbps, delay: 1 ms}
  radio: {power: 16 dBm, bandwidth: 125 kHz, noise_figure: 6 dB}
  channel: [{kind: constant, gain: -80 dB}]
  reception: {kind: snr_threshold, threshold: 0 dB, rate: 10 kbps}
  mac: {kind: round_robin}
  update_size: 500 bit
  broadcast_rate: 5 kbps
  compute: {speed: 2, samples: 1}
  round: {kind: first, m: 3}
"""


@pytest.mark.parametrize(
    ("overrides", "key", "words"),
    [
        ({"mac": {"kind": "fdma"}, "interference": {"kind": "sic"}}, "interference", "a share of the band"),
        ({"mac": {"kind": "noma"}}, "interference", "at most one"),
        (
            {"mac": {"kind": "noma"}, "interference": {"kind": "capture", "margin": "3 dB"}},
            "interference",
            "one is received",
        ),
        ({"interference": {"kind": "sic", "residual": 1.5}}, "interference.residual", ""),
        ({"interference": {"kind": "sic", "order": "strongest"}}, "interference.order", ""),
    ],
)
def test_errors_name_the_key_and_a_remedy(overrides, key, words):
    with pytest.raises(ScenarioError) as error:
        netfl.load(CELL, {f"access.{name}": value for name, value in overrides.items()})
    (fault,) = error.value.faults
    assert fault.key == f"access.{key}"
    assert words in fault.problem
    assert fault.remedy
