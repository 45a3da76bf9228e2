"""Measured traces: interpolation against NumPy, units, files that are refused, runs that outlast them, and averages."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import interp1d

import netfl
from netfl.errors import ModelError, ScenarioError
from netfl.network.build import build_network
from netfl.network.channel._measured import capacity_snr_db
from netfl.network.channel.trace import Trace
from netfl.network.layout import Layout
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.network.topology.inline import Inline
from netfl.network.topology.star import Star
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import access_context, warnings
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(5)
RADIO = Radio(power="20 dBm", bandwidth="1 MHz", noise_figure="6 dB")
TIMES_S = np.array([-3.0, 0.0, 1.0, 4.0, 4.5, 9.0])
GAINS_DB = np.array([-80.0, -90.0, -85.0, -97.0, -70.0, -71.5])


def cell(users: int) -> Layout:
    return Star(distance=100).open(users, STREAMS)


def write(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text)
    return path


def write_rows(folder, quantity="gain_db", users=2, times_s=TIMES_S, values=GAINS_DB):
    """Write the same values for each user; those of user u are u higher."""
    lines = [f"user,time_s,{quantity}"]
    for user in range(users):
        lines += [
            f"{user},{time_s!r},{float(value + user)!r}" for time_s, value in zip(times_s.tolist(), values, strict=True)
        ]
    return write(folder, "\n".join(lines) + "\n")


class TestInterpolation:
    AT_S = np.array([0.0, 0.3, 0.5, 0.999, 1.0, 2.7, 4.0, 4.2, 4.3, 7.0, 8.999, 9.0])

    def gains_db(self, folder, interpolation, users, at_s, **settings):
        model = Trace(file=write_rows(folder), interpolation=interpolation, **settings)
        return model.open(cell(2), STREAMS).gain_db(users, at_s)

    @pytest.mark.parametrize("user", [0, 1])
    def test_linear_is_that_of_numpy(self, tmp_path, user):
        gains_db = self.gains_db(tmp_path, "linear", np.full(len(self.AT_S), user), self.AT_S)
        assert gains_db == pytest.approx(np.interp(self.AT_S, TIMES_S, GAINS_DB) + user, abs=1e-12)

    @pytest.mark.parametrize(("interpolation", "kind"), [("previous", "previous"), ("nearest", "nearest-up")])
    def test_steps_are_those_of_scipy(self, tmp_path, interpolation, kind):
        gains_db = self.gains_db(tmp_path, interpolation, np.zeros(len(self.AT_S), int), self.AT_S)
        assert gains_db.tolist() == interp1d(TIMES_S, GAINS_DB, kind=kind)(self.AT_S).tolist()

    @pytest.mark.parametrize("interpolation", ["linear", "previous", "nearest"])
    @pytest.mark.parametrize("settings", [{"after_end": "hold"}, {"repeat": 12.5}])
    def test_one_user_at_a_time_has_the_gains_of_many(self, tmp_path, interpolation, settings):
        times_s = TIMES_S + 3.0
        path = write_rows(tmp_path, times_s=times_s)
        gain = Trace(file=path, interpolation=interpolation, **settings).open(cell(2), STREAMS)
        users = np.array([1, 0, 1, 1, 0, 0, 1])
        at_s = [0.0, 3.5, 4.0, 7.25, 11.9, 30.3, 12.0]
        single = [float(gain.gain_db(users[i : i + 1], at_s[i])[0]) for i in range(len(users))]
        assert gain.gain_db(users, at_s).tolist() == single

    def test_last_value_holds(self, tmp_path):
        gains_db = self.gains_db(tmp_path, "linear", np.array([0, 1]), 1e6, after_end="hold")
        assert gains_db.tolist() == [-71.5, -70.5]

    def test_repeated_file_is_a_cycle(self, tmp_path):
        path = write_rows(tmp_path, times_s=np.array([1.0, 3.0, 4.0]), values=np.array([-80.0, -90.0, -70.0]))
        gain = Trace(file=path, repeat=6).open(cell(2), STREAMS)
        cycle = ([-2.0, 1.0, 3.0, 4.0, 7.0], [-70.0, -80.0, -90.0, -70.0, -80.0])
        at_s = np.array([0.0, 0.5, 2.0, 5.0, 5.9])
        expected = np.interp(at_s, *cycle)
        for period in (0, 1, 7):
            assert gain.gain_db(np.zeros(5, int), at_s + 6.0 * period) == pytest.approx(expected, abs=1e-9)

    def test_time_that_rounding_puts_before_a_line_is_at_it(self, tmp_path):
        times_s = np.arange(11) * 0.1
        gain = Trace(
            file=write_rows(tmp_path, times_s=times_s, values=np.arange(-22.0, -11.0)), interpolation="previous"
        ).open(cell(2), STREAMS)
        assert gain.gain_db(np.array([0]), math.nextafter(0.3, 0.0)).tolist() == [-19.0]
        assert gain.gain_db(np.array([0, 0]), math.nextafter(0.3, 0.0)).tolist() == [-19.0, -19.0]

    @pytest.mark.parametrize(("interpolation", "hold_s"), [("linear", 2.0), ("previous", 2.0), ("nearest", 1.0)])
    def test_length_of_blocks_is_the_median_step(self, tmp_path, interpolation, hold_s):
        times_s = np.array([0.0, 2.0, 4.0, 4.1, 6.1])
        path = write_rows(tmp_path, times_s=times_s, values=np.full(5, -9.0))
        assert Trace(file=path, interpolation=interpolation).open(cell(2), STREAMS).hold_s == hold_s

    def test_peak_is_the_largest_value(self, tmp_path):
        gain = Trace(file=write_rows(tmp_path)).open(cell(2), STREAMS)
        assert gain.peak_db(np.array([1, 0])).tolist() == [-69.0, -70.0]

    def test_rows_of_users_may_alternate_and_parquet_is_equal(self, tmp_path):
        frame = pd.DataFrame({"user": [1, 0, 1, 0], "time_s": [0.0, 0.0, 4.0, 2.0], "gain_db": [-60, -70, -64, -80]})
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame.to_parquet(tmp_path / "t.parquet")
        for name in ("t.csv", "t.parquet"):
            gain = Trace(file=tmp_path / name).open(cell(2), STREAMS)
            assert gain.gain_db(np.array([0, 1]), 1.0).tolist() == [-75.0, -61.0]


class TestUnits:
    USERS = np.array([0])

    def snr_db(self, folder, quantity, values, time_s=0.0, **settings):
        path = write_rows(folder, quantity, users=1, times_s=np.array([0.0, 10.0]), values=np.array(values))
        budget = LinkBudget(RADIO, [Trace(file=path, **settings)], cell(1), STREAMS)
        return float(budget.snr_db(self.USERS, time_s)[0])

    def test_gain(self, tmp_path):
        assert self.snr_db(tmp_path, "gain_db", [-100, -100]) == pytest.approx(20 - 100 + 174 - 60 - 6)

    def test_snr_is_that_of_the_radio(self, tmp_path):
        assert self.snr_db(tmp_path, "snr_db", [7.0, 9.0], 5.0) == pytest.approx(8.0)

    def test_received_power_is_relative_to_the_sent_one(self, tmp_path):
        snr_db = self.snr_db(tmp_path, "rsrp_dbm", [-95.0, -95.0], reference_power="18 dBm")
        assert snr_db == pytest.approx(20 - (18 + 95) + 174 - 60 - 6)

    @pytest.mark.parametrize("rate_bps", [1e3, 1e6, 5e6, 4e7])
    def test_rate_is_the_capacity(self, tmp_path, rate_bps):
        snr_db = self.snr_db(tmp_path, "rate_bps", [rate_bps, rate_bps])
        assert 1e6 * np.logaddexp2(0.0, snr_db / 10.0 * np.log2(10.0)) == pytest.approx(rate_bps)

    def test_rate_is_linear_in_time(self, tmp_path):
        snr_db = self.snr_db(tmp_path, "rate_bps", [1e6, 3e6], 2.5)
        assert snr_db == pytest.approx(10 * np.log10(2**1.5 - 1))

    def test_rate_of_0_is_no_link(self, tmp_path):
        assert self.snr_db(tmp_path, "rate_bps", [0, 0]) == pytest.approx(-200.0, abs=0.1)

    def test_capacity_of_large_efficiencies_does_not_overflow(self):
        assert capacity_snr_db(np.array([1e4])) == pytest.approx([1e5 * np.log10(2.0)])

    @pytest.mark.parametrize(
        ("quantity", "settings", "problem"),
        [
            ("rsrp_dbm", {}, "reference_power: missing: t.csv has the received power rsrp_dbm"),
            ("gain_db", {"reference_power": "3 dBm"}, "reference_power: no effect: t.csv has gain_db, not rsrp_dbm"),
        ],
    )
    def test_reference_power_belongs_to_received_powers(self, tmp_path, quantity, settings, problem):
        model = Trace(file=write_rows(tmp_path, quantity), **settings)
        (fault,) = model.faults(ScenarioFacts(users=2, rounds=1))
        assert str(fault).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("user,time_s,gain_db\n0,0,-80\n0,2,-81\n0,1,-82\n1,0,-80\n",
         "t.csv:4: times of user 0 are not ascending: 1 follows 2 in t.csv:3"),
        ("user,time_s,gain_db\n0,0,-80\n1,0,-80\n0,0,-81\n",
         "t.csv:4: times of user 0 are not ascending: 0 follows 0 in t.csv:2"),
        ("user,time_s,gain_db\n0,0,-80\n", "t.csv has no line for user 1"),
        ("user,time_s,gain_db\n0,0,-80\n1,0,-80\n7,0,-80\n", "t.csv:4: no such user (7)"),
        ("user,time_s,gain\n0,0,-80\n",
         "t.csv has the column gain, which is not read; rename or remove it; did you"),
        ("user,time_s\n0,0\n", "t.csv has no measured values; give one of the columns gain_db, snr_db"),
        ("user,time_s,gain_db,snr_db\n0,0,-80,3\n", "t.csv has gain_db and snr_db, which may contradict each other"),
        ("user,time,gain_db\n0,0,-80\n", "t.csv has no column time_s"),
        ("user,time_s,gain_db\n", "t.csv has no rows"),
        ('user,time_s,gain_db\n0,0,"-80,5"\n1,0,-80\n', "t.csv:2: column gain_db: not a number: it has a decimal"),
        ("user,time_s,rate_bps\n0,0,-1\n1,0,5\n", "t.csv:2: column rate_bps: not a bit rate from 0 to 1e13 bit/s"),
        ("user,time_s,tower,gain_db\n0,0,,-80\n1,0,tower:0,-80\n", "t.csv:2: column tower: an empty cell"),
    ],
)  # fmt: skip
def test_files_are_refused(tmp_path, text, problem):
    (fault,) = Trace(file=write(tmp_path, text)).faults(ScenarioFacts(users=2, rounds=1))
    assert fault.key == "file"
    assert problem in str(fault)


@pytest.mark.parametrize(
    ("text", "settings", "problem"),
    [
        ("user,time_s,gain_db\n0,0,-80\n1,0.5,-81\n", {}, "t.csv:3: the trace of user 1 begins at 0.5 s, after time 0"),
        ("user,time_s,gain_db\n0,0,-80\n1,8,-81\n", {"repeat": 8}, "t.csv:3: column time_s: not within repeat"),
        ("user,time_s,tower,gain_db\n0,0,tower:0,-80\n1,0,mast,-81\n", {},
         "t.csv:3: column tower: no such tower ('mast')"),
    ],
)  # fmt: skip
def test_traces_that_do_not_fit_are_refused(tmp_path, text, settings, problem):
    with pytest.raises(ScenarioError) as caught:
        Trace(file=write(tmp_path, text), **settings).open(cell(2), STREAMS)
    assert problem in str(caught.value)


def test_end_has_no_effect_on_a_file_that_repeats(tmp_path):
    with pytest.raises(ScenarioError, match="after_end has no effect"):
        Trace(file=write_rows(tmp_path), after_end="hold", repeat=9)


TOWERS = {
    "nodes": {
        "core": {"role": "server", "position": [0, 0]},
        "tower:0": {"role": "tower", "position": [-500, 0]},
        "tower:1": {"role": "tower", "position": [500, 0]},
    },
    "links": [{"between": ["core", "tower:0"]}, {"between": ["core", "tower:1"]}],
    "placement": {"kind": "listed", "positions": [[-400, 0], [450, 0]]},
}


class TestTowers:
    TEXT = "user,time_s,tower,gain_db\n0,0,tower:0,-80\n0,0,tower:1,-110\n1,0,tower:0,-120\n1,0,tower:1,-90\n"

    def layout(self):
        return Inline.model_validate(TOWERS).open(2, STREAMS)

    def test_each_user_has_the_trace_to_its_tower_and_to_others(self, tmp_path):
        layout = self.layout()
        model = Trace(file=write(tmp_path, self.TEXT))
        users = np.arange(2)
        assert model.open(layout, STREAMS).gain_db(users, 0.0).tolist() == [-80, -90]
        assert model.open(layout.towards("tower:1"), STREAMS).gain_db(users, 0.0).tolist() == [-110, -90]
        assert model.missing_towers(layout) == []

    def test_missing_towers(self, tmp_path):
        layout = self.layout()
        assert Trace(file=write_rows(tmp_path)).missing_towers(layout) == ["tower:0", "tower:1"]
        text = "user,time_s,tower,gain_db\n0,0,tower:0,-80\n1,0,tower:0,-120\n"
        model = Trace(file=write(tmp_path, text))
        with pytest.raises(ScenarioError, match=r"t.csv has no line for user 1 and tower:1"):
            model.open(layout, STREAMS)


SCENARIO = {
    "name": "measured",
    "users": 2,
    "duration": "400 s",
    "record": "none",
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "distance": "100 m"},
        "radio": {"power": "20 dBm", "bandwidth": "1 MHz"},
        "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "100 kbps"},
        "mac": {"kind": "round_robin"},
        "traffic": {"kind": "saturated", "size": {"distribution": "fixed", "mean": "1 kbit"}},
    },
}


def scenario(channel, **changes):
    data = SCENARIO | {key: value for key, value in changes.items() if key != "access"}
    data["access"] = SCENARIO["access"] | {"channel": channel} | changes.get("access", {})
    return validate(ScenarioDocument(data, "measured"))


class TestRuns:
    def build_fault(self, checked):
        with pytest.raises(ScenarioError) as caught:
            build_network(checked.access, access_context(checked, 0))
        (fault,) = caught.value.faults
        return fault

    def test_trace_that_ends_before_the_run_is_an_error(self, tmp_path):
        (tmp_path / "t.csv").write_text("user,time_s,snr_db\n0,0,9\n0,400,9\n1,0,9\n1,399,9\n")
        fault = self.build_fault(scenario([{"kind": "trace", "file": str(tmp_path / "t.csv")}]))
        assert fault.key == "channel.0.after_end"
        assert fault.problem == "the trace of user 1 ends at 399 s, before the end of the run at 400 s"

    def rounds(self, folder):
        path = write_rows(folder, "snr_db", times_s=np.array([0.0, 5.0]), values=np.array([20.0, 20.0]))
        network = {
            "round": {"kind": "first", "m": 1},
            "compute": {"speed": 1, "samples": 2},
            "broadcast_rate": "1 Mbps",
            "update_size": "1 kbit",
            "traffic": [],
        }
        return scenario([{"kind": "trace", "file": str(path)}], duration=None, rounds=20, access=network)

    def test_rounds_that_may_outlast_a_trace_are_warned_of(self, tmp_path):
        (text,) = [text for text in warnings(self.rounds(tmp_path)) if "trace" in text]
        assert text.startswith("access.channel.0.after_end: the trace of user 0 ends at 5 s, and the end of the run is")

    @pytest.mark.parametrize(("kind", "is_warned"), [("log_distance", True), ("uma", True), ("constant", False)])
    def test_path_loss_beside_a_trace_is_warned_of(self, tmp_path, kind, is_warned):
        beside = {
            "log_distance": {"exponent": 3, "frequency": "868 MHz"},
            "uma": {"frequency": "2 GHz"},
            "constant": {"gain": "-3 dB"},
        }
        path = write_rows(tmp_path, times_s=np.array([0.0, 400.0]), values=np.array([-80.0, -80.0]))
        channel = [{"kind": "trace", "file": str(path)}, {"kind": kind} | beside[kind]]
        texts = [text for text in warnings(scenario(channel)) if "their gains add up" in text]
        assert len(texts) == is_warned

    def test_run_stops_where_the_trace_ends(self, tmp_path):
        problem = r"channel trace, user \d, at 6.* s of simulated time: \S+\.csv has no values of the user after 5 s"
        with pytest.raises(ModelError, match=problem):
            netfl.trace(self.rounds(tmp_path), tmp_path / "run")

    def test_shared_air_needs_traces_to_all_towers(self, tmp_path):
        text = TestTowers.TEXT.replace("0,0,tower:1,-110\n", "")
        path = write(tmp_path, text)
        network = {"topology": {"kind": "inline"} | TOWERS, "shared_air": True, "interference": "sinr"}
        network["mac"] = {"kind": "slotted_aloha", "probability": 0.5}
        channel = {"kind": "trace", "file": str(path), "after_end": "hold"}
        fault = self.build_fault(scenario([channel], access=network))
        assert fault.key == "channel.0.file"
        assert "users of other cells interfere" in fault.problem


class TestDelays:
    DELAYS_S = np.array([1.0, 4.0, 3.0, 3.5, 7.0, 2.0]) * 1e-3

    @pytest.mark.parametrize("interpolation", ["linear", "previous", "nearest"])
    @pytest.mark.parametrize("repeat", [None, 12.5])
    def test_are_interpolated_as_gains_are(self, tmp_path, interpolation, repeat):
        """A file whose gains are the delays gives the same numbers, but for a factor."""
        times_s = TIMES_S if repeat is None else TIMES_S + 3.0
        user = pd.DataFrame({"user": 0, "time_s": times_s, "gain_db": GAINS_DB, "delay_s": self.DELAYS_S})
        far = user.assign(user=1, delay_s=user["delay_s"] + 1.0)
        pd.concat([user, far]).to_csv(tmp_path / "delays.csv", index=False)
        as_gains = user.assign(gain_db=-1000.0 * user["delay_s"]).drop(columns="delay_s")
        as_gains.to_csv(tmp_path / "gains.csv", index=False)

        settings = {"interpolation": interpolation, "repeat": repeat}
        delayed = Trace(file=tmp_path / "delays.csv", **settings).open(cell(2), STREAMS)
        gain = Trace(file=tmp_path / "gains.csv", **settings).open(cell(1), STREAMS)
        for time_s in TestInterpolation.AT_S.tolist():
            (expected_s,) = gain.gain_db(np.array([0]), time_s) / -1000.0
            assert delayed.delay_s(np.array([0]), time_s) == pytest.approx(expected_s)
            assert delayed.delay_s(np.array([1, 0]), time_s) == pytest.approx([expected_s + 1.0, expected_s])

    def test_links_have_them_to_every_tower(self, tmp_path):
        rows = [f"{user},0,tower:{tower},-90,0.00{user + 1}{tower}" for user in range(2) for tower in range(2)]
        path = write(tmp_path, "\n".join(["user,time_s,tower,gain_db,delay_s", *rows]) + "\n")
        layout = Inline.model_validate(TOWERS).open(2, STREAMS)
        budget = LinkBudget(RADIO, [Trace(file=path, after_end="hold")], layout, STREAMS)
        users = np.array([0, 1])
        own = layout.tower_at_start
        assert budget.delay_s(users, 3.0) == pytest.approx(0.001 * (users + 1) + 0.0001 * own)
        for tower in range(2):
            assert budget.delay_s(users, 3.0, f"tower:{tower}") == pytest.approx(0.001 * (users + 1) + 0.0001 * tower)

    def test_delay_frames(self, tmp_path):
        """A frame of 1000 bits at 100 kbit/s arrives 10 ms after it was sent, and a quarter of a second later."""
        received = {}
        for delay_s in (0.0, 0.25):
            text = f"user,time_s,gain_db,delay_s\n0,0,-90,{delay_s}\n1,0,-90,{delay_s}\n"
            path = write(tmp_path, text, f"d{delay_s}.csv")
            channel = {"kind": "trace", "file": str(path), "after_end": "hold"}
            network = {
                "round": {"kind": "first", "m": 1},
                "compute": {"speed": 1, "samples": 2},
                "broadcast_rate": "1 Mbps",
                "update_size": "1 kbit",
                "traffic": [],
            }
            checked = scenario([channel], duration=None, rounds=1, access=network)
            run = netfl.trace(checked, tmp_path / f"run{delay_s}")
            received[delay_s] = run.rounds["closed_s"].iloc[0]
        assert received[0.25] - received[0.0] == pytest.approx(0.5)  # the version goes as far as the update comes

    def test_negative_ones_are_refused(self, tmp_path):
        path = write(tmp_path, "user,time_s,gain_db,delay_s\n0,0,-90,-0.1\n")
        with pytest.raises(ScenarioError, match=r"t\.csv:2: column delay_s"):
            Trace(file=path).check_users(1)


class TestAverages:
    """Averages over the fading of a trace, against those of its numbers."""

    def fades(self, seed):
        return 10.0 * np.log10(np.random.default_rng(seed).exponential(4.0, 400))

    def run(self, folder, out, **access):
        lines = ["user,time_s,snr_db"]
        for user in range(2):
            snr_db = self.fades(user)
            lines += [f"{user},{second},{float(snr_db[second])!r}" for second in range(400)]
        path = write(folder, "\n".join(lines))
        channel = {"kind": "trace", "file": str(path), "interpolation": "previous", "after_end": "hold"}
        return netfl.run(
            scenario([channel], record={"attempts": True, "events": "none"}, access=access), folder / out
        ).attempts

    @pytest.mark.slow
    def test_losses_are_the_share_of_seconds_below_the_threshold(self, tmp_path):
        attempts = self.run(tmp_path, "threshold")
        for user in range(2):
            own = attempts[attempts["user"] == user]
            second = np.floor(own["start_s"].to_numpy() + 1e-9).astype(int)
            is_received = (own["outcome"] == "received").to_numpy()
            is_good = self.fades(user) >= 5.0
            assert (is_received == is_good[second])[:-1].all()  # the last frame has not ended
            assert is_received.mean() == pytest.approx(is_good.mean(), abs=0.01)

    @pytest.mark.slow
    def test_long_frames_have_the_mean_capacity_of_their_seconds(self, tmp_path):
        traffic = {"kind": "saturated", "size": {"distribution": "fixed", "mean": "5 Mbit"}}
        attempts = self.run(tmp_path, "long", reception={"kind": "shannon", "rate": "2 Mbps"}, traffic=traffic)
        ended = attempts[attempts["outcome"] != "unfinished"]
        assert len(ended) > 100
        assert 0.1 < (ended["outcome"] == "received").mean() < 0.9
        for row in ended.itertuples():
            second = np.arange(400)
            overlap_s = np.clip(np.minimum(second + 1, row.end_s) - np.maximum(second, row.start_s), 0.0, None)
            mean_bps = 1e6 * overlap_s @ np.log2(1.0 + 10.0 ** (self.fades(row.user) / 10.0)) / overlap_s.sum()
            assert (row.outcome == "received") == (mean_bps >= 2e6)


RSRP = "user,time_s,rsrp_dbm\n"
LEVELS = "".join(f"0,{second},{-80 - second}\n" for second in range(1, 9))


class TestPlausibility:
    """Values that other programs write, and that no link has."""

    def faults(self, folder, text, **settings):
        model = Trace(file=write(folder, text), after_end="hold", **settings)
        return [str(fault) for fault in model.faults(ScenarioFacts(users=1, rounds=1))]

    def doubts(self, folder, text, **settings):
        return [*Trace(file=write(folder, text), after_end="hold", **settings).doubts()]

    def test_zero_for_no_measurement_is_doubted(self, tmp_path):
        text = RSRP + "0,0,0\n" + LEVELS + "0,9,0\n"
        (doubt,) = self.doubts(tmp_path, text, reference_power="18 dBm")
        assert "t.csv: rsrp_dbm is 0 in 2 rows" in doubt
        assert "set missing: [0]" in doubt
        assert self.doubts(tmp_path, text, reference_power="18 dBm", missing=[0]) == []
        assert self.doubts(tmp_path, text, reference_power="18 dBm", missing=[]) == []
        (unused,) = self.doubts(tmp_path, text, reference_power="18 dBm", missing=[0, 255])
        assert unused.endswith("no row has the value 255, which is listed in missing; leave it out")

    def test_rows_without_a_measurement_are_left_out(self, tmp_path):
        text = RSRP + "0,0,-80\n0,1,114\n0,2,-90\n0,3,255\n"
        model = Trace(file=write(tmp_path, text), reference_power="18 dBm", after_end="hold", missing=[114, 255])
        gain = model.open(cell(1), STREAMS)
        assert gain.gain_db(np.zeros(3, int), np.array([0.0, 1.0, 5.0])).tolist() == [-98.0, -103.0, -108.0]

    def test_power_above_the_sent_one_is_refused_with_its_rows(self, tmp_path):
        (fault,) = self.faults(tmp_path, RSRP + "0,0,-80\n0,1,114\n", reference_power="18 dBm")
        assert "file: t.csv:3: column rsrp_dbm: not a received power from -300 to 18 dBm ('114')" in fault
        assert "set missing: [114]" in fault

    @pytest.mark.parametrize("sign", [1, -1])
    def test_ratios_are_no_decibels(self, tmp_path, sign):
        text = "user,time_s,gain_db\n" + "".join(f"0,{second},{sign * 10 ** -(9 + second):g}\n" for second in range(5))
        (fault,) = self.faults(tmp_path, text)
        assert "t.csv: column gain_db holds ratios of powers instead of decibels" in fault
        assert "write 10 lg of each" in fault

    def test_losses_are_no_gains(self, tmp_path):
        (fault,) = self.faults(tmp_path, "user,time_s,gain_db\n0,0,98\n0,1,103\n")
        assert (
            "column gain_db holds losses instead of gains: all are from 98 to 103; a loss is a negative gain" in fault
        )

    @pytest.mark.parametrize(
        ("column", "value"), [("snr_db", "1e9"), ("snr_db", "2147483647"), ("gain_db", "-1073741824"), ("gain_db", "0")]
    )
    def test_impossible_levels_are_refused(self, tmp_path, column, value):
        (fault,) = self.faults(tmp_path, f"user,time_s,{column}\n0,0,-10\n0,1,{value}\n")
        assert f"t.csv:3: column {column}: not " in fault
        assert f"('{value}')" in fault

    @pytest.mark.parametrize(("column", "value"), [("snr_db", 149.0), ("rate_bps", 2147483647.0)])
    def test_values_that_the_radio_cannot_give_are_refused(self, tmp_path, column, value):
        """20 dBm in the noise of 1 MHz, -108 dBm, is an SNR of 128 dB without any loss."""
        path = write(tmp_path, f"user,time_s,{column}\n0,0,1\n0,1,{value}\n")
        with pytest.raises(
            ScenarioError, match=f"file: t.csv:3: column {column}: more than the radio's power can give"
        ):
            LinkBudget(RADIO, [Trace(file=path, after_end="hold")], cell(1), STREAMS)

    def test_typed_durations_are_no_levels(self, tmp_path):
        frame = pd.DataFrame({"user": [0], "time_s": [0.0], "gain_db": pd.to_timedelta([-100], "s")})
        frame.to_parquet(tmp_path / "t.parquet")
        (fault,) = Trace(file=tmp_path / "t.parquet").faults(ScenarioFacts(users=1, rounds=1))
        assert "t.parquet:1: column gain_db: a value of type timedelta instead of a number" in str(fault)

    def test_times_of_any_size_are_no_warnings_of_python(self, tmp_path):
        faults = self.faults(tmp_path, "user,time_s,gain_db\n0,-1e308,-80\n0,1e308,-81\n")
        assert len(faults) == 2
        assert "t.csv:2: column time_s: not a time from -1e13 to 1e13 s ('-1e308')" in faults[0]


def test_remedy_for_weak_rates_names_the_unit(tmp_path):
    """Rates in Mbit/s: no power and no place of a user changes a measured rate."""
    path = write(tmp_path, "user,time_s,rate_bps\n0,0,12.5\n0,1,18.5\n")
    remedy = Trace(file=path).weak_signal_remedy(10 * math.log10(3), 180e3)
    assert "the largest rate_bps in t.csv is 18.5, and 3.6e+05 bit/s are needed: check its unit" in remedy
    assert "power" not in remedy
    assert "place" not in remedy
