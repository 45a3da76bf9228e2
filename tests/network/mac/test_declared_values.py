"""Values of users that a MAC declares: what it may read, and what `netfl check` says of it."""

import numpy as np
import pytest
from support.small_network import make

from netfl.errors import ScenarioError
from netfl.network.mac.fdma import Fdma
from netfl.network.mac.lorawan import Lorawan
from netfl.network.mac.max_snr import MaxSnr
from netfl.network.mac.proportional_fair import ProportionalFair
from netfl.network.mac.round_robin import RoundRobin
from netfl.network.radio.bench import BenchSetup, MacTestBench, saturated_users
from netfl.streams import Streams

HOUR = {"distribution": "exponential", "mean": "1 h"}
OUTAGE = {"kind": "renewal", "nodes": "users", "up": HOUR, "down": HOUR}


def bench_of(mac):
    return MacTestBench(BenchSetup(mac, 3, 1.0, Streams(1)), saturated_users)


def test_cell_gives_the_declared_values_and_no_others():
    cell = bench_of(ProportionalFair(window=10.0, rate="airtime")).cell
    users = np.arange(3)
    assert cell.airtimes_s(users).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(
        ScenarioError, match="it reads snr_db of users, but declares rate_bps; add snr_db to `observes`"
    ):
        cell.snr_db(users)


def test_tower_has_the_present_values_whatever_the_mac_declares():
    access, context, _ = make(3, 1, mac="round_robin")
    network = access.open(context).network
    (tower,) = network._towers.values()
    with pytest.raises(ScenarioError, match="declares nothing"):
        tower.cell.snr_db(np.arange(3))
    assert tower.present.snr_db(np.arange(3)).tolist() == network.state().snr_db.tolist()


def test_a_mac_that_asks_for_metrics_reads_these_alone():
    mac = {"kind": "adaptive_aloha", "channels": 2, "metric": "age"}
    access, _, _ = make(2, 1, mac=mac)
    cell = bench_of(access.mac).cell
    assert cell.user_metrics.get("age") is None, "nothing is known before the first round"
    cell.user_metrics = {"age": np.ones(3)}
    assert cell.user_metrics["age"].tolist() == [1.0, 1.0, 1.0]
    assert dict(cell.user_metrics).keys() == {"age"}
    with pytest.raises(ScenarioError, match="it reads loss of users, but declares age; add loss to `user_metrics`"):
        cell.user_metrics.get("loss")


@pytest.mark.parametrize(
    ("mac", "declared"),
    [
        (RoundRobin(), set()),
        (MaxSnr(), {"snr_db"}),
        (ProportionalFair(window=1.0), {"snr_db"}),
        (ProportionalFair(window=1.0, rate="airtime"), {"rate_bps"}),
        (Fdma(among="users"), set()),
        (Fdma(), {"user_up"}),
        (Fdma(division="need"), {"snr_db", "rate_bps", "user_up"}),
        (Fdma(division="water_filling"), {"snr_db", "user_up"}),
        (Fdma(division="allocated"), set()),
    ],
)
def test_schedulers_declare_what_they_read(mac, declared):
    assert mac.declared == declared
    assert mac.observer == "tower"
    bench = bench_of(mac)
    bench.env.run(until=20.5)
    assert len(bench.deliveries) > 10


@pytest.mark.parametrize(
    ("overrides", "seen"),
    [
        ({"mac": "max_snr"}, "the present snr_db of users"),
        ({"mac": {"kind": "max_snr", "poll": "1 ms"}}, None),
        ({"mac": {"kind": "fdma", "division": "water_filling"}}, "the present snr_db of users"),
        ({"mac": {"kind": "fdma", "among": "backlog"}}, None),
        ({"mac": {"kind": "fdma", "among": "backlog"}, "outages": [OUTAGE]}, "the present user_up of users"),
        ({"mac": {"kind": "slotted_aloha", "adaptive": "known"}}, "the present backlog of users"),
        ({"mac": {"kind": "slotted_aloha", "adaptive": "backoff"}}, None),
        ({"mac": {"kind": "pure_aloha", "backoff": "5 s"}}, None),
    ],
)
def test_check_names_what_a_tower_sees_for_nothing(overrides, seen):
    access, context, _ = make(3, 1, **overrides)
    texts = [text for text in access.warnings(context) if "without cost or delay" in text]
    if seen is None:
        assert texts == []
    else:
        (text,) = texts
        assert seen in text


def test_each_user_reads_its_own_signal():
    assert Lorawan().declared == {"snr_db"}
    assert Lorawan().observer == "users"
    assert Lorawan(spreading_factor=7).declared == set()
