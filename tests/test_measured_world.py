"""The page of measurements states what is stored of each comparison, and the stored rows are of what they say."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import real_lorawan
from real_lorawan import Frames, follow, persistent, statistics_of, union

PAGE = (Path(__file__).parents[1] / "docs" / "measured_world.md").read_text("utf-8")


@pytest.mark.parametrize("lines", [real_lorawan.edge_lines, real_lorawan.score_lines])
def test_the_page_states_the_stored_rows(lines):
    assert "\n".join(lines()) in PAGE


class TestLorawan:
    def test_the_fit_finds_the_curve_and_the_link_that_made_the_frames(self):
        rng = np.random.default_rng(5)
        snr_db = rng.normal(-6.0, 3.0, 40_000)
        got = rng.random(snr_db.size) < real_lorawan.success(snr_db, 1.0, 0.75, 0)
        mean, deviation, best = real_lorawan.fit_link(snr_db[got], int((~got).sum()), (1.0, 0.75), 0)
        assert (mean, deviation) == (pytest.approx(-6.0, abs=0.1), pytest.approx(3.0, abs=0.1))
        for wrong in ((-1.0, 0.75), (3.0, 0.75), (1.0, 3.0)):
            assert real_lorawan.fit_link(snr_db[got], int((~got).sum()), wrong, 0)[2] < best - 50.0

    def test_received_frames_alone_tell_the_edge_where_the_link_reaches_it(self):
        rng = np.random.default_rng(6)
        snr_db = rng.normal(-6.0, 3.0, 40_000)
        got = rng.random(snr_db.size) < real_lorawan.success(snr_db, 0.0, 0.5, 0)
        likelihoods = [real_lorawan.fit_link(snr_db[got], None, (shift, 0.5), 0)[2] for shift in (-3.0, 0.0, 3.0)]
        assert int(np.argmax(likelihoods)) == 1

    def test_channels_of_lost_frames_are_those_of_the_order(self, tmp_path):
        frequencies = [868.1, 867.1, 867.9, 867.3, 868.5, 867.5, 868.3, 867.7] * 3
        rows = pd.DataFrame({"frequency_mhz": frequencies, "snr_db_gw0": 1.0})
        rows.loc[[9, 20], ["frequency_mhz", "snr_db_gw0"]] = np.nan
        rows.to_csv(tmp_path / "device.csv", index=False)
        frames = real_lorawan.read(tmp_path / "device.csv", has_order=True)
        names = sorted(set(frequencies))
        assert [names[channel] for channel in frames.channel[8:]] == frequencies[8:]
        assert np.flatnonzero(~frames.received[:, 0]).tolist() == [9, 20]

    def test_a_walk_without_steps_is_the_static_model_and_one_with_steps_follows_a_jump(self):
        got = np.concatenate([np.ones(400, bool), np.zeros(400, bool)])
        odds = np.zeros(800)
        assert follow(got, odds, 0.0)[0] == pytest.approx(0.5)
        predicted = follow(got, odds, 0.03)[0]
        assert predicted[399] > 0.9
        assert predicted[799] < 0.1

    def test_persistence_counts_the_last_frames(self):
        before, got = np.zeros(600, bool), np.ones(3, bool)
        assert persistent(got, before) == pytest.approx(np.array([0.5, 1.5, 2.5]) / 501.0)

    def test_statistics_by_hand(self):
        got = np.array([1, 1, 0, 1, 0, 0], bool)
        assert statistics_of(got) == (pytest.approx(0.5), pytest.approx(1 / 3), pytest.approx(0.5))

    def test_outages_are_in_no_union(self):
        heard = np.array([1, 0, 1, 0, 0, 0, 1, 1], bool)
        assert union(np.stack([heard, np.zeros(8, bool)], -1)) == pytest.approx(0.8)

    def test_a_half_has_its_own_frames(self):
        frames = Frames(np.eye(5, dtype=bool), np.zeros((5, 5)), np.arange(5))
        first, second = real_lorawan.halves(frames)
        assert (first.channel.tolist(), second.channel.tolist()) == ([0, 1], [2, 3, 4])

    def test_fits_are_those_of_both_devices_and_of_the_tower(self):
        stored = json.loads(real_lorawan.FITS.read_text())
        assert [*stored] == ["33", "32", "tour_perret"]
        assert {len(stored["33"][key]) for key in ("snr", "static", "steps")} == {8}
