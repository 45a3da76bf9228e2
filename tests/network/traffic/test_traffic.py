"""Traffic: how much comes, when, and how large; against theory and not against its own formula."""

from itertools import islice, pairwise

import numpy as np
import pytest
from pydantic import ValidationError

from netfl.network.traffic.constant import Constant
from netfl.network.traffic.on_off import OnOff
from netfl.network.traffic.poisson import Poisson
from netfl.network.traffic.saturated import Saturated
from netfl.streams import Streams


def taken(traffic, until_s, sender=0, link_bps=1e6, seed=1):
    """Instants and sizes of what comes until then."""
    times, sizes = [np.empty(0)], [np.empty(0)]
    for times_s, bits in traffic.blocks(sender, link_bps, Streams(seed)):
        assert len(times_s) == len(bits)
        times.append(times_s)
        sizes.append(bits)
        if len(times_s) and times_s[-1] > until_s:
            break
    times_s, bits = np.concatenate(times), np.concatenate(sizes)
    assert (np.diff(times_s) >= 0).all(), "in order"
    return times_s[times_s <= until_s], bits[times_s <= until_s]


MODELS = {
    "poisson": Poisson(rate=3.0),
    "load": Poisson(load=0.3, size={"mean": 1e5}),  # of 1 Mb/s: 3 packets a second
    "constant": Constant(every=1 / 3),
    "on_off": OnOff(every=0.1, on=0.5, off=1.0),
}


@pytest.mark.parametrize(("name", "rate_hz"), [("poisson", 3), ("load", 3), ("constant", 3), ("on_off", 3.6778)])
def test_as_much_comes_as_theory_says(name, rate_hz):
    """On/off: Σ P(L > 0.1 k) = 1 / (1 - e^-0.2) = 5.517 packets in a cycle of 1.5 s.  A cycle has a deviation of
    about 5.5 packets of the burst and 1.1 s, which is some 10 of 5.5 packets: 4.5 errors of 20 000 cycles are 4 %."""
    model, until_s = MODELS[name], 30_000.0
    count = len(taken(model, until_s)[0])
    expected = rate_hz * until_s
    slack = {"constant": 1, "on_off": 0.04 * expected}.get(name, 4.5 * np.sqrt(expected))
    assert abs(count - expected) <= slack
    assert model.rate_hz(1e6) == pytest.approx(rate_hz, rel=1e-4)


def test_the_geometric_sum_by_hand():
    assert sum(np.exp(-0.2 * k) for k in range(200)) / 1.5 == pytest.approx(3.6778, rel=1e-4)


def test_a_load_is_a_share_of_the_link():
    for link_bps in (1e4, 1e6):
        times_s, bits = taken(
            Poisson(load=0.5, size={"distribution": "exponential", "mean": 800.0}),
            2000 * 800 / link_bps * 10,
            link_bps=link_bps,
        )
        carried = bits.sum() / (2000 * 800 / link_bps * 10) / link_bps
        assert abs(carried - 0.5) < 4.5 * 0.5 * np.sqrt(2 / len(times_s))


@pytest.mark.parametrize("name", MODELS)
def test_senders_and_seeds_have_their_own_and_again_the_same(name):
    model = MODELS[name]
    here, again = taken(model, 50.0, sender=4)[0], taken(model, 50.0, sender=4)[0]
    np.testing.assert_array_equal(here, again)
    for other in (taken(model, 50.0, sender=5)[0], taken(model, 50.0, sender=4, seed=2)[0]):
        assert not np.isin(here, other).any()


@pytest.mark.parametrize("name", MODELS)
def test_sizes_do_not_hang_on_the_instants(name):
    model = MODELS[name].model_copy(
        update={"size": Poisson(rate=1, size={"distribution": "exponential", "mean": 1e5}).size}
    )
    times_s, bits = taken(model, 5000.0)
    np.testing.assert_array_equal(times_s, taken(MODELS[name], 5000.0)[0])
    assert abs(bits.mean() / 1e5 - 1) < 4.5 / np.sqrt(len(bits))
    assert abs(np.corrcoef(np.diff(times_s), bits[1:])[0, 1]) < 4.5 / np.sqrt(len(bits)) or name == "constant"
    assert set(taken(MODELS[name], 10.0)[1]) == {MODELS[name].size.mean}


def test_poisson_across_blocks():
    """Gaps from the end of one block to the beginning of the next are as all others."""
    blocks = [times_s for times_s, _ in islice(Poisson(rate=1.0).blocks(0, 1.0, Streams(3)), 12)]
    gaps = np.array([after[0] - before[-1] for before, after in pairwise(blocks)])
    assert (gaps > 0).all()
    assert gaps.max() < 20
    everything = np.diff(np.concatenate(blocks))
    assert abs(everything.mean() - 1) < 4.5 / np.sqrt(len(everything))
    assert abs(everything.var() - 1) < 4.5 * np.sqrt(8 / len(everything))


def test_constant_is_even_and_does_not_drift():
    times_s = taken(Constant(every=0.1, synchronous=True), 2000.0)[0]
    np.testing.assert_allclose(times_s, np.arange(20_001) * 0.1, rtol=1e-14)
    first = [taken(Constant(every=2.0), 10.0, sender)[0][0] for sender in range(200)]
    assert 0 <= min(first) < 0.1
    assert 1.9 < max(first) < 2


@pytest.mark.slow
def test_on_off_by_its_bursts():
    """Within a burst packets are 0.1 apart; silences of mean 10 follow the end of a burst of mean 0.5."""
    times_s = taken(OnOff(every=0.1, on=0.5, off=10.0), 100_000.0)[0]
    gaps = np.diff(times_s)
    within = np.isclose(gaps, 0.1, atol=1e-9)
    between = gaps[~within]
    share = within.mean()  # one more packet in the burst with exp(-0.2), whatever there was before
    assert abs(share - np.exp(-0.2)) < 4.5 * np.sqrt(0.15 / len(gaps)) + 0.001
    rest = 0.5 - 0.1 * np.exp(-0.2) / (1 - np.exp(-0.2))  # of a burst after its last packet
    assert abs(between.mean() - 10 - rest) < 4.5 * 10 / np.sqrt(len(between))
    on = [taken(OnOff(every=0.1, on=1.0, off=3.0), 0.0, sender)[0].size for sender in range(2000)]
    assert abs(np.mean(on) - 0.25) < 4.5 * np.sqrt(0.1875 / 2000)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Poisson, {}),
        (Poisson, {"rate": 1, "load": 0.5}),
        (Poisson, {"rate": 0}),
        (Constant, {"every": 0}),
        (OnOff, {"every": 1, "on": 0, "off": 1}),
        (Saturated, {"source": "towers"}),
        (Saturated, {"buffer": 3}),
        (Poisson, {"rate": 1, "buffer": 0}),
        (Poisson, {"rate": 1, "priority": -1}),
        (Poisson, {"rate": 1, "size": {"mean": 0}}),
    ],
)
def test_what_is_refused(model, said):
    with pytest.raises(ValidationError):
        model.model_validate(said)
