"""Doubts about quantities that are probably a mistake in their unit: what is doubted, and what never is."""

import pytest

from netfl.scenario.scenario import load
from netfl.units import Unit

TEXT = """
name: cell
users: 3
rounds: 5
access:
  kind: network
  round: {kind: first, m: 1, deadline: 10 s}
  topology: {kind: star, radius: 500 m, rate: 1 Gbps, delay: 5 ms}
  radio: {power: 14 dBm, bandwidth: 125 kHz, noise_figure: 6 dB}
  channel: [{kind: log_distance, exponent: 3, frequency: 868 MHz}]
  reception: {kind: snr_threshold, threshold: -7.5 dB, rate: 5.5 kbps}
  mac: {kind: slotted_aloha, probability: 0.1}
  compute: {frequency: 1 GHz, cycles: 1e6, samples: 10}
  energy: {transmit: 300 mW, capacitance: 1e-28}
  broadcast_rate: 11 kbps
  update_size: 1 kB
"""


def doubts(key, value):
    return [(fault.key, fault.problem, fault.remedy) for fault in load(TEXT, {key: value}).doubts()]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("access.topology.radius", 2, "(2 m), which is unusual for the extent of a network"),
        ("access.topology", {"kind": "star", "distance": 0.3}, "(0.3 m)"),
        ("access.topology", {"kind": "star", "distances": [0.2, 0.4, 1.1]}, "(1.1 m)"),
        ("access.topology", {"kind": "tree", "fanout": [2], "ring": 3, "radius": 4}, "which is unusual for the extent"),
        ("access.topology", {"kind": "star", "placement": {"kind": "rectangle", "width": 0.5, "height": 0.5}}, "0.5 m"),
        ("access.topology.delay", 5, "above 2 s (5 s), which is unusual for the delay of a link"),
        ("access.topology.rate", 10, "not between 100 bit/s and 10 Tbps (10 bit/s)"),
        ("access.radio.bandwidth", 125, "(125 Hz), which is unusual for a bandwidth"),
        ("access.radio.bandwidth", [125, 125, "125 kHz"], "(2 of 3 values, the first 125 Hz)"),
        ("access.radio.bandwidth", {"distribution": "uniform", "low": 125, "high": 250e3}, "(125 Hz)"),
        ("access.radio.noise_figure", "60 dB", "above 30 dB (60 dB), which is unusual for a noise figure"),
        ("access.radio.power", "2 kW", "not between 1 nW and 1 kW (63.0103 dBm)"),
        ("access.channel", [{"kind": "free_space", "frequency": "868 kHz"}], "not between 30 MHz and 300 GHz"),
        ("access.reception.rate", 5.5, "(5.5 bit/s)"),
        ("access.broadcast_rate", 11, "(11 bit/s)"),
        ("access.update_size", 28.1, "(28.1 bit), which is unusual for the size of an update"),
        ("access.compute.frequency", 2, "(2 Hz), which is unusual for a processor"),
        ("access.energy.transmit", 300, "(300 W), which is unusual for the power of a user's radio"),
        ("access.round.deadline", 4e9, "not between 1 ns and 100 years (4e+09 s)"),
        ("access.motion", {"kind": "random_waypoint", "radius": 900, "speed": [500, 900]}, "the speed of a user"),
    ],
)
def test_forgotten_prefixes_are_doubted(key, value, words):
    found = doubts(key, value)
    assert found
    for place, problem, remedy in found:
        assert place.startswith(key)
        assert words in problem
        assert remedy == "check its unit"


@pytest.mark.parametrize(("text", "number"), [("14 W", "14"), ("23 watts", "23"), ("10W", "10")])
def test_watts_of_a_user_are_doubted_as_they_are_written(text, number):
    ((key, problem, remedy),) = doubts("access.radio.power", text)
    assert key == "access.radio.power"
    assert problem.startswith(f"{text} (4")
    assert remedy == f"write '{number} dBm' if that is meant"
    ((_, problem, _),) = doubts("access.radio.power", ["14 dBm", text, text])
    assert problem.startswith(f"{text} (4")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("access.radio.power", "45 dBm"),
        ("access.radio.power", "14000 mW"),
        ("access.radio.power", "2 W"),
        ("access.radio.tower", {"antenna_gain": "17 dB"}),
        ("access.radio.bandwidth", "3.75 kHz"),
        ("access.topology", {"kind": "star", "distances": [0.5, 2, 60]}),
        ("access.topology.radius", "600 km"),
        ("access.topology.delay", 0),
        ("access.topology.rate", 1e9),
        ("access.update_size", "10 B"),
    ],
)
def test_usual_values_are_not_doubted(key, value):
    assert doubts(key, value) == []


def test_doubt_has_its_line(tmp_path):
    path = tmp_path / "cell.yaml"
    path.write_text(TEXT.replace("125 kHz", "125 Hz"))
    (fault,) = load(path).doubts()
    assert str(fault).startswith(f"{path}:9: access.radio.bandwidth: not between 1 kHz and 100 GHz (125 Hz)")


def test_defaults_are_not_doubted_even_if_they_are_written(tmp_path):
    """A resolved scenario, as of a run's folder, has all keys."""
    file = tmp_path / "net.graphml"
    file.write_text("")
    resolved = load(load(TEXT).to_yaml())
    assert resolved.doubts() == []
    defaults = load(TEXT, {"access.topology": {"kind": "star", "radius": 500, "rate": 1e9, "delay": 0.005}})
    assert defaults.doubts() == []


def test_quantity_without_usual_values_is_an_error():
    with pytest.raises(ValueError, match="no quantity with usual values: 'a mood'"):
        Unit("s", "a mood")
