"""At the edge of what numbers can hold: no distance, no signal, nobody heard, nobody there; no NaN comes of it."""

import json

import numpy as np
import pytest
from golden import NETWORK
from testing.test_laws import from_example

import netfl
from netfl.errors import ScenarioError
from netfl.network.channel import Channel
from netfl.network.placement.listed import Listed
from netfl.network.reception import Reception
from netfl.network.topology.star import Star
from netfl.registry import list_kinds
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.streams import RandomField, Streams, _unit

STREAMS = Streams(3)
CVAR = {"kind": "cvar", "alpha": 0.3, "gamma": 0.1, "lr_t": 0.02}
LEARNER = {"aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}
GONE = {"distribution": "fixed", "mean": "1e9 s"}


def run(folder, learns=False, **said):
    taught = {
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 80}, "partition": "iid", "model": "logistic",
        "learners": {"A": LEARNER | {"objective": "erm"}, "B": LEARNER | {"objective": CVAR}},
    }  # fmt: skip
    access = NETWORK | {"round": {"kind": "first", "m": 2, "deadline": "1 min"}, **said}
    whole = {"name": "edge", "users": 4, "rounds": 5, "record": "all", "access": access, **(taught if learns else {})}
    scenario = validate(ScenarioDocument(whole, "edge"))
    return netfl.run(scenario, folder, device="cpu") if learns else netfl.trace(scenario, folder)


@pytest.mark.parametrize("kind", list_kinds(Channel))
def test_a_user_on_the_tower_itself_has_a_channel(kind):
    """Losses over no distance are those of the nearest that a model holds for, if that is not refused."""
    sites = Star(placement=Listed(positions=((0.0, 0.0), (0.0, 0.0)))).open(2, STREAMS)
    model = from_example("network/channel", kind)
    if kind in {"free_space", "two_ray"}:
        with pytest.raises(ScenarioError, match="valid only in the far field"):
            model.open(sites, STREAMS)
        return
    gain = model.open(sites, STREAMS)
    for time_s in (0.0, 10.0):
        gain_db = gain.gain_db(np.arange(2), time_s)
        assert not np.isnan(gain_db).any()
        assert (gain_db < np.inf).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", list_kinds(Reception))
@pytest.mark.parametrize("bits", [1.0, 1e12])
def test_signals_of_any_strength_have_a_chance_that_is_one(kind, bits):
    """From no signal at all to one without noise; the stronger is never less likely."""
    model = from_example("network/reception", kind)
    snr_db = np.array([-np.inf, -1e5, -3000.0, -30.0, 0.0, 30.0, 3000.0, 1e5, np.inf])
    modes = model.choose(snr_db, 125e3)
    assert ((modes >= 0) & (modes < model.modes)).all()
    for mode in range(model.modes):
        chance = model.success(snr_db, 125e3, bits, mode)
        assert ((chance >= 0) & (chance <= 1)).all()
        assert (np.diff(chance) >= 0).all()
        assert chance[-1] == 1


@pytest.mark.filterwarnings("error")
def test_draws_at_both_ends_have_logarithms():
    ends = np.array([0, 2**32 - 1], np.uint64)
    uniform = _unit(ends, ends)
    assert 0 < uniform[0] < uniform[1] < 1
    assert np.isfinite(np.log(uniform)).all()
    assert (-np.log(uniform) > 0).all()
    assert np.isfinite(np.log10(-np.log(uniform))).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("probability", [5e-324, 1e-300, 1e-17, 1 - 2**-53, 1.0])
def test_waits_for_what_hardly_ever_happens_are_whole_numbers(probability):
    waits = RandomField((1, 2)).geometric(probability, np.arange(1000))
    assert waits.min() >= 1
    assert waits.max() <= 2**62


@pytest.mark.parametrize(
    "said",
    [
        {"radio": {"power": "-200 dBm", "bandwidth": "125 kHz"}},
        {"channel": [{"kind": "constant", "gain": "-10000 dB"}]},
        {
            "outages": [
                {"kind": "renewal", "nodes": "users", "up": {"distribution": "fixed", "mean": "1 ms"}, "down": GONE}
            ]
        },
    ],
    ids=["too weak", "no power at all", "all away"],
)
def test_rounds_in_which_nobody_is_heard_end_by_their_deadline_and_teach_nothing(said, tmp_path):
    done = run(tmp_path / "run", learns=True, **said)
    assert done.rounds.delivered.tolist() == [0] * 5
    assert (done.rounds.closed_s - done.rounds.opened_s).tolist() == pytest.approx([60.0] * 5)
    assert not done.rounds.drop(columns="energy_J").isna().any(axis=None)
    assert not done.metrics.isna().any(axis=None)
    losses = done.metrics.query("metric == 'loss' and group == ''").groupby("learner", observed=True).value
    assert (losses.nunique() == 1).all()
    assert "NaN" not in (done.folder / "summary.json").read_text()
    assert json.loads((done.folder / "summary.json").read_text())["delay_mean_s"] is None


@pytest.mark.parametrize(("gain_db", "heard"), [(0.0, 2), (float(np.nextafter(0.0, -1)), 0)])
def test_a_signal_at_the_very_threshold_is_received(gain_db, heard, tmp_path):
    """SNR 0 dB at a threshold of 0 dB: 1 in 1; a bit less is too little."""
    said = {
        "radio": {"power": "0 dBm", "bandwidth": 1.0, "noise_figure": "174 dB"}, "mac": "tdma",
        "channel": [{"kind": "constant", "gain": f"{gain_db!r} dB"}],
        "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "20 kbps"},
    }  # fmt: skip
    assert set(run(tmp_path / "run", **said).rounds.delivered) == {heard}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("gain", "heard"), [("10000 dB", 2), ("-10000 dB", 0)])
@pytest.mark.parametrize("air", [{"interference": "sinr"}, {"capture": "1 dB"}], ids=str)
def test_signals_past_all_numbers_meet_as_any_others_do(air, gain, heard, tmp_path):
    """Four of one strength at once are at -4.8 dB each, however strong; none of them captures the tower."""
    said = {
        "mac": {"kind": "slotted_aloha", "probability": 1.0 if "interference" in air else 0.3}, **air,
        "channel": [{"kind": "constant", "gain": gain}], "unreachable": "keep",
        "reception": {"kind": "snr_threshold", "threshold": "-5 dB", "rate": "20 kbps"},
        "compute": {"speed": 10.0, "samples": 50},
    }  # fmt: skip
    assert run(tmp_path / "run", **said).rounds.delivered.tolist() == [heard] * 5


@pytest.mark.filterwarnings("error")
def test_a_capture_past_all_numbers_is_none(tmp_path):
    """Two of equal strength never, and one of 40 dB more not by a million, but alone as ever."""
    said = {
        "mac": {"kind": "slotted_aloha", "probability": 0.5}, "topology": {"kind": "star", "distances": [1, 1, 50, 50]},
        "compute": {"speed": 10.0, "samples": 50},
    }  # fmt: skip
    never, hardly = (run(tmp_path / str(capture), **said, capture=capture) for capture in ("1e6 dB", "900 dB"))
    assert never.deliveries.equals(hardly.deliveries)
    assert len(never.deliveries) == 10
    assert not never.deliveries.equals(run(tmp_path / "ratio", **said, capture="3 dB").deliveries)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("adaptive", [{"probability": 0.3}, {"adaptive": "known"}, {"adaptive": "pseudo_bayesian"}])
def test_slots_are_counted_as_far_as_whole_numbers_go(adaptive, tmp_path):
    """Training for 1e12 s, which are 4e18 slots: no round before its deadline brings anything."""
    said = {"mac": {"kind": "slotted_aloha", "slot": 2.5e-7} | adaptive, "compute": {"speed": 1.0, "samples": 1e12}}
    done = run(tmp_path / "run", update_size=1e-5, **said)
    assert done.rounds.delivered.tolist() == [0] * 5
    assert done.rounds.closed_s.tolist() == [60.0 * index for index in range(1, 6)]
