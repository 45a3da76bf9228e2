"""Fading that follows the motion, compared with f = v/λ, Clarke's correlation and Rice's level crossings."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from support.small_network import make

from netfl.errors import ScenarioError
from netfl.network.channel._fading import MovingSinusoids, with_carrier
from netfl.network.channel.free_space import FreeSpace
from netfl.network.channel.nakagami import Nakagami
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.channel.rician import Rician
from netfl.network.channel.underwater import Underwater
from netfl.network.layout import Trajectories
from netfl.network.motion.random_waypoint import RandomWaypoint
from netfl.network.motion.trajectory import Trajectory
from netfl.network.placement.disk import Disk
from netfl.network.topology.star import Star
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(23)
LIGHT = 299_792_458.0
CARRIER = 900e6
WAVE_M = LIGHT / CARRIER


class Drive(Trajectories):
    """Each user drives straight, at its own speed and in its own direction."""

    def __init__(self, start_m, speed_m_s, angle):
        self._start_m, self._speed_m_s = start_m, np.broadcast_to(speed_m_s, len(start_m))
        self._way = np.column_stack([np.cos(angle), np.sin(angle)])

    def xy_m(self, users, time_s):
        way_m = self._speed_m_s[users] * np.broadcast_to(np.asarray(time_s, float), np.shape(users))
        return self._start_m[users] + way_m[:, None] * self._way[users]


def drive(users, speed_m_s, angle=0.7):
    still = Star(distance=100.0).open(users, STREAMS)
    return replace(still, paths=Drive(still.user_xy_m, speed_m_s, np.broadcast_to(angle, users)))


def powers(model, layout, users, times_s, streams=STREAMS):
    """Return the power gains of *users* at *times_s*, ``[users, times]``."""
    gain = model.open(layout, streams)
    rows, times = np.repeat(users, len(times_s)), np.tile(times_s, len(users))
    return 10.0 ** (gain.gain_db(rows, times).reshape(len(users), -1) / 10.0)


def correlation(rows, mean, variance):
    return ((rows[:, :1] - mean) * (rows[:, 1:] - mean)).mean(axis=0) / variance


MODELS = {
    "rayleigh": (Rayleigh(frequency=CARRIER), 1.0),
    "nakagami": (Nakagami(m=1.5, frequency=CARRIER), 1.0 / 1.5),
}


class TestDopplerShift:
    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize("speed_m_s", [1.3, 30.0])
    @pytest.mark.quick_first
    def test_autocorrelation_is_that_of_speed(self, model, speed_m_s):
        """The power has the correlation J0(2π f τ)² with f = v / λ."""
        fading, variance = MODELS[model]
        users, shift_hz = np.arange(4000), speed_m_s * CARRIER / LIGHT
        lags = np.array([0.1, 0.2, 0.3, 0.6])
        rows = powers(fading, drive(len(users), speed_m_s), users, 2.0 + np.array([0.0, *lags]) / shift_hz)
        expected = special.j0(2.0 * math.pi * lags) ** 2
        assert correlation(rows, 1.0, variance) == pytest.approx(expected, abs=6.0 * 1.5 / math.sqrt(len(users)))
        assert rows.mean() == pytest.approx(1.0, abs=0.1)

    @pytest.mark.slow
    def test_each_user_has_its_own_shift(self):
        """The amplitude falls below its root mean square sqrt(2π) v/λ exp(-1) times a second."""
        speeds_m_s = np.repeat([2.0, 20.0], 300)
        layout = drive(600, speeds_m_s)
        rows = powers(Rayleigh(frequency=CARRIER), layout, np.arange(600), 5.0 + np.arange(0.0, 4.0, 5e-4)[:2000])
        is_below = rows < 1.0
        falls_hz = (is_below[:, 1:] & ~is_below[:, :-1]).sum(axis=1) / 1.0
        for speed_m_s in (2.0, 20.0):
            expected_hz = math.sqrt(2.0 * math.pi) * speed_m_s / WAVE_M * math.exp(-1.0)
            assert falls_hz[speeds_m_s == speed_m_s].mean() == pytest.approx(expected_hz, rel=0.06)

    def test_steady_path_follows_distance_to_tower(self):
        """A user that drives away from its tower has the shift f on the steady path."""
        users, k, fading = 6000, 10.0**0.6, Rician(k_factor=6.0, frequency=CARRIER)
        still = Star(distance=100.0).open(users, STREAMS)
        away = np.arctan2(*(still.user_xy_m - np.array([0.0, 0.0])).T[::-1])
        layout = replace(still, paths=Drive(still.user_xy_m, 5.0, away))
        assert layout.distances_m(np.arange(users), 2.0) == pytest.approx(110.0)
        lags = np.array([0.1, 0.25, 0.4])
        rows = powers(fading, layout, np.arange(users), np.array([0.0, *lags]) * WAVE_M / 5.0)
        scattered = special.j0(2.0 * math.pi * lags)
        expected = (scattered**2 + 2.0 * k * scattered * np.cos(2.0 * math.pi * lags)) / (1.0 + 2.0 * k)
        assert correlation(rows, 1.0, (1.0 + 2.0 * k) / (1.0 + k) ** 2) == pytest.approx(expected, abs=0.1)

    @pytest.mark.slow
    def test_crossings_per_metre_of_random_waypoints(self):
        """Whatever the speeds and pauses, the amplitude falls below ρ sqrt(2π) ρ exp(-ρ²) times in a wavelength."""
        motion = RandomWaypoint(radius=50.0, speed=(0.5, 4.0), pause=(0.0, 5.0))
        still = Star(placement=Disk(radius=40.0)).open(60, STREAMS)
        layout = replace(still, paths=motion.open(still, STREAMS))
        times_s, users = np.arange(0.0, 15.0, 4e-3), np.arange(60)
        gain = Rayleigh(frequency=CARRIER).open(layout, STREAMS)
        is_below = np.array([gain.gain_db(users, time_s) < 10.0 * math.log10(0.36) for time_s in times_s])
        falls = (is_below[1:] & ~is_below[:-1]).sum()
        places_m = np.array([layout.paths.xy_m(users, time_s) for time_s in times_s])
        walked_m = np.hypot(*np.moveaxis(np.diff(places_m, axis=0), 2, 0)).sum()
        expected = math.sqrt(2.0 * math.pi) * 0.6 * math.exp(-0.36) * walked_m / WAVE_M
        assert falls == pytest.approx(expected, rel=0.08)

    def test_same_place_has_same_gain(self):
        """A user that stands still, or comes back, has the gain of its place; times in any order."""

        class ThereAndBack(Trajectories):
            def xy_m(self, users, time_s):
                east_m = np.broadcast_to(10.0 - np.abs(10.0 - np.asarray(time_s, float)), np.shape(users))
                return np.column_stack([np.maximum(east_m, 2.0), np.zeros(len(users))])

        layout = replace(Star(distance=2.0).open(1, STREAMS), paths=ThereAndBack())
        rows = powers(Rayleigh(frequency=CARRIER), layout, np.zeros(1, int), np.array([15.0, 5.0, 0.0, 1.0, 19.0]))
        assert rows[0, 0] == rows[0, 1] != rows[0, 2]
        assert rows[0, 2] == rows[0, 3] == rows[0, 4]

    def test_gain_is_nearly_constant_in_a_hold(self):
        gain = Rayleigh(frequency=CARRIER).open(drive(5, np.array([0.0, 1.0, 2.0, 8.0, 4.0])), STREAMS)
        assert gain.hold_s == pytest.approx(WAVE_M / 8.0 / 16.0)
        assert Rayleigh(frequency=CARRIER).open(drive(5, 0.0), STREAMS).hold_s == math.inf

    def test_many_users_are_drawn_at_each_call(self, monkeypatch):
        layout, times_s = drive(40, 3.0), np.array([1.0, 2.0])
        kept = powers(Rayleigh(frequency=CARRIER), layout, np.arange(40), times_s)
        monkeypatch.setattr("netfl.network.channel._fading._MAX_CACHED", 100)
        assert MovingSinusoids(layout, WAVE_M, 128, STREAMS)._waves is None
        assert (powers(Rayleigh(frequency=CARRIER), layout, np.arange(40), times_s) == kept).all()


class TestSpeeds:
    def test_random_waypoint(self):
        still = Star(placement=Disk(radius=40.0)).open(3, STREAMS)
        paths = RandomWaypoint(radius=50.0, speed=(0.5, 4.0)).open(still, STREAMS)
        low, high = paths.speeds_m_s(np.array([2, 0]))
        assert (low.tolist(), high.tolist()) == ([0.5, 0.5], [4.0, 4.0])

    def test_trajectory(self, tmp_path):
        """User 0 walks 30 m in 10 s, waits, and walks 40 m in 8 s; user 1 has no line, user 2 one point."""
        file = tmp_path / "walks.csv"
        file.write_text("user,time_s,x_m,y_m\n0,0,0,0\n0,10,30,0\n0,20,30,0\n0,28,30,40\n2,5,0,0\n")
        paths = Trajectory(file=file, relative=True).open(Star(distance=20.0).open(3, STREAMS), STREAMS)
        low, high = paths.speeds_m_s(np.arange(3))
        assert (low.tolist(), high.tolist()) == ([3.0, 0.0, 0.0], [5.0, 0.0, 0.0])

    def test_motion_that_does_not_state_its_speeds_is_measured(self):
        low, high = drive(3, np.array([0.0, 2.0, 7.0])).paths.speeds_m_s(np.arange(3))
        assert low == pytest.approx([0.0, 2.0, 7.0], rel=1e-6)
        assert high == pytest.approx([0.0, 2.0, 7.0], rel=1e-6)


class TestCarrier:
    def test_frequency_is_that_of_other_models(self):
        _, fading = with_carrier([FreeSpace(frequency=CARRIER), Rayleigh()])
        assert fading.frequency == CARRIER

    def test_own_frequency_has_precedence(self):
        assert with_carrier([FreeSpace(frequency=CARRIER), Rayleigh(frequency=1e9)])[1].frequency == 1e9

    def test_other_fading_is_unchanged(self):
        models = [
            FreeSpace(frequency=CARRIER),
            Rayleigh(coherence=1),
            Rayleigh(doppler=3),
            Rayleigh(speed=3, frequency=1e9),
        ]
        assert [*with_carrier(models)] == models

    @pytest.mark.parametrize("fading", [{}, {"speed": 1.0, "frequency": 20e3}])
    def test_wavelength_under_water_is_that_of_sound(self, fading):
        """At 20 kHz and 1500 m/s it is 7.5 cm: 1 m/s is a shift of 13.3 Hz."""
        layout = drive(1, 1.0)
        _, model = with_carrier([Underwater(frequency=20e3), Rayleigh(**fading)])
        assert model.coherence_in(layout) == pytest.approx(0.4 * 0.075)

    @pytest.mark.parametrize(
        ("overrides", "key", "problem"),
        [
            ({}, "channel.1", "nothing sets the pace"),
            ({"motion": {"kind": "random_waypoint", "radius": 200, "speed": [1, 2]}}, "channel.1.frequency", "missing"),
        ],
    )
    def test_missing_motion_or_carrier_is_an_error(self, overrides, key, problem):
        channel = [{"kind": "constant", "gain": "0 dB"}, {"kind": "rayleigh"}]
        access, context, _ = make(3, 2, channel=channel, **overrides)
        (fault,) = nested_faults(access, "", ScenarioFacts(3, 2))
        assert fault.key == key
        assert problem in fault.problem
        with pytest.raises(ScenarioError, match=problem):
            list(access.rounds(context))

    @pytest.mark.parametrize("model", [Rayleigh(), Nakagami(m=1), Rician(k_factor=3)])
    def test_laws_are_those_of_a_wavelength_a_second(self, model):
        assert [law.statement for law in model.laws()] == [
            law.statement for law in model.model_copy(update={"doppler": 1.0}).laws()
        ]

    def test_path_doppler_needs_a_pace(self):
        with pytest.raises(ScenarioError, match="without doppler or speed"):
            Rician(k_factor=3, path_doppler=2)


WALK = {"kind": "random_waypoint", "radius": 200, "speed": [1.0, 2.0]}
"""Doppler shifts of 2.9 to 5.8 Hz at 868 MHz."""
LOSS = {"kind": "log_distance", "exponent": 2.0, "frequency": "868 MHz"}


def warnings(*channels, **overrides):
    overrides = {"motion": WALK, "unreachable": "keep"} | overrides
    access, context, _ = make(3, 2, channel=[LOSS, *channels], **overrides)
    assert not [*nested_faults(access, "", ScenarioFacts(3, 2))]
    return [text for text in access.warnings(context) if "access.channel" in text and "fast fading" not in text]


def chain(stay, block):
    return {
        "kind": "markov",
        "gains": ["0 dB", "-9 dB"],
        "transitions": [[stay, 1 - stay], [1 - stay, stay]],
        "block": block,
    }


class TestWarnings:
    @pytest.mark.parametrize(
        "fading",
        [
            {"kind": "rayleigh"},
            {"kind": "rayleigh", "doppler": "1.5 Hz"},
            {"kind": "nakagami", "m": 1, "doppler": "11 Hz"},
            {"kind": "rayleigh", "speed": 1.5, "frequency": "868 MHz"},
            {"kind": "rician", "k_factor": "3 dB", "coherence": "50 ms"},
            {"kind": "rayleigh", "coherence": "280 ms"},
            chain(0.5, "100 ms"),
            {"kind": "gilbert_elliott", "good": "9 s", "bad": "1 s", "bad_gain": "-25 dB"},
            {"kind": "correlated_shadowing", "sigma": "8 dB", "decorrelation_distance": "50 m"},
            {"kind": "lognormal_shadowing", "sigma": "8 dB", "coherence": "50 s"},
        ],
    )
    def test_pace_that_fits_is_accepted(self, fading):
        assert warnings(fading) == []

    @pytest.mark.parametrize(
        ("fading", "problem"),
        [
            ({"kind": "rayleigh", "doppler": "1.4 Hz"}, "Doppler shift of 1.4 Hz, but users move at 1 to 2 m/s"),
            ({"kind": "nakagami", "m": 1, "doppler": "12 Hz"}, "Doppler shift of 12 Hz"),
            ({"kind": "rayleigh", "speed": 30.0, "frequency": "868 MHz"}, "that of a speed of 30 m/s"),
            ({"kind": "rayleigh", "speed": 0.4, "frequency": "868 MHz"}, "that of a speed of 0.4 m/s"),
            ({"kind": "rician", "k_factor": "3 dB", "coherence": "10 ms"}, "coherence is 0.01 s"),
            ({"kind": "rayleigh", "coherence": "300 ms"}, "coherence is 0.3 s"),
            (chain(0.5, "10 s"), "a block of 10 s at least"),
            (chain(0.5, "1 ms"), "left after 0.002 s on average"),
            ({"kind": "lognormal_shadowing", "sigma": "8 dB"}, "keeps its shadowing"),
            ({"kind": "lognormal_shadowing", "sigma": "8 dB", "coherence": "2 s"}, "move by 2 to 4 m"),
            ({"kind": "lognormal_shadowing", "sigma": "8 dB", "coherence": "1 h"}, "move by 3.6e+03 to 7.2e+03 m"),
        ],
    )
    def test_pace_that_contradicts_is_warned_of(self, fading, problem):
        (text,) = warnings(fading)
        assert text.startswith("access.channel.1, ")
        assert problem in text

    def test_shadowing_of_tr_38901_is_warned_of(self):
        macro = {"kind": "umi", "frequency": "868 MHz", "out_of_range": "extend"}
        access, context, _ = make(3, 2, channel=[macro], motion=WALK, unreachable="keep")
        assert any("keeps its shadowing" in text for text in access.warnings(context))
        access, context, _ = make(3, 2, channel=[macro | {"shadowing": False}], motion=WALK, unreachable="keep")
        assert not any("keeps its shadowing" in text for text in access.warnings(context))

    def test_different_carriers_are_warned_of(self):
        (text,) = warnings({"kind": "rayleigh", "frequency": "2.4 GHz"})
        assert "several carrier frequencies (868 MHz, 2400 MHz)" in text

    def test_static_users_are_not_warned_of(self):
        assert warnings({"kind": "rayleigh", "doppler": "500 Hz"}, motion=None) == []


def test_moving_users_send_over_fading_that_follows_them():
    access, context, log = make(4, 5, channel=[LOSS, {"kind": "rayleigh"}], motion=WALK, unreachable="keep")
    rounds = [*access.rounds(context)]
    assert sum(len(result.deliveries) for result in rounds) > 0
    again, context, other = make(4, 5, channel=[LOSS, {"kind": "rayleigh"}], motion=WALK, unreachable="keep")
    assert [*again.rounds(context)] == rounds
    assert other.rows == log.rows
