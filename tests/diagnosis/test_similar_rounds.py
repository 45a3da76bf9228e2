"""Rounds with nearly the same rates: neighbours, and blocks in which order carries no information."""

import numpy as np
import pytest

from netfl.diagnosis.similar_rounds import find_similar_rounds


def test_neighbours_without_a_cycle_are_the_next_rounds():
    similar = find_similar_rounds(np.arange(100.0), None)
    assert similar.rows.tolist() == [*range(2, 98)]
    assert (similar.neighbours - similar.rows).T.tolist() == [[-2, -1, 1, 2]] * 96
    assert not similar.has_cycle
    assert np.bincount(similar.block).tolist() == [20] * 5


def test_neighbours_in_a_cycle_are_at_the_same_phase():
    similar = find_similar_rounds(np.arange(400.0), 7.0)
    assert set(((similar.neighbours - similar.rows) % 7).ravel().tolist()) == {0}
    assert similar.lag == 7
    for block in range(similar.block.max() + 1):
        rounds = np.flatnonzero(similar.block == block)
        assert len(rounds) <= 5
        assert set(np.diff(rounds).tolist()) <= {7}


@pytest.mark.parametrize(("period", "lag"), [(7.5, 15), (7.25, 29), (52.77, 53 * 4 - 1)])
def test_step_is_the_number_of_periods_with_the_smallest_error(period, lag):
    """7.5 rounds repeat exactly after two periods, 7.25 after four, and 52.77 best after four (211.08)."""
    similar = find_similar_rounds(np.arange(4000.0), period)
    assert similar.lag == lag


def test_line_has_no_residual():
    line = np.linspace(0, 1, 50)[:, None].astype(np.float32)
    similar = find_similar_rounds(np.arange(50.0), None)
    assert line[similar.rows] == pytest.approx(similar.mean(line), abs=1e-6)


def test_neighbours_in_seconds_are_nearest_in_time():
    rng = np.random.default_rng(1)
    time = np.cumsum(rng.exponential(1.0, 2000))
    time -= time[0]
    similar = find_similar_rounds(time, 40.0)
    distance = time[similar.neighbours] - time[similar.rows]
    wanted = 40.0 * np.array([-2, -1, 1, 2])[:, None]
    gaps = np.abs(time[None, None, :] - (time[similar.rows] + wanted)[..., None]).min(axis=2)
    assert np.abs(distance - wanted) == pytest.approx(gaps)


@pytest.mark.parametrize(
    ("rounds", "period", "changing"),
    [(300, 40.0, None), (300, 30.0, 300.0), (2000, 19.0, 288.0), (3, None, None), (50, 2.3, None)],
    ids=["slow cycle", "slow beside a drift", "orbit in a day", "no rounds", "no whole number"],
)
def test_cycles_without_similar_rounds(rounds, period, changing):
    assert find_similar_rounds(np.arange(float(rounds)), period, changing) is None
