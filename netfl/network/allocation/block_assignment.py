"""Joint selection of users and assignment of blocks under packet errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.network.allocation import Allocation, AllocationRequest, Blocks, Decision
from netfl.network.allocation._tradeoff import LEAST_GIVEN_POWER
from netfl.network.reception import Reception
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law
from netfl.units import Joules, Seconds

_HALVINGS = 44
"""Steps of the bisection for a power."""
_MIN_BPS = 1e-300
"""Rate of an upload that never ends, so that its time is finite."""
_ROUNDING_UP = 1.0 + 1e-9
_NO_BLOCK = -1
_LAW_USERS = 5
_LAW_BLOCKS = 3


class BlockAssignment(Allocation):
    """One block of the band for each of some users, so that packet errors cost the learners as little as possible.

    The band is R blocks with interference of their own; user i in block n loses its update, in one frame, with
    probability q_in, as the reception states.  With a_i = 1 for users that have a block and 0 for the others, minimise

        Σ K_i (1 - a_i + a_i q_i),    q_i = q_in of the block n of user i,

    the number of training examples that a round is expected to miss: ``weights: samples`` takes the training examples
    of users as K_i, and ``equal`` takes K_i = 1, which is the least sum of packet errors.  A user sends at the power

        P_in = min(full power, the power at which the training and the upload take the energy ``budget``),

    and an edge between user i and block n costs K_i (q_in - 1) if training and upload end by the ``deadline`` and
    within the budget at this power.  The others cost 0, as users without a block do.  The assignment of least sum is
    found by the Hungarian method, and drawn in each round where there are several, so that equal users take turns;
    users on edges that cost 0 take no part in the round.

    The other methods are the baselines of the source:

    - ``random_blocks``: the users of ``joint``, on blocks drawn at random.
    - ``random``: users and blocks drawn at random, as many users as there are blocks.

    A user whose drawn block breaks a limit takes no part.  Draws hold for the whole run, or are new in each round with
    ``redraw``.

    M. Chen, Z. Yang, W. Saad, C. Yin, H. V. Poor and S. Cui, "A joint learning and communications framework for
    federated learning over wireless networks", IEEE Trans. Wireless Commun. 20(1), 2021, §IV, for towers that know the
    mean of the SNR: ``reception: {kind: waterfall, fading: rayleigh, …}``.  The interference of the blocks is that of
    ``mac: {kind: fdma, division: blocks, …}``; the time of the download is not part of the deadline.

    Example::

        kind: block_assignment
        deadline: 500 ms
        budget: 3 mJ
    """

    method: Literal["joint", "random_blocks", "random"] = "joint"
    """Rule by which users have blocks: the assignment of least cost, its users on random blocks, or both at random."""
    weights: Literal["samples", "equal"] = "samples"
    """K_i: the training examples of each user, or 1."""
    deadline: Annotated[Seconds, Field(gt=0)] | None = None
    """Time from the start of the trainings to the end of the uploads; ``null`` for no limit."""
    budget: Annotated[Joules, Field(gt=0)] | None = None
    """Energy of each user for the training and the upload of a round; ``null`` for no limit."""
    redraw: bool = False
    """True for new draws in each round, in place of one draw for the run."""

    @property
    def assigns_blocks(self) -> bool:
        return True

    @property
    def needs_sample_counts(self) -> bool:
        return self.weights == "samples" and self.method != "random"

    @property
    def needs_energy(self) -> bool:
        return self.budget is not None

    @property
    def observes(self) -> tuple[str, ...]:
        return ("snr_db",)

    @property
    def deadline_s(self) -> float | None:
        return self.deadline

    def allocate(self, request: AllocationRequest) -> Decision:
        blocks = request.blocks
        assert blocks is not None  # the validation sees to it
        edges = find_edges(request, blocks, self.deadline, self.budget)
        if self.method == "random":
            users = _random_order(blocks, "users", blocks.ids, redraw=self.redraw)[: blocks.count]
            block = self._on_random_blocks(blocks, np.sort(users))
        else:
            weights = np.ones(len(blocks.ids))
            if self.weights == "samples":
                weights = blocks.samples
            block = _assign_fairly(edges, weights, blocks)
            if self.method == "random_blocks":
                block = self._on_random_blocks(blocks, np.flatnonzero(block != _NO_BLOCK))

        places = np.arange(len(block))
        has_block = block != _NO_BLOCK
        has_block[has_block] = edges.is_allowed[places[has_block], block[has_block]]
        power = np.ones(len(block))
        power[has_block] = edges.power[places[has_block], block[has_block]]
        return blocks.decision(np.where(has_block, block, _NO_BLOCK), power)

    def _on_random_blocks(self, blocks: Blocks, users: Ints) -> Ints:
        """Return the block of each user if *users*, by their places, have the first of a random order, ``[n]``."""
        order = _random_order(blocks, "blocks", blocks.numbers, redraw=self.redraw)
        block = np.full(len(blocks.ids), _NO_BLOCK)
        block[users] = order[: len(users)]
        return block

    def laws(self) -> tuple[Law, ...]:
        """Claim that equal users take turns in equal blocks where no limit binds, R = 3 blocks and 5 users."""
        model = self.model_copy(update={"deadline": None, "budget": None, "redraw": True})

        def draw(streams: Streams, size: int) -> Floats:
            decisions = [model.allocate(_equal_users(streams, number + 1)) for number in range(size)]
            return np.array([np.array_equal(np.flatnonzero(each.block == 0), [0]) for each in decisions], float)

        chance = 1.0 / _LAW_USERS
        statement = "1/U: one of U equal users has a block with probability R/U, and each block with probability 1/R"
        return (Law("user 0 has block 0", statement, draw, chance, chance * (1.0 - chance)),)


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges between users and blocks, ``[n, blocks]`` each.

    Args:
        power: fraction of its power with which the user sends in the block.
        loss: q_in, the probability that its update is lost at this power.
        is_allowed: whether training and upload keep the limits.
    """

    power: Floats
    loss: Floats
    is_allowed: Bools


def find_edges(
    request: AllocationRequest, blocks: Blocks, deadline_s: float | None = None, budget_j: float | None = None
) -> Edges:
    """Return the powers, losses and limits of all users in all blocks; ``None`` for no limit."""
    power = np.ones((request.users, blocks.count))
    keeps_budget = np.ones(power.shape, np.bool_)
    if budget_j is not None:
        sending_j = budget_j - (request.train_j + request.fixed_j)[:, None]
        power = _power_within(request, blocks, sending_j)
        keeps_budget = _sending_j(request, blocks, power) <= sending_j * _ROUNDING_UP
    keeps_deadline = np.ones(power.shape, np.bool_)
    if deadline_s is not None:
        end_s = request.train_s[:, None] + _upload_s(request, blocks, power)
        keeps_deadline = end_s <= deadline_s
    return Edges(power, 1.0 - _success(request, blocks, power), keeps_budget & keeps_deadline)


def assign_blocks(edges: Edges, weights: Floats) -> Ints:
    """Return the block of each user with the least Σ K_i (1 - a_i + a_i q_i), ``[n]``; -1 for no block.

    Args:
        edges: edges between users and blocks.
        weights: K_i, ``[n]``.
    """
    from scipy.optimize import linear_sum_assignment

    cost = np.where(edges.is_allowed, weights[:, None] * (edges.loss - 1.0), 0.0)  # 0 is the cost of no block
    users, assigned = linear_sum_assignment(cost)
    is_useful = cost[users, assigned] < 0.0
    block = np.full(len(weights), _NO_BLOCK)
    block[users[is_useful]] = assigned[is_useful]
    return block


def _assign_fairly(edges: Edges, weights: Floats, blocks: Blocks) -> Ints:
    """Return an assignment of least sum, one of several at random: equal users are equal, whatever their numbers."""
    users = _random_order(blocks, "equal users", blocks.ids, redraw=True)
    numbers = _random_order(blocks, "equal blocks", blocks.numbers, redraw=True)
    grid = np.ix_(users, numbers)
    shuffled = Edges(edges.power[grid], edges.loss[grid], edges.is_allowed[grid])
    place = assign_blocks(shuffled, weights[users])
    block = np.full(len(users), _NO_BLOCK)
    block[users] = np.where(place == _NO_BLOCK, _NO_BLOCK, numbers[place])
    return block


def _power_within(request: AllocationRequest, blocks: Blocks, sending_j: Floats) -> Floats:
    """Return the largest fractions of power with which uploads keep to *sending_j*, by bisection, ``[n, blocks]``.

    The energy ρ w b / rate(ρ) rises with the fraction ρ, as the rate rises less than in proportion.
    """
    low = np.full((request.users, blocks.count), LEAST_GIVEN_POWER)
    high = np.ones(low.shape)
    is_full = _sending_j(request, blocks, high) <= sending_j
    for _ in range(_HALVINGS):
        middle = np.sqrt(low * high)
        is_within = _sending_j(request, blocks, middle) <= sending_j
        low = np.where(is_within, middle, low)
        high = np.where(is_within, high, middle)
    return np.where(is_full, 1.0, low)


def _sending_j(request: AllocationRequest, blocks: Blocks, power: Floats) -> Floats:
    """Return the energy of each upload in each block at these fractions of power, ``[n, blocks]``."""
    return np.asarray(request.transmit_w[:, None] * power * _upload_s(request, blocks, power))


def _upload_s(request: AllocationRequest, blocks: Blocks, power: Floats) -> Floats:
    """Return the time of each upload in each block at these fractions of power, ``[n, blocks]``."""
    sinr_db = _sinr_db(request, blocks, power)
    rates_bps = _rates_bps(blocks.reception, sinr_db, request.bandwidth_hz) / blocks.count
    return np.asarray(request.bits[:, None] / np.maximum(rates_bps, _MIN_BPS))


def _rates_bps(reception: Reception, sinr_db: Floats, bandwidth_hz: float) -> Floats:
    """Return the rate in the whole band at each SINR, ``[n, blocks]``."""
    flat_db = sinr_db.ravel()
    if reception.follows_snr:
        rates_bps = reception.expected_rate_bps(flat_db, bandwidth_hz)
    else:
        modes = reception.choose(flat_db, bandwidth_hz)
        rates_bps = np.array([reception.rate_bps(bandwidth_hz, mode) for mode in range(reception.modes)])[modes]
    return np.asarray(rates_bps.reshape(sinr_db.shape))


def _success(request: AllocationRequest, blocks: Blocks, power: Floats) -> Floats:
    """Return the probability that each upload is received, ``[n, blocks]``."""
    sinr_db = _sinr_db(request, blocks, power)
    success = np.empty(sinr_db.shape)
    for user, bits in enumerate(request.bits.tolist()):
        row_db = sinr_db[user]
        modes = blocks.reception.choose(row_db, request.bandwidth_hz)
        for mode in np.unique(modes).tolist():
            places = np.flatnonzero(modes == mode)
            success[user, places] = blocks.reception.success(row_db[places], request.bandwidth_hz, bits, mode)
    return success


def _sinr_db(request: AllocationRequest, blocks: Blocks, power: Floats) -> Floats:
    """Return the SINR that the reception judges; that of a request is less its gap, which the reception counts."""
    return blocks.sinr_db(request.snr[:, None] * power) + blocks.reception.snr_gap_db


def _random_order(blocks: Blocks, name: str, numbers: Ints, *, redraw: bool) -> Ints:
    """Return the places of *numbers* in a random order."""
    index = 0  # one order for the run
    if redraw:
        index = blocks.round
    keys = blocks.streams.field(name).uniform(numbers, index)
    return np.argsort(keys, kind="stable")


def _equal_users(streams: Streams, round: int) -> AllocationRequest:
    """Return equal users in equal blocks, for the law."""
    from netfl.network.reception.waterfall import Waterfall

    ones = np.ones(_LAW_USERS)
    blocks = Blocks(
        outside=np.zeros((_LAW_USERS, _LAW_BLOCKS)),
        reception=Waterfall(threshold=0.0),
        ids=np.arange(_LAW_USERS),
        samples=ones,
        numbers=np.arange(_LAW_BLOCKS),
        streams=streams,
        round=round,
    )
    return AllocationRequest(ones, ones, ones, ones, ones, ones, 1.0, blocks)
