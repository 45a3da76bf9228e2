"""Allocations against general optimisers, on random cells of a few users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from support.allocation_energies import energies_j

from netfl.network.allocation import MIN_FREQUENCY, AllocationRequest
from netfl.network.allocation._tradeoff import Tradeoff, fastest_upload_s, least_energy_of_sending_j
from netfl.network.allocation.equal import Equal
from netfl.network.allocation.least_energy import LeastEnergy
from netfl.network.allocation.least_time import LeastTime


def draw_request(seed, users=3, train_j=0.5):
    rng = np.random.default_rng(seed)
    return AllocationRequest(
        known_snr=10 ** rng.uniform(-1, 3, users),
        bits=rng.uniform(0.5, 2.0, users) * 1e6,
        train_s=rng.uniform(0.5, 3.0, users),
        train_j=train_j * rng.uniform(0.2, 2.0, users),
        fixed_j=np.zeros(users),
        transmit_w=rng.uniform(0.1, 1.0, users),
        bandwidth_hz=1e6,
    )


def times_s(request, decision):
    """Return the time of the training and the upload of each user."""
    rate_bps = decision.share * request.bandwidth_hz * np.log2(1 + decision.power * request.snr / decision.share)
    return request.train_s / decision.frequency + request.bits / rate_bps


def energy_of(request, share, upload_s, deadline_s):
    power = (2 ** (request.bits / (upload_s * share * request.bandwidth_hz)) - 1) * share / request.snr
    frequency = request.train_s / (deadline_s - upload_s)
    return request.train_j * frequency**2 + request.transmit_w * power * upload_s, power, frequency


def feasible_deadline_s(request, slack):
    users = len(request.snr)
    return slack * (request.train_s.max() + fastest_upload_s(request, np.full(users, 1 / users)).max())


def best_by_slsqp(request, deadline_s):
    """Return the least energy over the logarithms of shares and upload times, from a feasible start."""
    users = len(request.snr)
    start_s = fastest_upload_s(request, np.full(users, 1 / users))
    start_s = 0.5 * (start_s + deadline_s - request.train_s)

    def unpack(x):
        return np.exp(x[:users]), np.exp(x[users:])

    def limits(x):
        share, upload_s = unpack(x)
        with np.errstate(over="ignore"):
            _, power, _ = energy_of(request, share, upload_s, deadline_s)
        slack_s = deadline_s - upload_s - request.train_s
        return np.concatenate([[1 - share.sum()], np.clip(1 - power, -10, 1), slack_s])

    def energy(x):
        share, upload_s = unpack(x)
        upload_s = np.minimum(upload_s, 0.999999 * deadline_s)
        with np.errstate(over="ignore"):
            return np.clip(energy_of(request, share, upload_s, deadline_s)[0], 0, 1e6).sum()

    result = minimize(
        energy,
        np.log(np.concatenate([np.full(users, 1 / users), start_s])),
        constraints={"type": "ineq", "fun": limits},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert limits(result.x).min() > -1e-6
    return result.fun


@pytest.mark.slow
@pytest.mark.parametrize("slack", [1.05, 1.5, 4.0])
@pytest.mark.parametrize("train_j", [0.0, 0.5, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_least_energy_is_that_of_a_general_optimiser(seed, train_j, slack):
    request = draw_request(seed, train_j=train_j)
    deadline_s = feasible_deadline_s(request, slack)
    decision = LeastEnergy(deadline=deadline_s).allocate(request)
    assert decision.share.sum() == pytest.approx(1.0, abs=1e-9)
    assert decision.power.max() <= 1.0
    assert decision.frequency.max() <= 1.0
    assert times_s(request, decision).max() <= deadline_s * (1 + 1e-7)
    found_j = energies_j(request, decision).sum()
    expected_j = best_by_slsqp(request, deadline_s)
    assert found_j == pytest.approx(expected_j, rel=1e-4)
    assert found_j <= expected_j * (1 + 1e-6)


@pytest.mark.slow
def test_least_energy_by_brute_force():
    """Two users: no share and no pair of upload times on a grid needs less."""
    request = draw_request(7, users=2)
    deadline_s = feasible_deadline_s(request, 1.4)
    found_j = energies_j(request, LeastEnergy(deadline=deadline_s).allocate(request)).sum()
    least_j = np.inf
    for share in np.linspace(0.005, 0.995, 199):
        total_j = 0.0
        for user, part in enumerate((share, 1 - share)):
            one = request.select(np.array([user]))
            upload_s = np.linspace(0.01, deadline_s - one.train_s[0], 2000)
            with np.errstate(over="ignore"):
                energy_j, power, frequency = energy_of(one, part, upload_s, deadline_s)
            allowed = (power <= 1) & (frequency <= 1 + 1e-12)
            total_j += np.where(allowed, energy_j, np.inf).min()
        least_j = min(least_j, total_j)
    assert found_j <= least_j
    assert found_j == pytest.approx(least_j, rel=1e-3)


def test_a_deadline_that_cannot_be_met():
    """Nobody can send in time even alone; then all could, but not together, and so end together."""
    request = draw_request(3, users=4)
    deadline_s = request.train_s.min() + 0.5 * fastest_upload_s(request, np.ones(4)).min()
    decision = LeastEnergy(deadline=deadline_s).allocate(request)
    assert decision.share.tolist() == [0.0] * 4
    request.train_s[:] = 0.1
    request.snr[:] = [8.0, 9.0, 10.0, 11.0]
    deadline_s = 0.1 + 1.05 * fastest_upload_s(request, np.ones(4)).max()
    decision = LeastEnergy(deadline=deadline_s).allocate(request)
    assert decision.power.tolist() == decision.frequency.tolist() == [1.0] * 4
    ends_s = times_s(request, decision)
    assert ends_s == pytest.approx(np.full(4, ends_s[0]))
    assert ends_s[0] > deadline_s


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.2, 3.0, 30.0])
@pytest.mark.parametrize("seed", range(3))
def test_least_time_is_the_inverse_of_least_energy(seed, factor):
    """At the least time the budgets are met, and no shares meet them in less time."""
    request = draw_request(seed)
    budget_j = factor * least_energy_of_sending_j(request).max()
    decision = LeastTime(budget=budget_j).allocate(request)
    assert decision.share.sum() == pytest.approx(1.0, abs=1e-9)
    assert energies_j(request, decision).max() <= budget_j * (1 + 1e-6)
    deadline_s = times_s(request, decision).max()
    assert least_time_by_slsqp(request, budget_j) == pytest.approx(deadline_s, rel=1e-4)


def least_time_by_slsqp(request, budget_j):
    """Return the least T over the logarithms of T, shares, powers and frequencies."""
    users = len(request.snr)

    def unpack(x):
        share, power, frequency = np.exp(x[1:]).reshape(3, users)
        upload_s = request.bits / (share * request.bandwidth_hz * np.log2(1 + power * request.snr / share))
        energy_j = request.train_j * frequency**2 + request.transmit_w * power * upload_s
        return np.exp(x[0]), share, energy_j, request.train_s / frequency + upload_s

    def limits(x):
        deadline_s, share, energy_j, end_s = unpack(x)
        return np.concatenate([[1 - share.sum()], np.log(budget_j / energy_j), np.log(deadline_s / end_s)])

    best_s = np.inf
    for start in (0.02, 0.1, 0.5):
        shares = np.full(users, 1 / users)
        first = np.log(np.concatenate([[1.0], shares, np.full(users, start), np.full(users, start)]))
        first[0] = np.log(unpack(first)[3].max() * 1.01)
        bounds = [(None, None), *[(-12, 0)] * (3 * users)]
        result = minimize(
            lambda x: x[0],
            first,
            bounds=bounds,
            constraints={"type": "ineq", "fun": limits},
            method="SLSQP",
            options={"maxiter": 1000, "ftol": 1e-13},
        )
        if limits(result.x).min() > -1e-6:
            best_s = min(best_s, float(np.exp(result.fun)))
    return best_s


@pytest.mark.slow
def test_a_large_budget_gives_the_least_time_at_full_power():
    request = draw_request(5)
    decision = LeastTime(budget=1e6).allocate(request)
    assert decision.power == pytest.approx(np.ones(3), rel=1e-5)
    assert decision.frequency == pytest.approx(np.ones(3), rel=1e-5)
    ends_s = times_s(request, decision)
    assert ends_s == pytest.approx(np.full(3, ends_s[0]), rel=1e-6)


@pytest.mark.slow
def test_a_budget_that_is_too_small_for_one_user():
    request = draw_request(5)
    limits_j = np.sort(least_energy_of_sending_j(request))
    decision = LeastTime(budget=0.5 * (limits_j[1] + limits_j[2])).allocate(request)
    assert np.count_nonzero(decision.share) == 2
    assert decision.share[least_energy_of_sending_j(request).argmax()] == 0.0


def test_equal():
    decision = Equal().allocate(draw_request(1, users=4))
    assert decision.share.tolist() == [0.25] * 4
    assert decision.power.tolist() == decision.frequency.tolist() == [1.0] * 4


@pytest.mark.slow
def test_energy_is_convex_in_the_share():
    """The slope of the least energy is its difference quotient, and increases."""
    request = draw_request(2)
    tradeoff = Tradeoff(request, feasible_deadline_s(request, 1.3))
    grid = np.linspace(1.01 * tradeoff.least_shares(), np.full(3, 0.9), 400).T
    energy_j = np.array(
        [[energies_j(request, tradeoff.decide(column))[user] for column in grid.T] for user in range(3)]
    )
    quotient = np.diff(energy_j, axis=1) / np.diff(grid, axis=1)
    middles = 0.5 * (grid[:, 1:] + grid[:, :-1])
    assert tradeoff.slope(middles) == pytest.approx(quotient, rel=1e-2, abs=1e-6)
    assert (np.diff(tradeoff.slope(middles), axis=1) > -1e-9).all()


def test_no_processor_is_slower_than_a_caller_may_set_it():
    """With days for a training of a second, the least frequency costs a millionth of the energy at full frequency."""
    request = replace(draw_request(2), train_s=np.ones(3), train_j=np.ones(3))
    decision = LeastEnergy(deadline=1e6).allocate(request)
    assert decision.frequency.tolist() == [MIN_FREQUENCY] * 3
    slowest = replace(decision, frequency=np.full(3, 1e-6))
    assert (energies_j(request, decision) - energies_j(request, slowest)).max() <= 1e-6


def powers_of_ten(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


@st.composite
def extreme_requests(draw):
    users = draw(st.integers(1, 4))

    def values(low, high):
        return np.array([draw(powers_of_ten(low, high)) for _ in range(users)])

    return AllocationRequest(
        known_snr=values(-10, 8),
        bits=values(1, 9),
        train_s=values(-3, 4) * draw(st.sampled_from([0.0, 1.0])),
        train_j=values(-6, 3) * draw(st.sampled_from([0.0, 1.0])),
        fixed_j=values(-6, 3) * draw(st.sampled_from([0.0, 1.0])),
        transmit_w=values(-12, 2),
        bandwidth_hz=draw(powers_of_ten(2, 9)),
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(extreme_requests(), powers_of_ten(-4, 4), st.booleans())
def test_extreme_requests_have_finite_fractions(request, limit, has_deadline):
    model = LeastEnergy(deadline=limit) if has_deadline else LeastTime(budget=limit)
    decision = model.allocate(request)
    for values in (decision.share, decision.power, decision.frequency):
        assert np.isfinite(values).all()
        assert ((values >= 0) & (values <= 1 + 1e-9)).all()
    assert decision.share.sum() <= 1 + 1e-9
    assert min(decision.power.min(), decision.frequency.min()) > 0
