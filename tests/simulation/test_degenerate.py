"""Extreme values: zero distance, no signal, no deliveries, no users; results contain no NaN."""

import json

import numpy as np
import pytest
from golden import NETWORK
from testing.test_laws import from_example

import netfl
from netfl.core.kinds import list_kinds
from netfl.errors import ScenarioError
from netfl.network.channel import Channel
from netfl.network.placement.listed import Listed
from netfl.network.reception import Reception
from netfl.network.topology.star import Star
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.streams import RandomField, Streams, _unit

STREAMS = Streams(3)
CVAR = {"kind": "cvar", "alpha": 0.3, "gamma": 0.1, "lr_t": 0.02}
LEARNER = {"aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}
MEASURED = {"trace", "radio_map"}
"""Channels whose files give the gain at every distance."""
LONG_OUTAGE = {"distribution": "fixed", "mean": "1e9 s"}


def run(folder, has_learners=False, **overrides):
    learning = {
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 80}, "partition": "iid", "model": "logistic",
        "learners": {"A": LEARNER | {"objective": "erm"}, "B": LEARNER | {"objective": CVAR}},
    }  # fmt: skip
    access = NETWORK | {"round": {"kind": "first", "m": 2, "deadline": "1 min"}, **overrides}
    settings = {
        "name": "edge",
        "users": 4,
        "rounds": 5,
        "record": "all",
        "access": access,
        **(learning if has_learners else {}),
    }
    scenario = validate(ScenarioDocument(settings, "edge"))
    return netfl.run(scenario, folder, device="cpu") if has_learners else netfl.trace(scenario, folder)


@pytest.mark.parametrize("kind", [kind for kind in list_kinds(Channel) if kind not in MEASURED])
def test_user_at_the_tower_has_a_channel(kind):
    """Zero distance counts as the shortest valid distance, or is refused."""
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


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("kind", list_kinds(Reception))
@pytest.mark.parametrize("bits", [1.0, 1e12])
def test_success_probability_is_valid_for_any_signal(kind, bits):
    """The probability increases with the SNR, from no signal to no noise."""
    model = from_example("network/reception", kind)
    snr_db = np.array([-np.inf, -1e5, -3000.0, -30.0, 0.0, 30.0, 3000.0, 1e5, np.inf])
    modes = model.choose(snr_db, 125e3)
    assert ((modes >= 0) & (modes < model.modes)).all()
    for mode in range(model.modes):
        chance = model.success(snr_db, 125e3, bits, mode)
        assert ((chance >= 0) & (chance <= 1)).all()
        assert (np.diff(chance) >= 0).all()
        assert chance[-1] == 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_extreme_draws_have_finite_logarithms():
    ends = np.array([0, 2**32 - 1], np.uint64)
    uniform = _unit(ends, ends)
    assert 0 < uniform[0] < uniform[1] < 1
    assert np.isfinite(np.log(uniform)).all()
    assert (-np.log(uniform) > 0).all()
    assert np.isfinite(np.log10(-np.log(uniform))).all()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("probability", [5e-324, 1e-300, 1e-17, 1 - 2**-53, 1.0])
def test_geometric_draws_of_small_probabilities_are_integers(probability):
    waits = RandomField((1, 2)).geometric(probability, np.arange(1000))
    assert waits.min() >= 1
    assert waits.max() <= 2**62


@pytest.mark.parametrize(
    "overrides",
    [
        {"radio": {"power": "-200 dBm", "bandwidth": "125 kHz"}},
        {"channel": [{"kind": "constant", "gain": "-10000 dB"}]},
        {
            "outages": [
                {
                    "kind": "renewal",
                    "nodes": "users",
                    "up": {"distribution": "fixed", "mean": "1 ms"},
                    "down": LONG_OUTAGE,
                }
            ]
        },
    ],
    ids=["too weak", "no power", "all unavailable"],
)
def test_rounds_without_deliveries_end_at_the_deadline_and_keep_the_model(overrides, tmp_path):
    result = run(tmp_path / "run", has_learners=True, **overrides)
    assert result.rounds.delivered.tolist() == [0] * 5
    assert (result.rounds.closed_s - result.rounds.opened_s).tolist() == pytest.approx([60.0] * 5)
    assert not result.rounds.drop(columns="energy_J").isna().any(axis=None)
    assert not result.metrics.isna().any(axis=None)
    losses = result.metrics.query("metric == 'loss' and group == ''").groupby("learner", observed=True).value
    assert (losses.nunique() == 1).all()
    assert "NaN" not in (result.folder / "summary.json").read_text()
    assert json.loads((result.folder / "summary.json").read_text())["delay_mean_s"] is None


@pytest.mark.parametrize(("gain_db", "delivered"), [(0.0, 2), (float(np.nextafter(0.0, -1)), 0)])
def test_signal_at_the_threshold_is_received(gain_db, delivered, tmp_path):
    """An SNR of 0 dB meets a threshold of 0 dB; the next smaller number does not."""
    overrides = {
        "radio": {"power": "0 dBm", "bandwidth": 1.0, "noise_figure": "174 dB"}, "mac": "tdma",
        "channel": [{"kind": "constant", "gain": f"{gain_db!r} dB"}],
        "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "20 kbps"},
    }  # fmt: skip
    assert set(run(tmp_path / "run", **overrides).rounds.delivered) == {delivered}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("gain", "delivered"), [("10000 dB", 2), ("-10000 dB", 0)])
@pytest.mark.parametrize("interference", ["sinr", {"kind": "capture", "margin": "1 dB"}], ids=str)
def test_interference_with_extreme_gains(interference, gain, delivered, tmp_path):
    """Four signals of equal power have -4.8 dB each for any gain; none captures the tower."""
    overrides = {
        "mac": {"kind": "slotted_aloha", "probability": 1.0 if interference == "sinr" else 0.3},
        "interference": interference,
        "channel": [{"kind": "constant", "gain": gain}], "unreachable": "keep",
        "reception": {"kind": "snr_threshold", "threshold": "-5 dB", "rate": "20 kbps"},
        "compute": {"speed": 10.0, "samples": 50},
    }  # fmt: skip
    assert run(tmp_path / "run", **overrides).rounds.delivered.tolist() == [delivered] * 5


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_capture_with_an_extreme_threshold_never_occurs(tmp_path):
    """A difference of 40 dB is below both thresholds; frames without collision are received."""
    overrides = {
        "mac": {"kind": "slotted_aloha", "probability": 0.5}, "topology": {"kind": "star", "distances": [1, 1, 50, 50]},
        "compute": {"speed": 10.0, "samples": 50},
    }  # fmt: skip
    high_threshold, lower_threshold = (
        run(tmp_path / margin, **overrides, interference={"kind": "capture", "margin": margin})
        for margin in ("1e6 dB", "900 dB")
    )
    assert high_threshold.deliveries.equals(lower_threshold.deliveries)
    assert len(high_threshold.deliveries) == 10
    capture = {"kind": "capture", "margin": "3 dB"}
    ratio = run(tmp_path / "ratio", **overrides, interference=capture)
    assert not high_threshold.deliveries.equals(ratio.deliveries)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("adaptive", [{"probability": 0.3}, {"adaptive": "known"}, {"adaptive": "pseudo_bayesian"}])
def test_large_slot_numbers_do_not_overflow(adaptive, tmp_path):
    """Training takes 1e12 s, or 4e18 slots, so no round has a delivery before its deadline."""
    overrides = {
        "mac": {"kind": "slotted_aloha", "slot": 2.5e-7} | adaptive,
        "compute": {"speed": 1.0, "samples": 1e12},
    }
    result = run(tmp_path / "run", update_size=1e-5, **overrides)
    assert result.rounds.delivered.tolist() == [0] * 5
    assert result.rounds.closed_s.tolist() == [60.0 * index for index in range(1, 6)]
