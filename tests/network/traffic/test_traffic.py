"""Traffic: amount, times and sizes of packets, compared with theory."""

from itertools import islice, pairwise

import numpy as np
import pytest
from pydantic import ValidationError

from netfl.network.traffic import MAX_BLOCK, Traffic
from netfl.network.traffic.constant import Constant
from netfl.network.traffic.on_off import OnOff
from netfl.network.traffic.poisson import Poisson
from netfl.network.traffic.saturated import Saturated
from netfl.streams import Streams
from netfl.types import Law


def read_packets(traffic, until_s, sender=0, link_bps=1e6, seed=1):
    """Return times and sizes of packets until *until_s*."""
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
    "load": Poisson(load=0.3, size={"mean": 1e5}),  # 3 packets a second at 1 Mb/s
    "constant": Constant(every=1 / 3),
    "on_off": OnOff(every=0.1, on=0.5, off=1.0),
}


@pytest.mark.parametrize(("name", "rate_hz"), [("poisson", 3), ("load", 3), ("constant", 3), ("on_off", 3.6778)])
def test_rate_matches_theory(name, rate_hz):
    """On/off: Σ P(L > 0.1 k) = 1 / (1 - e^-0.2) = 5.517 packets in a cycle of 1.5 s.

    A cycle deviates by about 5.5 packets of the burst and by 1.1 s, so 4.5 errors of 20 000 cycles are 4 %.
    """
    model, until_s = MODELS[name], 30_000.0
    count = len(read_packets(model, until_s)[0])
    expected = rate_hz * until_s
    tolerance = {"constant": 1, "on_off": 0.04 * expected}.get(name, 4.5 * np.sqrt(expected))
    assert abs(count - expected) <= tolerance
    assert model.rate_hz(1e6) == pytest.approx(rate_hz, rel=1e-4)


def test_geometric_sum_by_hand():
    assert sum(np.exp(-0.2 * k) for k in range(200)) / 1.5 == pytest.approx(3.6778, rel=1e-4)


def test_load_is_share_of_link_rate():
    for link_bps in (1e4, 1e6):
        times_s, bits = read_packets(
            Poisson(load=0.5, size={"distribution": "exponential", "mean": 800.0}),
            2000 * 800 / link_bps * 10,
            link_bps=link_bps,
        )
        carried = bits.sum() / (2000 * 800 / link_bps * 10) / link_bps
        assert abs(carried - 0.5) < 4.5 * 0.5 * np.sqrt(2 / len(times_s))


@pytest.mark.parametrize("name", MODELS)
def test_draws_depend_on_sender_and_seed(name):
    model = MODELS[name]
    first, same = read_packets(model, 50.0, sender=4)[0], read_packets(model, 50.0, sender=4)[0]
    np.testing.assert_array_equal(first, same)
    for other in (read_packets(model, 50.0, sender=5)[0], read_packets(model, 50.0, sender=4, seed=2)[0]):
        assert not np.isin(first, other).any()


@pytest.mark.parametrize("name", MODELS)
def test_sizes_are_independent_of_times(name):
    model = MODELS[name].model_copy(
        update={"size": Poisson(rate=1, size={"distribution": "exponential", "mean": 1e5}).size}
    )
    times_s, bits = read_packets(model, 5000.0)
    np.testing.assert_array_equal(times_s, read_packets(MODELS[name], 5000.0)[0])
    assert abs(bits.mean() / 1e5 - 1) < 4.5 / np.sqrt(len(bits))
    assert abs(np.corrcoef(np.diff(times_s), bits[1:])[0, 1]) < 4.5 / np.sqrt(len(bits)) or name == "constant"
    assert set(read_packets(MODELS[name], 10.0)[1]) == {MODELS[name].size.mean}


def test_poisson_across_blocks():
    """Gaps between blocks have the same distribution as other gaps."""
    blocks = [times_s for times_s, _ in islice(Poisson(rate=1.0).blocks(0, 1.0, Streams(3)), 12)]
    gaps = np.array([later[0] - earlier[-1] for earlier, later in pairwise(blocks)])
    assert (gaps > 0).all()
    assert gaps.max() < 20
    gaps_s = np.diff(np.concatenate(blocks))
    assert abs(gaps_s.mean() - 1) < 4.5 / np.sqrt(len(gaps_s))
    assert abs(gaps_s.var() - 1) < 4.5 * np.sqrt(8 / len(gaps_s))


def test_constant_traffic_does_not_drift():
    times_s = read_packets(Constant(every=0.1, synchronous=True), 2000.0)[0]
    np.testing.assert_allclose(times_s, np.arange(20_001) * 0.1, rtol=1e-14)
    first = [read_packets(Constant(every=2.0), 10.0, sender)[0][0] for sender in range(200)]
    assert 0 <= min(first) < 0.1
    assert 1.9 < max(first) < 2


@pytest.mark.slow
def test_on_off_gaps():
    """Packets of a burst are 0.1 s apart; silences of mean 10 s follow the end of a burst of mean 0.5 s."""
    times_s = read_packets(OnOff(every=0.1, on=0.5, off=10.0), 100_000.0)[0]
    gaps = np.diff(times_s)
    within = np.isclose(gaps, 0.1, atol=1e-9)
    between = gaps[~within]
    share = within.mean()  # the burst continues with probability exp(-0.2)
    assert abs(share - np.exp(-0.2)) < 4.5 * np.sqrt(0.15 / len(gaps)) + 0.001
    rest = 0.5 - 0.1 * np.exp(-0.2) / (1 - np.exp(-0.2))  # the rest of a burst after its last packet
    assert abs(between.mean() - 10 - rest) < 4.5 * 10 / np.sqrt(len(between))
    on = [read_packets(OnOff(every=0.1, on=1.0, off=3.0), 0.0, sender)[0].size for sender in range(2000)]
    assert abs(np.mean(on) - 0.25) < 4.5 * np.sqrt(0.1875 / 2000)


@pytest.mark.parametrize(
    ("model", "overrides"),
    [
        (Poisson, {}),
        (Poisson, {"rate": 1, "load": 0.5}),
        (Poisson, {"rate": 0}),
        (Poisson, {"rate": 1e12}),
        (Constant, {"every": 0}),
        (Constant, {"every": 1e-12}),
        (OnOff, {"every": 1e-12, "on": 1, "off": 1}),
        (OnOff, {"every": 1, "on": 0, "off": 1}),
        (Saturated, {"source": "towers"}),
        (Saturated, {"buffer": 3}),
        (Poisson, {"rate": 1, "buffer": 0}),
        (Poisson, {"rate": 1, "priority": -1}),
        (Poisson, {"rate": 1, "size": {"mean": 0}}),
    ],
)
def test_invalid_settings_are_rejected(model, overrides):
    with pytest.raises(ValidationError):
        model.model_validate(overrides)


def test_on_off_packets_of_long_bursts_come_in_blocks_of_bounded_size():
    """Blocks are read as they are needed, so that a burst of 10^15 packets takes no more memory than another one."""
    traffic = OnOff(every=1e-9, on=1e6, off=1.0)
    blocks = traffic.times_s(1e6, Streams(1).rng("times"))
    times_s = np.concatenate([*islice(blocks, 3)])
    assert len(times_s) == 3 * MAX_BLOCK
    np.testing.assert_allclose(np.diff(times_s), 1e-9, rtol=1e-6)
    endless = OnOff(every=1e-9, on=1e300, off=1.0)
    assert len(next(endless.times_s(1e6, Streams(1).rng("times")))) == MAX_BLOCK


def test_on_off_packets_are_those_of_their_bursts():
    """The k-th packet of a burst arrives (k - 1) every after its start, also where a block ends within a burst."""
    traffic = OnOff(every=0.001, on=2.0, off=1.0)
    starts_s, packets = next(traffic._bursts(Streams(2).rng("times")))
    assert packets.sum() > MAX_BLOCK
    expected_s = np.concatenate(
        [start_s + 0.001 * np.arange(count) for start_s, count in zip(starts_s, packets, strict=True)]
    )
    blocks = [*islice(traffic.times_s(1e6, Streams(2).rng("times")), 2)]
    assert len(blocks[0]) == MAX_BLOCK
    np.testing.assert_array_equal(np.concatenate(blocks), expected_s)


@pytest.mark.parametrize("name", [*MODELS])
def test_first_times_are_those_of_blocks(name):
    """The network asks for first arrivals of all users at once; also of a model that states its blocks only."""
    senders = [3, 0, 11]
    first_s = MODELS[name].first_times_s(senders, 1e6, Streams(5))
    assert first_s.tolist() == [next(MODELS[name].blocks(sender, 1e6, Streams(5)))[0][0] for sender in senders]
    assert Traffic.first_times_s(MODELS[name], senders, 1e6, Streams(5)).tolist() == first_s.tolist()


def test_sender_without_packets_has_no_first_time():
    class Silent(Traffic):
        def times_s(self, link_bps, rng):
            yield np.empty(0)

        def laws(self):
            return (Law.none("draws nothing"),)

    assert Silent().first_times_s([0], 1.0, Streams(1)).tolist() == [np.inf]
