"""Power by frame: what power controls and MACs give, what is received of it, and what it costs."""

from typing import ClassVar

import numpy as np
import pytest
from support.small_network import FADES, make, play

import netfl
from netfl.errors import ScenarioError
from netfl.network.build import build_layout, build_network, open_budget
from netfl.network.mac import Mac
from netfl.network.power_control import PowerControl
from netfl.network.simulator import NetworkSimulator
from netfl.scenario.validation import nested_faults
from netfl.types import Law, ScenarioFacts

USERS = 6
DISK = {"topology": {"kind": "star", "radius": "300 m", "rate": "1 Gbps", "delay": 0}}
LOSS = {"kind": "log_distance", "exponent": 3.76, "reference_loss": "15.3 dB"}
RAYLEIGH = {"kind": "rayleigh", "coherence": "500 ms"}
RADIO = {"power": "20 dBm", "bandwidth": "1 MHz"}
NETWORK = DISK | {
    "channel": [LOSS, RAYLEIGH],
    "radio": RADIO,
    "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "10 kbps"},
    "mac": "round_robin",
    "round": {"kind": "first", "m": USERS},
    "energy": {"transmit": "2 W"},
}
AT_ONE_DISTANCE = {"topology": {"kind": "star", "distance": "100 m", "rate": "1 Gbps", "delay": 0}}


def run(rounds=100, users=USERS, **overrides):
    """Run the network; return its recorder and the attempts by column."""
    _, log = play(users, rounds, 3, **NETWORK | overrides)
    return log, {name: np.concatenate([part[name] for part in log.attempts]) for name in log.attempts[0]}


def full_snr_db(**overrides):
    """Return the SNR of each user at full power without fading."""
    access, context, _ = make(USERS, 1, 3, **NETWORK | {"channel": [LOSS]} | overrides)
    return open_budget(access, context, build_layout(access, context)).snr_db(np.arange(USERS), 0.0)


def spent_j(attempts, watts=2.0):
    """Return the energy of each user from its attempts: power times airtime."""
    joules = watts * attempts["airtime_s"] * 10.0 ** (attempts["power_db"] / 10.0)
    return np.bincount(attempts["user"], joules, minlength=USERS)


@pytest.mark.slow
def test_inversion_lets_all_frames_arrive_with_the_target_but_clipped_ones():
    log, attempts = run(power_control={"kind": "inversion", "target": "12 dB"})
    is_clipped = attempts["power_db"] == 0.0
    assert attempts["snr_db"][~is_clipped] == pytest.approx(12.0)
    assert (attempts["snr_db"][is_clipped] < 12.0).all()
    assert log.final_values["frames_clipped"] == is_clipped.sum() > 0
    assert log.attempts_by_user["frames_clipped"].tolist() == np.bincount(
        attempts["user"][is_clipped], minlength=USERS
    ).tolist()  # fmt: skip
    assert log.spendings["send_J"] == pytest.approx(spent_j(attempts))
    assert (attempts["power_db"] <= 0.0).all()


@pytest.mark.slow
def test_a_target_that_is_the_threshold_of_the_reception_suffices():
    _, attempts = run(channel=[LOSS], power_control={"kind": "inversion", "target": "5 dB"})
    assert set(attempts["outcome"]) == {"received"}
    assert (attempts["power_db"] < 0.0).all()


@pytest.mark.slow
def test_truncated_inversion_withholds_frames_as_often_as_fading_says():
    """Of users at one distance with the mean SNR s, 1 - exp(-g / s) of the blocks are below the threshold g."""
    mean = 10.0 ** (full_snr_db(**AT_ONE_DISTANCE)[0] / 10.0)
    threshold_db = 10.0 * np.log10(mean / 2.0)
    control = {"kind": "truncated_inversion", "target": f"{threshold_db - 1} dB", "threshold": f"{threshold_db} dB"}
    log, attempts = run(400, **AT_ONE_DISTANCE, power_control=control)
    withheld = log.final_values["frames_withheld"]
    tried = withheld + len(attempts["user"])
    expected = 1.0 - np.exp(-0.5)
    assert abs(withheld / tried - expected) < 4.0 * np.sqrt(expected * (1.0 - expected) / tried)
    assert log.final_values["frames_clipped"] == 0.0
    assert attempts["snr_db"] == pytest.approx(threshold_db - 1.0)
    assert log.spendings["send_J"] == pytest.approx(spent_j(attempts))
    assert (np.array(log.attempts_by_user["attempts"]) == np.bincount(attempts["user"])).all()


@pytest.mark.slow
def test_outage_of_inversion_is_that_of_full_power():
    """A frame fades if full power does not suffice: with probability 1 - exp(-g / s)."""
    mean = 10.0 ** (full_snr_db(**AT_ONE_DISTANCE)[0] / 10.0)
    needed_db = 10.0 * np.log10(mean / 4.0)
    shares = {}
    for control in ("full", {"kind": "inversion", "target": f"{needed_db} dB"}):
        reception = {"kind": "snr_threshold", "threshold": f"{needed_db} dB", "rate": "2 kbps"}
        _, attempts = run(500, **AT_ONE_DISTANCE, reception=reception, power_control=control)
        shares[str(control)] = (attempts["outcome"] == "faded").mean()
    expected = 1.0 - np.exp(-0.25)
    for share in shares.values():
        assert abs(share - expected) < 4.0 * np.sqrt(expected * (1.0 - expected) / 3000)


@pytest.mark.parametrize(("alpha", "reference"), [(0.8, None), (0.5, 20.0), (0.0, None), (1.0, None)])
def test_fractional_compensates_a_part_of_the_path_loss(alpha, reference):
    snr_db = full_snr_db()
    control = {"kind": "fractional", "alpha": alpha}
    level_db = snr_db.min()
    if reference is not None:
        control["reference"] = f"{reference} dB"
        level_db = reference
    _, attempts = run(20, power_control=control)
    wanted_db = alpha * (level_db - snr_db)
    assert attempts["power_db"] == pytest.approx(np.minimum(wanted_db, 0.0)[attempts["user"]])
    if alpha == 1.0:
        assert np.ptp(snr_db + wanted_db) == pytest.approx(0.0)


def test_rates_and_modes_follow_the_power_that_is_sent():
    _, attempts = run(
        20, channel=[LOSS], reception={"kind": "shannon"}, power_control={"kind": "inversion", "target": 9}
    )
    assert attempts["airtime_s"] == pytest.approx(1000.0 / (1e6 * np.log2(1.0 + 10.0**0.9)))
    modes = {"kind": "lora"}
    low, high = (
        run(5, channel=[LOSS], reception=modes, radio={"power": "20 dBm", "bandwidth": "125 kHz"},
            power_control={"kind": "inversion", "target": target})[1]
        for target in (-16.0, -3.0)
    )  # fmt: skip
    assert low["mode"].min() > high["mode"].max()


def test_a_frame_interferes_with_the_power_at_which_it_is_sent():
    """Two users at once, one of them 20 dB nearer: at full power it captures the tower, at equal powers none does."""
    near = {"topology": {"kind": "star", "distances": ["20 m", "68 m"], "rate": "1 Gbps", "delay": 0}}
    settings = near | {
        "channel": [LOSS],
        "interference": {"kind": "capture", "margin": "6 dB"},
        "mac": {"kind": "slotted_aloha", "probability": 1.0, "max_attempts": 1},
        "round": {"kind": "first", "m": 1, "deadline": "2 s"},
    }
    _, full = run(3, 2, **settings)
    _, equal = run(3, 2, **settings, power_control={"kind": "inversion", "target": 8})
    assert full["outcome"].tolist() == ["received", "collided"] * 3
    assert set(equal["outcome"]) == {"collided"}


@pytest.mark.slow
def test_a_battery_pays_for_the_power_that_is_sent():
    battery = {"kind": "battery", "capacity": "50 J", "initial": 1.0, "restart": 0.5}
    joules = {}
    for target in (None, 20.0):
        control = "full" if target is None else {"kind": "inversion", "target": target}
        log, attempts = run(20, channel=[LOSS], outages=[battery], power_control=control)
        assert log.spendings["send_J"] == pytest.approx(spent_j(attempts))
        joules[target] = log.spendings["send_J"].sum()
    assert joules[20.0] < 0.1 * joules[None]


@pytest.mark.slow
def test_an_allocation_gives_the_most_that_a_power_control_can_use():
    fdma = {"mac": {"kind": "fdma", "band": "1 MHz", "division": "allocated"}, "reception": {"kind": "shannon"}}
    energy = {"transmit": "2 W"}
    allocation = {"kind": "least_energy", "deadline": "2 s"}
    _, alone = run(3, **fdma, channel=[LOSS], allocation=allocation, energy=energy)
    _, capped = run(3, **fdma, channel=[LOSS], allocation=allocation, energy=energy,
                    power_control={"kind": "fractional", "alpha": 0.1})  # fmt: skip
    assert (alone["power_db"] < 0.0).any()
    first = slice(0, USERS)
    by_user = {name: part["power_db"][first][np.argsort(part["user"][first])] for name, part in
               (("alone", alone), ("capped", capped))}  # fmt: skip
    wanted_db = 0.1 * (full_snr_db().min() - full_snr_db())
    assert by_user["capped"] == pytest.approx(np.minimum(by_user["alone"], wanted_db))


def test_the_gain_of_a_link_does_not_depend_on_the_power():
    """Two runs of the same draws: the delivered SNRs differ by the power, the gains do not."""
    gains = []
    for control in ("full", {"kind": "fractional", "alpha": 0.4}):
        access, context, _ = make(USERS, 3, 3, **NETWORK | {"power_control": control, "channel": [LOSS]})
        simulator = NetworkSimulator(build_network(access, context), context.streams, context.recorder)
        medium = simulator._config.medium
        ended = []
        settle = medium.outcomes
        medium.outcomes = lambda transmission, settle=settle, ended=ended: (
            ended.append(transmission),
            settle(transmission),
        )[1]
        [*simulator.rounds(1)]
        gains.append({int(each.ids[0]): medium.gain_db(each, settle(each)[1])[0] for each in ended})
    assert gains[0].keys() == gains[1].keys()
    assert [*gains[0].values()] == pytest.approx([*gains[1].values()])


class Steps(Mac):
    """Polls users in turn; each attempt of a user has 3 dB less than its last."""

    sets_power = True
    first: float = 1.5

    def serve(self, cell):
        sent = np.zeros(cell.size)
        while True:
            yield cell.wait_for_backlog()
            user = cell.backlog()[:1]
            power_db = self.first - 3.0 * sent[user]
            sent[user] += 1
            yield cell.attempt(user, power_db=power_db)

    def laws(self):
        return (Law.none("draws nothing"),)


class Silent(Steps):
    """Gives powers without saying so."""

    sets_power = False


class Wide(Steps):
    """Gives two powers for one frame."""

    def serve(self, cell):
        yield cell.wait_for_backlog()
        yield cell.attempt(cell.backlog()[:1], power_db=[-1.0, -2.0])


def test_a_mac_gives_each_frame_a_power():
    log, attempts = run(4, channel=[LOSS], mac=Steps())
    turns = np.array(
        [np.count_nonzero(attempts["user"][:place] == user) for place, user in enumerate(attempts["user"])]
    )
    assert attempts["power_db"] == pytest.approx(np.minimum(1.5 - 3.0 * turns, 0.0))
    assert log.final_values["frames_clipped"] == USERS
    assert log.spendings["send_J"] == pytest.approx(spent_j(attempts))


@pytest.mark.parametrize(
    ("mac", "message"),
    [(Silent(), "gives frames a power, but does not state it"), (Wide(), r"gives 1 frames these powers")],
)
def test_a_mac_that_gives_powers_wrongly_is_told(mac, message):
    with pytest.raises(ScenarioError, match=message):
        run(2, mac=mac)


TRUNCATED = {"kind": "truncated_inversion", "target": "5 dB", "threshold": "24 dB"}


def test_withheld_frames_cost_lorawan_no_duty_cycle():
    """With acknowledgements or without, a device sends as soon as its channel permits."""
    lora = {
        "topology": {"kind": "star", "radius": "2 km", "rate": "1 Gbps", "delay": 0},
        "channel": [LOSS, {"kind": "rayleigh", "coherence": "100 ms"}],
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
        "reception": {"kind": "lora"},
        "update_size": 400.0,
        "round": {"kind": "first", "m": 1},
        "unreachable": "keep",
    }
    access, context, _ = make(1, 1, 3, **NETWORK | lora | {"mac": "lorawan"})
    snr_db = open_budget(access, context, build_layout(access, context)).best_snr_db(np.arange(1))[0] - 13.0
    control = {"kind": "truncated_inversion", "target": "0 dB", "threshold": f"{snr_db} dB"}
    for mac in ({"kind": "lorawan"}, {"kind": "lorawan", "confirmed": True, "acknowledgements": {}}):
        ends_s = []
        for power_control in ("full", control):
            rounds, log = play(1, 8, 3, **NETWORK | lora | {"mac": mac, "power_control": power_control})
            ends_s.append(rounds[-1].closed_s)
        assert log.final_values["frames_withheld"] > 10
        assert ends_s[1] < 1.5 * ends_s[0]


@pytest.mark.slow
def test_a_station_of_wifi_is_alone_if_the_others_withhold_their_frames():
    wifi = {
        "reception": {"kind": "snr_threshold", "threshold": "3 dB", "rate": "54 Mbps"},
        "radio": {"power": "20 dBm", "bandwidth": "20 MHz"},
        "mac": {"kind": "csma_ca", "rate": "54 Mbps", "rts": "0 B"},
        "update_size": 12000.0,
        "channel": [LOSS, {"kind": "rayleigh", "coherence": "20 ms"}],
        "unreachable": "keep",
    }
    _, attempts = run(4, **wifi, power_control=TRUNCATED)
    received_s = attempts["airtime_s"][attempts["outcome"] == "received"]
    assert received_s.min() == pytest.approx(received_s.max())


def test_the_power_of_a_mac_is_at_most_what_the_caller_gives():
    access, context, log = make(USERS, 3, 3, **NETWORK | {"mac": Steps(first=0.0), "channel": [LOSS]})
    simulator = NetworkSimulator(build_network(access, context), context.streams, context.recorder)
    simulator._config.medium.set_power_offset(np.full(USERS, -20.0))
    [*simulator.rounds(2)]
    assert np.concatenate([part["power_db"] for part in log.attempts]).max() == -20.0


class Answering(PowerControl):
    """Answers what it is made with."""

    answer: ClassVar = None

    def power_db(self, links):
        return self.answer

    def laws(self):
        return (Law.none("draws nothing"),)


@pytest.mark.parametrize(("answer", "message"), [([0.0, 1.0], r"gives 2 values for 1 frames"), ([np.nan], "gives nan")])
def test_a_power_control_that_answers_wrongly_is_told(answer, message, monkeypatch):
    monkeypatch.setattr(Answering, "answer", answer)
    with pytest.raises(ScenarioError, match=message):
        run(2, power_control=Answering())


@pytest.mark.slow
def test_users_exempt_from_fading_withhold_nothing():
    control = {"kind": "truncated_inversion", "target": "5 dB", "threshold": "20 dB"}
    log, _ = run(50, power_control=control, exempt={"fading": [0, 1]})
    withheld = log.attempts_by_user["frames_withheld"]
    assert withheld[:2].tolist() == [0, 0]
    assert (withheld[2:] > 0).any()


@pytest.mark.parametrize(
    ("control", "key", "message"),
    [
        ({"kind": "inversion", "target": "4 dB"}, "power_control.target", "no frame can be received"),
        (
            {"kind": "truncated_inversion", "target": "10 dB", "threshold": "90 dB"},
            "power_control.threshold",
            "users that never send",
        ),
    ],
)
def test_a_control_with_which_nothing_arrives_is_refused(control, key, message):
    with pytest.raises(ScenarioError, match=message) as error:
        run(1, power_control=control)
    assert error.value.faults[0].key == key


def test_a_power_control_without_a_radio_has_no_effect():
    without = {"radio": None, "channel": [], "reception": None, "mac": "csma_ca", "energy": None}
    access, _, _ = make(USERS, 1, 1, **NETWORK | without | {"power_control": {"kind": "fractional", "alpha": 1}})
    faults = [*nested_faults(access, "access", ScenarioFacts(users=USERS, rounds=1, sized=True))]
    assert "access.power_control" in [fault.key for fault in faults]


def test_full_power_changes_nothing():
    log, attempts = run(10, channel=FADES)
    assert "frames_clipped" not in log.final_values
    assert (attempts["power_db"] == 0.0).all()


@pytest.mark.slow
def test_a_saturated_station_of_wifi_sends_in_the_share_of_fades_above_the_threshold(tmp_path):
    """Of Rayleigh fades the share exp(-g/s) is above g at the mean s; a frame of 0.3 ms is short against one."""
    network = {
        "kind": "network",
        "topology": {"kind": "star", "distance": "100 m"},
        "radio": {"power": "20 dBm", "bandwidth": "20 MHz"},
        "channel": [LOSS],
        "reception": {"kind": "snr_threshold", "threshold": "3 dB", "rate": "54 Mbps"},
        "mac": {"kind": "csma_ca", "rate": "54 Mbps"},
        "traffic": {"kind": "saturated", "size": {"distribution": "fixed", "mean": "1500 B"}, "destination": "tower"},
        "unreachable": "keep",
    }
    scenario = {"name": "one", "users": 1, "duration": "4 s", "access": network, "record": {"attempts": True}}
    clear = netfl.trace(netfl.load(scenario), tmp_path / "clear")
    mean_db = float(clear.attempts.snr_db.iloc[0])
    faded = network | {"channel": [LOSS, {"kind": "rayleigh", "coherence": "10 ms"}]}
    faded["power_control"] = {"kind": "truncated_inversion", "target": "3 dB", "threshold": f"{mean_db - 3.0} dB"}
    run = netfl.trace(netfl.load(scenario | {"access": faded}), tmp_path / "faded")
    share = run.summary["throughput_bps"] / clear.summary["throughput_bps"]
    expected = np.exp(-(10.0**-0.3))
    assert share == pytest.approx(expected, abs=4.0 * np.sqrt(expected * (1.0 - expected) / 400))
    assert run.summary["frames_withheld"] > 50
