"""Several receivers of one frame: the law of their union, who passes a copy on, and outages of single towers."""

import copy
import math
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from support.roaming_networks import BUSY, USERS
from support.small_network import make

import netfl
from netfl.errors import ScenarioError
from netfl.network.build import build_layout, build_network, open_budget
from netfl.network.simulator import NetworkSimulator
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import access_context

NODES = {
    "server": {"role": "server", "position": [0, 0]},
    "tower:0": {"role": "tower", "position": [0, 0]},
    "tower:1": {"role": "tower", "position": [600, 0]},
    "tower:2": {"role": "tower", "position": [0, 700]},
}
TOWERS = ("tower:0", "tower:1", "tower:2")
THRESHOLD_DB = 6.0
CLEAR = [{"kind": "constant", "gain": "-60 dB"}]
DOWN = [
    {"kind": "maintenance", "windows": [{"nodes": ["tower:0"], "start": "2 s", "duration": "2 s", "every": "10 s"}]}
]
ROUNDS = {
    "traffic": None,
    "round": {"kind": "available", "deadline": "1 s"},
    "compute": {"speed": 100, "samples": 5},
    "broadcast_rate": "1 Mbps",
    "update_size": "1 kbit",
}


def scenario(delays=("3 ms", "1 ms", "2 ms"), places=((280, 250),), nodes=NODES, **access):
    """Return users at *places* among three towers, whose links to the server have these *delays*."""
    network = {
        "kind": "network",
        "topology": {
            "kind": "inline",
            "nodes": nodes,
            "links": [
                {"between": [tower, "server"], "rate": "1 Gbps", "delay": delay}
                for tower, delay in zip(TOWERS, delays, strict=True)
            ],
            "placement": {"kind": "listed", "positions": [list(place) for place in places]},
        },
        "radio": {"power": "12 dBm", "bandwidth": "180 kHz", "noise_figure": "5 dB"},
        "channel": [
            {"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"},
            {"kind": "rayleigh", "coherence": "10 ms"},
        ],
        "reception": {"kind": "snr_threshold", "threshold": f"{THRESHOLD_DB} dB", "rate": "100 kbps"},
        "mac": {"kind": "tdma", "slot": "10 ms", "max_attempts": 1},
        "traffic": {"kind": "saturated", "size": {"distribution": "fixed", "mean": "1 kbit"}},
        "receivers": "all",
    }
    network = {key: value for key, value in {**network, **access}.items() if value is not None}
    length = {"rounds": 60} if "round" in network else {"duration": "100 s"}
    data = {"name": "receivers", "users": len(places), "record": {"attempts": True, "events": "all"}, **length}
    return validate(ScenarioDocument(copy.deepcopy({**data, "access": network}), "receivers"))


def losses_of_towers(checked):
    """Return the probability that each tower alone misses the user: 1 - exp(-θ / s) under Rayleigh fading."""
    path_loss = checked.access.model_copy(update={"channel": checked.access.channel[:1]})
    context = access_context(checked, 0)
    budget = open_budget(path_loss, context, build_layout(path_loss, context))
    means_db = [budget.snr_db(np.array([0]), 0.0, tower)[0] for tower in TOWERS]
    return [1 - math.exp(-(10 ** ((THRESHOLD_DB - mean_db) / 10))) for mean_db in means_db]


def assert_share(outcomes, outcome, expected):
    share = (outcomes == outcome).mean()
    assert share == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / len(outcomes)))


def ended(run):
    """Return the outcomes of frames that ended within the run."""
    return set(run.attempts["outcome"]) - {"unfinished"}


class TestUnion:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("receivers", "heard", "common_loss"),
        [
            ("own", [0], 0.0),
            ("own", [0], 0.15),
            ("all", [0, 1, 2], 0.0),
            ("all", [0, 1, 2], 0.15),
            (["tower:0", "tower:2"], [0, 2], 0.15),
        ],
    )
    def test_all_miss_a_frame_with_the_product_and_what_is_common(self, tmp_path, receivers, heard, common_loss):
        checked = scenario(receivers=receivers, common_loss=common_loss)
        losses = losses_of_towers(checked)
        assert all(0.3 < loss < 0.97 for loss in losses)
        run = netfl.trace(checked, tmp_path / "run")
        lost = common_loss + (1 - common_loss) * math.prod(losses[tower] for tower in heard)
        assert len(run.attempts) > 9_000
        assert_share(run.attempts["outcome"], "faded", lost)

    @pytest.mark.slow
    def test_links_that_never_fail_have_the_common_loss_alone(self, tmp_path):
        run = netfl.trace(scenario(common_loss=0.3, channel=CLEAR), tmp_path / "run")
        assert_share(run.attempts["outcome"], "faded", 0.3)

    @pytest.mark.slow
    def test_duplicates_are_the_copies_beyond_the_first(self, tmp_path):
        checked = scenario()
        run = netfl.trace(checked, tmp_path / "run")
        losses = losses_of_towers(checked)
        received = 3 - sum(losses)
        expected = received - (1 - math.prod(losses))
        assert run.summary["duplicates"] / len(run.attempts) == pytest.approx(expected, rel=0.06)

    def test_users_exempt_from_fading_have_no_common_loss(self, tmp_path):
        checked = scenario(places=((250, 150), (260, 140)), common_loss=0.5, exempt={"fading": [0]}, **ROUNDS)
        run = netfl.trace(checked, tmp_path / "run")
        assert set(run.attempts.query("user == 0")["outcome"]) == {"received"}
        assert "faded" in set(run.attempts.query("user == 1")["outcome"])


class TestEqualToOwn:
    """Towers that never receive a frame of another cell change nothing."""

    @pytest.mark.slow
    @pytest.mark.parametrize("timed", [True, False])
    def test_to_the_bit(self, tmp_path, timed):
        places = ((20, 0), (580, 10), (10, 30))
        access = {
            "radio": {"power": "-36 dBm", "bandwidth": "180 kHz", "noise_figure": "5 dB"},
            **({} if timed else ROUNDS),
        }
        own = netfl.trace(scenario(places=places, receivers="own", **access), tmp_path / "own")
        heard = netfl.trace(scenario(places=places, receivers="all", **access), tmp_path / "all")
        assert heard.summary["duplicates"] == 0
        assert "faded" in set(own.attempts["outcome"])
        assert len(own.attempts) > 100
        for table in ("events", "attempts", "rounds", "deliveries", "users"):
            pd.testing.assert_frame_equal(getattr(own, table), getattr(heard, table))


class TestFirstCopy:
    def routes(self, run):
        """Return the share of time in which each tower's link is in use."""
        return [run.summary[f"utilisation.{tower}-server"] for tower in TOWERS]

    @pytest.mark.slow
    def test_goes_on_from_the_tower_with_the_smallest_delay(self, tmp_path):
        used = self.routes(netfl.trace(scenario(channel=CLEAR), tmp_path / "run"))
        assert used[1] > 0.0
        assert used[0] == used[2] == 0.0

    @pytest.mark.slow
    def test_of_equals_is_that_of_the_own_tower(self, tmp_path):
        checked = scenario(channel=CLEAR, delays=("2 ms",) * 3, places=((10, 680), (10, 690)))
        used = self.routes(netfl.trace(checked, tmp_path / "run"))
        assert used[2] > 0.0
        assert used[0] == used[1] == 0.0

    @pytest.mark.slow
    def test_is_that_of_whoever_received_it(self, tmp_path):
        """Each tower passes on what it has received and no tower with a smaller delay has."""
        checked = scenario(delays=("1 ms", "2 ms", "3 ms"))
        losses = losses_of_towers(checked)
        used = self.routes(netfl.trace(checked, tmp_path / "run"))
        expected = np.array([1 - losses[0], losses[0] * (1 - losses[1]), losses[0] * losses[1] * (1 - losses[2])])
        assert np.array(used) / sum(used) == pytest.approx(expected / expected.sum(), abs=0.02)

    def test_has_the_snr_and_the_gain_of_its_tower(self, tmp_path):
        channel = [{"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"}]
        checked = scenario(
            channel=channel, radio={"power": "30 dBm", "bandwidth": "180 kHz", "noise_figure": "5 dB"}, **ROUNDS
        )
        context = access_context(checked, 0)
        budget = open_budget(checked.access, context, build_layout(checked.access, context))
        expected_db = budget.snr_db(np.array([0]), 0.0, "tower:1")[0]
        run = netfl.trace(checked, tmp_path / "run")
        assert run.attempts["snr_db"].to_numpy() == pytest.approx(expected_db)

    @pytest.mark.slow
    def test_carries_packets_and_traffic_that_ends_at_towers(self, tmp_path):
        packets = {**ROUNDS, "transport": {"grain": "packet", "mtu": "64 B", "header": 8}, "update_size": "4 kbit"}
        used = self.routes(netfl.trace(scenario(channel=CLEAR, **packets), tmp_path / "packets"))
        assert used[1] > 0.0
        assert used[0] == used[2] == 0.0
        traffic = {"kind": "saturated", "destination": "tower", "size": {"distribution": "fixed", "mean": "1 kbit"}}
        run = netfl.trace(scenario(channel=CLEAR, traffic=traffic), tmp_path / "traffic")
        assert self.routes(run) == [0.0, 0.0, 0.0]
        assert run.summary["loss_ratio"] == 0.0


class TestInterference:
    @pytest.mark.slow
    def test_each_tower_judges_by_its_own(self, tmp_path):
        """Two users of one cell send together: the tower beside each hears it over the other."""
        places = ((290, 0), (-290, 0))
        nodes = {
            **NODES,
            "tower:0": {"role": "tower", "position": [0, 0]},
            "tower:1": {"role": "tower", "position": [600, 0]},
            "tower:2": {"role": "tower", "position": [-600, 0]},
        }
        outcomes = {}
        for receivers in ("own", "all"):
            checked = scenario(
                places=places,
                nodes=nodes,
                receivers=receivers,
                interference="sinr",
                channel=[{"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"}],
                radio={"power": "20 dBm", "bandwidth": "180 kHz", "noise_figure": "5 dB"},
                mac={"kind": "slotted_aloha", "probability": 1.0, "slot": "10 ms", "max_attempts": 1},
            )
            outcomes[receivers] = ended(netfl.trace(checked, tmp_path / receivers))
        assert outcomes == {"own": {"collided"}, "all": {"received"}}


class TestOutages:
    """Tower 0, that of the user, is down from 2 to 4 s in every 10 s."""

    @pytest.mark.slow
    def test_user_sends_while_another_tower_hears_it(self, tmp_path):
        shares = {}
        for receivers in ("own", "all"):
            checked = scenario(channel=CLEAR, receivers=receivers, outages=DOWN)
            run = netfl.trace(checked, tmp_path / receivers)
            started_s = run.attempts["start_s"] % 10.0
            shares[receivers] = ((started_s > 2.01) & (started_s < 3.99)).mean()
            if receivers == "all":
                assert ended(run) == {"received"}
        assert shares["own"] == 0.0
        assert shares["all"] == pytest.approx(0.2, abs=0.01)

    def test_user_that_others_hear_repeats_frames_and_receives_no_version(self):
        """While its own tower is down; a selection that asks for users that are connected leaves it out."""
        access, context, _ = make(USERS, 1, 1, **BUSY | {"receivers": "all", "outages": DOWN})
        simulator = NetworkSimulator(build_network(access, context), context.streams, context.recorder)
        simulator.env.run(until=3.0)
        for tower in simulator._towers.values():
            slots = simulator.membership.members(tower.index)
            assert tower.present.can_send(slots).all()
            assert all(tower.cell.can_repeat(slot) for slot in slots.tolist())
            assert tower.present.connected(slots).tolist() == [tower.index != 0] * len(slots)

    def test_frame_that_the_outage_of_its_tower_cuts_arrives_at_another(self, tmp_path):
        """Slots of 30 ms with frames of 25 ms: one is on the air when tower 0 goes down."""
        access = {
            "channel": CLEAR,
            "outages": DOWN,
            "mac": {"kind": "tdma", "slot": "30 ms", "max_attempts": 1},
            "traffic": {"kind": "saturated", "size": {"distribution": "fixed", "mean": "2.5 kbit"}},
        }
        own = netfl.trace(scenario(receivers="own", **access), tmp_path / "own").attempts
        assert "lost" in set(own["outcome"])
        heard = netfl.trace(scenario(receivers=["tower:2"], **access), tmp_path / "all")
        assert ended(heard) == {"received"}


class TestLastHeard:
    """Tower 0 is the nearest of all users, and another one hears two of them better."""

    def channel(self, folder):
        gains = {0: (-110, -90, -120), 1: (-110, -120, -90), 2: (-90, -110, -120)}  # of each user at each tower
        rows = [
            f"{user},{tower},0,{gain}" for user, of in gains.items() for tower, gain in zip(TOWERS, of, strict=True)
        ]
        (folder / "gains.csv").write_text("\n".join(["user,tower,time_s,gain_db", *rows]) + "\n")
        return [{"kind": "trace", "file": str(folder / "gains.csv"), "after_end": "hold"}]

    def test_users_move_to_the_tower_that_heard_them_best(self, tmp_path):
        checked = scenario(
            places=((10, 10), (20, 10), (10, 20)),
            channel=self.channel(tmp_path),
            association="last_heard",
            reception={"kind": "snr_threshold", "threshold": "-30 dB", "rate": "100 kbps"},
            **ROUNDS,
        )
        run = netfl.trace(checked, tmp_path / "run")
        moved = run.events[run.events["kind"] == "moved"]
        found = {(row.user, str(row.detail), str(row.node)) for row in moved.itertuples()}
        assert found == {(0, "tower:0", "tower:1"), (1, "tower:0", "tower:2")}
        assert len(moved) == 2
        assert (moved["round"] == 2).all()  # when the first version was sent, nobody had been heard
        received = run.events[run.events["kind"] == "received"]
        last = received[received["round"] == 60].set_index("user")["node"].astype(str).to_dict()
        assert last == {0: "tower:1", 1: "tower:2", 2: "tower:0"}

    def test_one_receiver_is_an_error(self):
        with pytest.raises(ScenarioError, match=r"access\.association: only the user's own tower hears it"):
            scenario(association="last_heard", receivers="own", **ROUNDS)


class TestDemodulators:
    """Three gateways of one demodulator each, which hear all frames alike."""

    ACCESS = MappingProxyType(
        {
            "channel": CLEAR,
            "shared_air": True,
            "interference": "sinr",
            "reception": {"kind": "lora"},
            "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
            "traffic": {"kind": "poisson", "rate": 1.0, "size": {"distribution": "fixed", "mean": "40 B"}},
        }
    )

    def busy(self, folder, demodulators, **access):
        mac = {
            "kind": "lorawan",
            "spreading_factor": 9,
            "max_attempts": 1,
            "sub_bands": [{"channels": 64, "duty_cycle": 1.0}],
            "demodulators": demodulators,
        }
        places = ((10, 10), (20, 10), (30, 20), (10, 30))
        checked = scenario(places=places, **{**self.ACCESS, "mac": mac, **access})
        return (netfl.trace(checked, folder).attempts["outcome"] == "busy").mean()

    def test_further_gateways_have_their_own(self, tmp_path):
        """All gateways hear the same frames here: where one has no free demodulator, no other has one."""
        alone = self.busy(tmp_path / "own", 1, receivers="own")
        assert alone > 0.2
        assert self.busy(tmp_path / "all", 1) == pytest.approx(alone, abs=0.01)

    def test_users_exempt_from_contention_need_none(self, tmp_path):
        access = {**ROUNDS, "exempt": {"contention": [0, 1, 2, 3]}, "update_size": "40 B"}
        assert self.busy(tmp_path / "exempt", 1, **access) == 0.0


@pytest.mark.parametrize(
    ("access", "key", "problem"),
    [
        ({"receivers": []}, "access.receivers", "a list that names no tower"),
        ({"receivers": ["tower:7"]}, "receivers.0", "no such tower"),
        ({"receivers": "every"}, "access.receivers", ""),
        ({"common_loss": 1.0}, "access.common_loss", "less than 1"),
        ({"common_loss": -0.1}, "access.common_loss", "greater than or equal to 0"),
        ({"receivers": "all", "topology": {"kind": "star", "distance": "100 m"}}, "receivers", "with one tower"),
        ({"theory": "waterfall"}, "receivers", "the user's own tower alone"),
    ],
)
def test_mistakes_are_located(access, key, problem):
    with pytest.raises(ScenarioError) as error:
        checked = scenario(**access)
        build_network(checked.access, access_context(checked, 0))
    assert any(fault.key == key and problem in fault.problem for fault in error.value.faults)


def test_keys_without_a_radio_have_no_effect():
    with pytest.raises(ScenarioError, match=r"access\.receivers: has no effect without a reception"):
        scenario(radio=None, reception=None, channel=None, mac={"kind": "csma_ca", "standard": "802.11a"}, **ROUNDS)
