"""Passes of satellites: closed forms, an independent simulation with rotation matrices, and the files."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from support.exported_runs import call

from netfl.errors import ScenarioError
from netfl.network.orbits import EARTH_M, Orbits

DAY_S = 86_400.0
LIGHT_M_S = 299_792_458.0


def orbits(**changes):
    keys = {
        "satellites": 1,
        "inclination": 90.0,
        "altitude": 600e3,
        "stations": [{"latitude": 0.0, "longitude": 0.0}],
        "frequency": 2e9,
        "duration": DAY_S,
    }
    return Orbits.model_validate({**keys, **changes})


def whole(passes, duration_s=DAY_S):
    """Return the lengths of the passes that neither begin at time 0 nor end with the file."""
    inner = passes[(passes["start"] > 0.0) & (passes["end"] < duration_s)]
    return (inner["end"] - inner["start"]).to_numpy()


class TestClosedForms:
    @pytest.mark.parametrize(
        ("altitude", "elevation", "period_s", "slant_m", "angle_deg"),
        [
            (550e3, 25, 5730.13, 1123.28e3, 8.4585),
            (600e3, 10, 5792.33, 1931.64e3, 15.8361),
            (1200e3, 30, 6556.03, 1998.88e3, 13.2174),
        ],
    )
    def test_period_and_largest_range(self, altitude, elevation, period_s, slant_m, angle_deg):
        model = orbits(altitude=altitude, min_elevation=elevation)
        assert model.period_s == pytest.approx(period_s, abs=0.01)
        assert math.degrees(model.max_angle_rad) == pytest.approx(angle_deg, abs=1e-4)
        passes = model.passes()
        ends = model.ranges_m(passes["user"].to_numpy(), np.zeros(len(passes), int), passes["end"].to_numpy())
        assert ends[:-1] == pytest.approx(slant_m, abs=10.0)

    def test_pass_over_the_pole(self):
        passes = orbits(stations=[{"latitude": 90.0, "longitude": 0.0}]).passes()
        assert whole(passes) == pytest.approx(509.60, rel=1e-5)
        assert passes["highest_deg"].to_numpy() == pytest.approx(90.0, abs=1e-3)

    @pytest.mark.parametrize(("inclination", "length_s"), [(0.0, 546.326), (180.0, 477.500)])
    def test_pass_along_the_equator_of_a_turning_earth(self, inclination, length_s):
        assert whole(orbits(inclination=inclination).passes()) == pytest.approx(length_s, rel=1e-5)

    @pytest.mark.parametrize(
        ("offset_deg", "length_s", "highest"), [(0, 509.60, 90.0), (5, 484.15, 43.35), (10, 397.18, 22.20)]
    )
    def test_pass_beside_the_station(self, offset_deg, length_s, highest):
        passes = orbits(earth_turns=False, stations=[{"latitude": 0.0, "longitude": offset_deg}]).passes()
        assert whole(passes) == pytest.approx(length_s, rel=2e-5)
        assert passes["highest_deg"].iloc[1] == pytest.approx(highest, abs=0.01)

    def test_share_of_time_is_the_share_of_the_sphere(self):
        """Stations all over a sphere hear a satellite for (1 - cos γ) / 2 of the time on average."""
        rng = np.random.default_rng(5)
        stations = [
            {"latitude": float(np.degrees(np.arcsin(2 * u - 1))), "longitude": float(360 * v - 180)}
            for u, v in rng.random((60, 2))
        ]
        model = orbits(
            satellites=24, planes=6, phasing=1, inclination=75.0, stations=stations, duration=6 * model_period()
        )
        passes = model.passes()
        share = (passes["end"] - passes["start"]).sum() / (model.duration * 24 * 60)
        assert share == pytest.approx((1 - math.cos(model.max_angle_rad)) / 2, rel=0.08)


def model_period():
    return orbits().period_s


def unit_vectors(model, times_s):
    """Return where satellites and stations are, by matrices of rotation, ``[times, satellites, 3]`` and stations."""

    def about_z(angle):
        return np.array([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]])

    def about_x(angle):
        return np.array([[1, 0, 0], [0, math.cos(angle), -math.sin(angle)], [0, math.sin(angle), math.cos(angle)]])

    spread = 360.0 if model.pattern == "delta" else 180.0
    per_plane = model.satellites // model.planes
    motion = math.sqrt(3.986004418e14 / (EARTH_M + model.altitude) ** 3)
    sky, ground = [], []
    for time_s in times_s:
        places = []
        for plane in range(model.planes):
            for number in range(per_plane):
                phase = 360.0 * number / per_plane + 360.0 * model.phasing * plane / model.satellites
                angle = math.radians(phase) + motion * time_s
                at = about_z(math.radians(spread * plane / model.planes)) @ about_x(math.radians(model.inclination))
                places.append(at @ about_z(angle) @ np.array([1.0, 0.0, 0.0]))
        sky.append(places)
        turned = 7.2921159e-5 * time_s if model.earth_turns else 0.0
        ground.append(
            [
                about_z(math.radians(station.longitude) + turned)
                @ [math.cos(math.radians(station.latitude)), 0.0, math.sin(math.radians(station.latitude))]
                for station in model.stations
            ]
        )
    return np.array(sky), np.array(ground)


CONSTELLATION = {
    "satellites": 12,
    "planes": 3,
    "phasing": 2,
    "inclination": 53.0,
    "altitude": 550e3,
    "stations": [{"latitude": 48.0, "longitude": 11.6}, {"latitude": 8.0, "longitude": 2.0}],
    "duration": 20_000.0,
}


@pytest.mark.parametrize("pattern", ["delta", "star"])
@pytest.mark.parametrize("earth_turns", [True, False])
class TestAgainstMatrices:
    def test_elevations_ranges_and_passes(self, pattern, earth_turns):
        model = orbits(**CONSTELLATION, pattern=pattern, earth_turns=earth_turns)
        times_s = np.arange(0.0, 20_000.0, 7.0)
        sky, ground = unit_vectors(model, times_s)
        sight = sky[:, :, None] * model.radius_m - ground[:, None] * EARTH_M  # [times, satellites, stations, 3]
        ranges_m = np.linalg.norm(sight, axis=-1)
        elevation = np.degrees(np.arcsin((sight * ground[:, None]).sum(axis=-1) / ranges_m))

        shape = elevation.shape
        at = np.broadcast_to(times_s[:, None, None], shape)
        satellites = np.broadcast_to(np.arange(12)[None, :, None], shape)
        stations = np.broadcast_to(np.arange(2)[None, None, :], shape)
        assert model.ranges_m(satellites, stations, at) == pytest.approx(ranges_m, rel=1e-9)
        assert model.elevations(satellites, stations, at) == pytest.approx(elevation, abs=1e-6)

        is_heard = np.zeros(shape, bool)
        for row in model.passes().itertuples():
            within = (times_s >= row.start) & (times_s <= row.end)
            is_heard[within, row.user, int(row.tower.removeprefix("tower:"))] = True
        assert (is_heard == (elevation >= model.min_elevation)).all()
        assert is_heard.any()


def test_short_pass_is_found():
    """The satellite is above the horizon for 4 s between two instants of the search."""
    highest = orbits(earth_turns=False, stations=[{"latitude": 0.0, "longitude": 12.0}]).passes()["highest_deg"].max()
    model = orbits(
        earth_turns=False, stations=[{"latitude": 0.0, "longitude": 12.0}], min_elevation=float(highest - 1e-4)
    )
    lengths_s = whole(model.passes())
    assert (lengths_s < 10.0).all()
    assert (lengths_s > 0.5).all()
    assert len(lengths_s) in {14, 15}  # one in each revolution


def test_gains_are_those_of_free_space_within_passes():
    model = orbits(**CONSTELLATION, every=5.0)
    passes = model.passes()
    gains = model.gains(passes)
    ranges_m = model.ranges_m(
        gains["user"].to_numpy(),
        gains["tower"].str.removeprefix("tower:").to_numpy(int),
        gains["time_s"].to_numpy(),
    )
    assert gains["gain_db"].to_numpy() == pytest.approx(-20 * np.log10(4 * np.pi * ranges_m * 2e9 / LIGHT_M_S))
    assert gains["delay_s"].to_numpy() == pytest.approx(ranges_m / LIGHT_M_S)
    for row in passes.itertuples():
        lines = gains[(gains["user"] == row.user) & (gains["tower"] == row.tower)]["time_s"]
        inside = lines[(lines >= row.start - 1e-6) & (lines <= row.end + 1e-6)].to_numpy()
        assert inside[0] == pytest.approx(row.start, abs=1e-6)
        assert inside[-1] == pytest.approx(row.end, abs=1e-6)
        assert np.diff(inside).max() <= 5.0 + 2e-6
    first = gains.groupby(["user", "tower"])["time_s"].agg(["min", "max"])
    assert (first["min"] == 0.0).all()
    assert (first["max"] == 20_000.0).all()
    assert len(first) == 24


@pytest.mark.slow
def test_files_of_a_month_have_one_line_for_each_time(tmp_path):
    """A pass and its last line may be 50 μs apart, after millions of seconds."""
    model = orbits(
        satellites=66, planes=6, phasing=2, pattern="star", inclination=86.4, altitude=780e3, duration=30 * 86_400.0,
        stations=[{"latitude": 78.2, "longitude": 15.4}], every=10.0,
    )  # fmt: skip
    _, path = model.write(tmp_path, model.passes())
    lines = pd.read_csv(path)
    assert (lines.groupby(["user", "tower"])["time_s"].diff().dropna() > 0.0).all()
    assert lines["time_s"].max() == 30 * 86_400.0


def test_files_of_the_command(tmp_path):
    place = tmp_path / "two.yaml"
    place.write_text(
        "satellites: 4\nplanes: 2\ninclination: 97.8\naltitude: 600 km\nfrequency: 868 MHz\nduration: 12 h\n"
        "every: 20 s\nstations:\n  - {name: Kiruna, latitude: 67.9, longitude: 20.2}\n"
    )
    code, text = call("orbits", place, "--out", tmp_path / "files")
    assert code == 0
    assert "tower:0 (Kiruna): " in text
    model = orbits(
        satellites=4,
        planes=2,
        inclination=97.8,
        stations=[{"latitude": 67.9, "longitude": 20.2}],
        frequency=868e6,
        duration=43_200.0,
        every=20.0,
    )
    passes = pd.read_csv(tmp_path / "files" / "passes.csv")
    expected = model.passes()
    assert [*passes] == ["user", "tower", "start", "end"]
    assert passes["start"].to_numpy() == pytest.approx(expected["start"].to_numpy(), abs=1e-6)
    assert passes["end"].to_numpy() == pytest.approx(expected["end"].to_numpy(), abs=1e-6)
    gains = pd.read_csv(tmp_path / "files" / "gains.csv")
    assert gains["delay_s"].to_numpy() == pytest.approx(model.gains(expected)["delay_s"].to_numpy(), abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "key", "problem"),
    [
        ({"satellites": 10, "planes": 3}, "Orbits", "10 satellites cannot be spread evenly over 3 planes"),
        ({"planes": 1, "phasing": 1}, "Orbits", "phasing 1 is not below the 1 planes"),
        ({"inclination": 181.0}, "inclination", "less than or equal to 180"),
        ({"altitude": 780.0}, "altitude", "greater than or equal to 100000"),
        ({"stations": []}, "stations", ""),
        ({"stations": [{"latitude": 91.0, "longitude": 0.0}]}, "stations.0.latitude", "less than or equal to 90"),
        ({"min_elevation": 90.0}, "min_elevation", "less than 90"),
    ],
)
def test_wrong_values_are_refused(changes, key, problem):
    keys = {"satellites": 1, "inclination": 90.0, "altitude": 600e3, "frequency": 2e9, "duration": 100.0}
    stations = [{"latitude": 0.0, "longitude": 0.0}]
    with pytest.raises(ScenarioError) as error:
        Orbits(**{**keys, "stations": stations, **changes})
    assert any(key in fault.key and problem in fault.problem for fault in error.value.faults)


def test_orbits_that_no_station_hears_are_refused(tmp_path):
    model = orbits(inclination=0.0, stations=[{"latitude": 80.0, "longitude": 0.0}])
    with pytest.raises(ScenarioError, match=r"min_elevation: no satellite is 10° above the horizon of a station"):
        model.write(tmp_path / "none", model.passes())
    assert not (tmp_path / "none").exists()


def test_too_many_lines_are_refused():
    model = orbits(
        satellites=2000, planes=20, every=0.1, min_elevation=5.0, stations=[{"latitude": 60.0, "longitude": 0.0}]
    )
    with pytest.raises(ScenarioError, match=r"every: .* lines of gains, more than 20,000,000"):
        model.gains(model.passes())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("satellites: 4\naltitude: 600\n", r"o\.yaml:2: altitude: should be greater than"),
        ("satellites: 4\nfrequency: 2 Gz\n", r"o\.yaml:2: frequency: unknown unit: Gz"),
        ("satellites: 4\nstations:\n  - {latitud: 4, longitude: 2}\n", r"o\.yaml:3: stations\.0\.latitud: unknown key"),
        ("[1, 2]\n", r"o\.yaml: holds a list"),
        ("satellites: 4\nplane: 2\n", r"o\.yaml:2: plane: unknown key; did you mean 'planes'"),
    ],
)
def test_mistakes_in_the_file_are_located(tmp_path, text, message):
    place = tmp_path / "o.yaml"
    place.write_text(text)
    code, output = call("orbits", place)
    assert code == 2
    assert re.search(message, output)
