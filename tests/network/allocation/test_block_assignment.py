"""Assignment of blocks against all assignments of small cells, its losses, powers and draws, and whole networks."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, optimize
from support.small_network import SECTION, make, play

from netfl.errors import ScenarioError
from netfl.network.allocation import Allocation, AllocationRequest, Blocks, Decision
from netfl.network.allocation.block_assignment import BlockAssignment, Edges, assign_blocks, find_edges
from netfl.network.reception.shannon import Shannon
from netfl.network.reception.waterfall import Waterfall
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.streams import Streams
from netfl.testing.laws import check_laws
from netfl.types import Law

THRESHOLD_DB, BANDWIDTH_HZ = 0.5, 3e6
WATERFALL = Waterfall(threshold=THRESHOLD_DB, fading="rayleigh")


def draw_request(seed, users=4, count=3, reception=WATERFALL, round_number=1):
    rng = np.random.default_rng(seed)
    outside = rng.uniform(0.5, 3.0, count) * np.ones((users, 1))
    samples = rng.integers(1, 7, users) * 100.0
    blocks = Blocks(
        outside, reception, np.arange(users), samples, np.arange(count), Streams(seed).at("allocation"), round_number
    )
    return AllocationRequest(
        known_snr=10 ** rng.uniform(0, 1.5, users),
        bits=np.full(users, 6e5),
        train_s=rng.uniform(0.0, 0.1, users),
        train_j=rng.uniform(0.0, 1e-3, users),
        fixed_j=np.zeros(users),
        transmit_w=np.full(users, 0.01),
        bandwidth_hz=BANDWIDTH_HZ,
        blocks=blocks,
    )


def mean_over_fading(value):
    """Return E[value(x)] over a gain x ~ Exp(1), by quadrature."""
    mean, _ = integrate.quad(lambda x: value(x) * math.exp(-x) if x else 0.0, 0.0, np.inf, epsabs=1e-12, limit=200)
    return mean


def sinr(request, user, block, power=1.0):
    """Return the mean SINR of a user in a block: the noise is that of a share of the band."""
    blocks = request.blocks
    return power * request.snr[user] / (1.0 / blocks.count + blocks.outside[user, block])


def loss(request, user, block, power=1.0):
    ratio = 10 ** (THRESHOLD_DB / 10) / sinr(request, user, block, power)
    return 1.0 - mean_over_fading(lambda x: math.exp(-ratio / x))


def upload_s(request, user, block, power=1.0):
    mean_sinr = sinr(request, user, block, power)
    rate_bps = BANDWIDTH_HZ / request.blocks.count * mean_over_fading(lambda x: math.log2(1.0 + mean_sinr * x))
    return request.bits[user] / rate_bps


def cost_of(block, edges, weights):
    """Return Σ K_i (1 - a_i + a_i q_i) of a decision; infinity if it breaks a limit."""
    total = 0.0
    for user, number in enumerate(block):
        if number < 0:
            total += weights[user]
        elif edges.is_allowed[user, number]:
            total += weights[user] * edges.loss[user, number]
        else:
            return math.inf
    return total


def all_assignments(users, count):
    """Yield every way in which users have distinct blocks or none."""
    for block in itertools.product(range(-1, count), repeat=users):
        assigned = [number for number in block if number >= 0]
        if len(set(assigned)) == len(assigned):
            yield block


@pytest.mark.parametrize(("users", "count"), [(4, 3), (3, 3), (2, 4), (5, 2), (1, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_the_assignment_is_the_best_of_all(seed, users, count):
    rng = np.random.default_rng([seed, users, count])
    edges = Edges(
        np.ones((users, count)), rng.uniform(0.01, 0.99, (users, count)), rng.uniform(size=(users, count)) < 0.7
    )
    weights = rng.integers(1, 7, users) * 100.0
    found = assign_blocks(edges, weights)
    least = min(cost_of(block, edges, weights) for block in all_assignments(users, count))
    assert cost_of(found, edges, weights) == pytest.approx(least, rel=1e-12)


@pytest.mark.parametrize("weights", ["samples", "equal"])
@pytest.mark.parametrize("seed", range(3))
def test_an_allocation_is_the_best_of_all(seed, weights):
    """The costs are those of independent integrals over the fading."""
    request = draw_request(seed)
    decision = BlockAssignment(weights=weights).allocate(request)
    losses = [[loss(request, user, block) for block in range(3)] for user in range(4)]
    edges = Edges(np.ones((4, 3)), np.array(losses), np.ones((4, 3), bool))
    k = request.blocks.samples if weights == "samples" else np.ones(4)
    least = min(cost_of(block, edges, k) for block in all_assignments(4, 3))
    assert cost_of(decision.block, edges, k) == pytest.approx(least, rel=1e-9)
    assert decision.share == pytest.approx(np.where(decision.block >= 0, 1 / 3, 0.0))


def test_edges_against_integrals_over_the_fading():
    """Powers, losses and limits, where each of the limits binds somewhere."""
    request = draw_request(3, users=6)
    deadline_s, budget_j = 0.7, 3e-3
    edges = find_edges(request, request.blocks, deadline_s, budget_j)
    for user, block in itertools.product(range(6), range(3)):

        def spent_j(power, user=user, block=block):
            sending_j = request.transmit_w[user] * power * upload_s(request, user, block, power)
            return request.train_j[user] + sending_j

        power = 1.0
        if spent_j(1.0) > budget_j and spent_j(1e-9) < budget_j:
            power = optimize.brentq(lambda power: spent_j(power) - budget_j, 1e-9, 1.0, xtol=1e-14)
        can_pay = spent_j(1.0) <= budget_j or spent_j(1e-9) < budget_j
        in_time = request.train_s[user] + upload_s(request, user, block, power) <= deadline_s
        assert edges.is_allowed[user, block] == (can_pay and in_time)
        if can_pay:
            assert edges.power[user, block] == pytest.approx(power, rel=1e-6)
            assert edges.loss[user, block] == pytest.approx(loss(request, user, block, power), rel=1e-6)
    assert 0 < edges.is_allowed.sum() < edges.is_allowed.size
    assert (edges.power[edges.is_allowed] < 1.0).any()


def test_weights_decide_among_users():
    """The user with more examples has the only block, although another loses less."""
    blocks = Blocks(np.zeros((2, 1)), WATERFALL, np.arange(2), np.array([100.0, 600.0]), np.arange(1), Streams(1), 1)
    ones = np.ones(2)
    request = AllocationRequest(np.array([20.0, 10.0]), ones, 0 * ones, 0 * ones, 0 * ones, ones, 1.0, blocks)
    assert BlockAssignment().allocate(request).block.tolist() == [-1, 0]
    assert BlockAssignment(weights="equal").allocate(request).block.tolist() == [0, -1]


def test_fixed_energy_of_training_counts_towards_the_budget():
    request = draw_request(1)
    fixed = replace(request, train_j=np.zeros(4), fixed_j=request.train_j)
    of_cycles = BlockAssignment(budget=2e-3).allocate(request)
    of_samples = BlockAssignment(budget=2e-3).allocate(fixed)
    assert of_samples.block.tolist() == of_cycles.block.tolist()
    assert of_samples.power.tolist() == of_cycles.power.tolist()
    assert (BlockAssignment(budget=1e-3).allocate(replace(request, fixed_j=np.full(4, 2e-3))).block == -1).all()


def test_no_user_within_the_limits():
    request = draw_request(1)
    decision = BlockAssignment(deadline=1e-6).allocate(request)
    assert decision.block.tolist() == [-1] * 4
    assert decision.share.tolist() == [0.0] * 4
    assert BlockAssignment(budget=1e-12).allocate(request).block.tolist() == [-1] * 4


@pytest.mark.parametrize("method", ["random", "random_blocks"])
def test_draws_hold_for_the_run_or_a_round(method):
    def blocks_of(redraw):
        model = BlockAssignment(method=method, redraw=redraw)
        rounds = [model.allocate(draw_request(5, round_number=number)).block for number in range(1, 21)]
        return {tuple(block.tolist()) for block in rounds}

    assert len(blocks_of(redraw=False)) == 1
    drawn = blocks_of(redraw=True)
    assert len(drawn) > 3
    for block in drawn:
        assert sorted(number for number in block if number >= 0) == [0, 1, 2]


def test_random_blocks_keep_the_users_of_the_assignment_within_the_limits():
    request = draw_request(3, users=6)
    limits = {"deadline": 0.7, "budget": 3e-3}
    edges = find_edges(request, request.blocks, 0.7, 3e-3)
    joint = BlockAssignment(**limits).allocate(request).block
    drawn = BlockAssignment(**limits, method="random_blocks").allocate(request)
    kept = np.flatnonzero(drawn.block >= 0)
    assert set(kept) <= set(np.flatnonzero(joint >= 0))
    assert edges.is_allowed[kept, drawn.block[kept]].all()
    assert drawn.power[kept] == pytest.approx(edges.power[kept, drawn.block[kept]])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["joint", "random", "random_blocks"])
def test_laws_of_the_draws(method):
    assert check_laws(BlockAssignment(method=method), Streams(4), size=4000) == []


def test_the_gap_of_a_reception_counts_once():
    """An SNR of 10 dB over a gap of 3 dB, in a block without interference."""
    snr = np.array([10**0.7])
    ones = np.ones(1)
    blocks = Blocks(np.zeros((1, 1)), Shannon(gap=3.0), np.arange(1), ones, np.arange(1), Streams(1), 1)
    request = AllocationRequest(snr, ones, 0 * ones, 0 * ones, 0 * ones, ones, 1.0, blocks)
    fastest_s = 1.0 / math.log2(1.0 + 10**0.7)
    for deadline_s, is_allowed in ((fastest_s * 0.999, False), (fastest_s * 1.001, True)):
        assert find_edges(request, blocks, deadline_s).is_allowed.tolist() == [[is_allowed]]


# ---- whole networks

DISTANCES_M = np.array([100.0, 200.0, 300.0, 400.0])
INTERFERENCE_W = np.array([5e-9, 5e-8])
PARTS = {
    "topology": {"kind": "star", "distances": [*DISTANCES_M], "rate": "1000 Gbps", "delay": 0},
    "radio": {"power": "10 mW", "bandwidth": "2 MHz"},
    "channel": [{"kind": "log_distance", "exponent": 2.0, "reference_loss": "0 dB"}],
    "reception": {"kind": "waterfall", "threshold": "0.5 dB", "fading": "rayleigh"},
    "mac": {
        "kind": "fdma",
        "division": "blocks",
        "interference": [f"{10 * math.log10(1e3 * power_w)!r} dBm" for power_w in INTERFERENCE_W],
        "max_attempts": 1,
    },
    "unreachable": "keep",
    "compute": {"speed": 1e6, "samples": 1},
    "energy": {"efficiency": 1},
    "update_size": 6e5,
    "round": {"kind": "available", "deadline": "1 h"},
}


def network_sinr(user, block, power=1.0):
    """Return P h / (I + B N_0 / R)."""
    noise_w = 10 ** ((-174 - 30) / 10) * 1e6
    return 0.01 * power / DISTANCES_M[user] ** 2 / (INTERFERENCE_W[block] + noise_w)


def ergodic_s(mean_sinr):
    return 6e5 / (1e6 * mean_over_fading(lambda x: math.log2(1.0 + mean_sinr * x)))


def test_a_round_with_blocks():
    """Users 2 and 3 have most examples, `play`; the farther one has the better block. They send for Z / c_i."""
    rounds, log = play(4, 1, **PARTS, allocation="block_assignment")
    ends_s = {int(user): end_s - start_s for part in log.attempts for start_s, end_s, user in
              zip(part["start_s"], part["end_s"], part["user"], strict=True)}  # fmt: skip
    assert ends_s.keys() == {2, 3}
    assert ends_s[2] == pytest.approx(ergodic_s(network_sinr(2, 1)), rel=1e-6)
    assert ends_s[3] == pytest.approx(ergodic_s(network_sinr(3, 0)), rel=1e-6)
    snr_db = {int(user): value for part in log.attempts for user, value in
              zip(part["user"], part["snr_db"], strict=True)}  # fmt: skip
    assert 10 ** (snr_db[2] / 10) == pytest.approx(network_sinr(2, 1), rel=1e-6)
    assert len(rounds) == 1


@pytest.mark.parametrize("method", ["joint", "random_blocks"])
def test_equal_users_take_turns(method):
    """Of four equal users, in two equal blocks, each sends in about half of the rounds (|z| < 5)."""
    equal = {"topology": PARTS["topology"] | {"distances": [100.0] * 4}}
    equal["mac"] = PARTS["mac"] | {"interference": ["-60 dBm", "-60 dBm"]}
    allocation = {"kind": "block_assignment", "method": method, "weights": "equal", "redraw": True}
    _, log = play(4, 100, **PARTS | equal, allocation=allocation)
    begun = log.spendings["begun"]
    assert begun.sum() == 200
    assert np.abs(begun - 50).max() < 5 * math.sqrt(100 * 0.25)


def test_each_cell_assigns_its_own_blocks():
    """In each of two cells, two users send in each round."""
    tree = {"kind": "tree", "fanout": [2], "ring": "100 m", "radius": "10 m", "rate": "1000 Gbps", "delay": 0}
    allocation = {"kind": "block_assignment", "method": "random", "redraw": True}
    access, context, log = make(6, 12, **PARTS | {"topology": tree}, allocation=allocation)
    towers = np.asarray(access.user_columns(context)["tower"])
    assert np.bincount(towers).min() >= 2
    assert len(list(access.rounds(context))) == 12
    begun = log.spendings["begun"]
    assert [begun[towers == tower].sum() for tower in (0, 1)] == [24, 24]


def test_energy_keeps_to_the_budget():
    budget_j = 1.5e-3
    _, log = play(4, 3, **PARTS, allocation={"kind": "block_assignment", "budget": budget_j})
    spent_j = log.spendings["energy_J"] / 3
    assert spent_j.max() == pytest.approx(budget_j, rel=1e-3)
    assert np.count_nonzero(spent_j) == 2


@pytest.mark.slow
def test_losses_of_a_network():
    """The share of updates that are lost is that of the integral, for each user (|z| < 5)."""
    rounds = 600
    played, _ = play(4, rounds, **PARTS, allocation="block_assignment")
    delivered = np.zeros(4)
    for each in played:
        delivered[[delivery.user for delivery in each.deliveries]] += 1
    for user, block in ((2, 1), (3, 0)):
        ratio = 10 ** (0.5 / 10) / network_sinr(user, block)
        q = 1.0 - mean_over_fading(lambda x: math.exp(-ratio / x))  # noqa: B023
        lost = rounds - delivered[user]
        assert abs(lost - rounds * q) < 5 * math.sqrt(rounds * q * (1 - q))
    assert delivered[:2].tolist() == [0, 0]


def load(**overrides):
    section = SECTION | {
        "reception": {"kind": "waterfall", "threshold": "0 dB"},
        "compute": {"speed": 100, "samples": 100},
        "update_size": "10 kB",
    }
    return validate(ScenarioDocument({"name": "blocks", "users": 3, "rounds": 2, "access": section | overrides}))


BLOCKS = {"kind": "fdma", "division": "blocks", "interference": ["-60 dBm", "-50 dBm"]}


@pytest.mark.parametrize(
    ("overrides", "key", "text"),
    [
        ({"mac": BLOCKS}, "access.mac", "nothing assigns them"),
        ({"mac": BLOCKS, "allocation": "equal"}, "access.allocation", "the band of the MAC is blocks"),
        ({"mac": {"kind": "fdma"}, "allocation": {"kind": "block_assignment", "weights": "equal"}},
         "access.allocation", "the band of the MAC is no blocks"),
        ({"mac": BLOCKS, "allocation": "block_assignment"}, "access.allocation", "there are no data"),
        ({"mac": BLOCKS, "allocation": {"kind": "block_assignment", "weights": "equal", "budget": "1 mJ"}},
         "access.allocation", "energy of users, which is not counted"),
        ({"mac": BLOCKS | {"among": "backlog"}, "allocation": "block_assignment"}, "access.mac", "leave among out"),
        ({"mac": BLOCKS, "allocation": "block_assignment", "reception": PARTS["reception"],
          "channel": [{"kind": "free_space", "frequency": "868 MHz"}, {"kind": "rayleigh", "coherence": "1 s"}]},
         "access.channel.1", "takes the mean over the fading itself"),
        ({"mac": {"kind": "fdma", "division": "allocated"}, "allocation": {"kind": "least_time", "budget": "1 J"},
          "reception": PARTS["reception"], "energy": {"transmit": "1 W"}},
         "access.allocation", "mean over the fading"),
        ({"mac": {"kind": "fdma", "division": "blocks"}}, "access.mac.interference", "division: blocks"),
    ],
)  # fmt: skip
def test_errors(overrides, key, text):
    with pytest.raises(ScenarioError) as caught:
        load(**overrides)
    fault = next(fault for fault in caught.value.faults if fault.key == key)
    assert text in f"{fault.problem} {fault.remedy}"


class Alternating(Allocation):
    """User 0 has the disturbed block in the first round, and users 1 and 2 have both blocks in the second."""

    @property
    def assigns_blocks(self):
        return True

    def allocate(self, request):
        block = [[1.0, 0.0, -1.0, -1.0], [-1.0, 1.0, 0.0, -1.0]][request.blocks.round > 1]
        return request.blocks.decision(np.array(block), np.ones(4))

    def laws(self):
        return (Law.none("draws nothing"),)


def test_a_busy_block_delays_its_own_user_alone():
    """User 2 begins in block 0 as soon as it is trained, while user 1 waits for the frame of user 0 in block 1."""
    mac = PARTS["mac"] | {"interference": ["-50 dBm", "-30 dBm"]}  # frames in block 1 are long
    parts = PARTS | {"mac": mac, "round": {"kind": "first", "m": 1}}
    _, log = play(4, 2, **parts, allocation=f"{__name__}:Alternating")
    start_s = {int(user): start for part in log.attempts for user, start in
               zip(part["user"], part["start_s"], strict=True)}  # fmt: skip
    end_s = {int(user): end for part in log.attempts for user, end in
             zip(part["user"], part["end_s"], strict=True)}  # fmt: skip
    assert end_s[1] < start_s[2] < end_s[1] + 0.2 < end_s[0]


def test_a_warning_of_updates_in_several_frames():
    def warnings(**parts):
        access, context, _ = make(4, 1, **PARTS | parts, allocation="block_assignment")
        return [warning for warning in access.warnings(context) if "one frame for each update" in warning]

    assert warnings() == []
    (warning,) = warnings(mac=PARTS["mac"] | {"max_attempts": 3})
    assert "access.mac.max_attempts is not 1" in warning
    (warning,) = warnings(transport={"grain": "packet", "mtu": "1500 B"})
    assert "updates are packets" in warning


class Wrong(Allocation):
    """Returns blocks that do not fit."""

    case: str

    @property
    def assigns_blocks(self):
        return True

    def allocate(self, request):
        users = request.users
        ones = np.ones(users)
        block = {"same": np.zeros(users, int), "far": np.full(users, 7), "shares": np.full(users, -1)}.get(self.case)
        if self.case == "none":
            return Decision(ones / users, ones, ones)
        if self.case == "shares":
            return Decision(ones / users, ones, ones, block)
        return Decision(ones * 0.25, ones, ones, block)

    def laws(self):
        return (Law.none("draws nothing"),)


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("same", "several users of tower:0 have one block"),
        ("far", "not a number from -1 to 1 for each user"),
        ("none", "gives no blocks"),
        ("shares", "not that of the blocks"),
    ],
)
def test_a_model_whose_blocks_do_not_fit(case, problem):
    with pytest.raises(ScenarioError, match=problem):
        play(4, 1, **PARTS, allocation={"kind": f"{__name__}:Wrong", "case": case})


class Swapping(Allocation):
    """Users 0 and 1 swap their blocks in each round."""

    @property
    def assigns_blocks(self):
        return True

    def allocate(self, request):
        turn = request.blocks.round % 2
        return request.blocks.decision(np.array([turn, 1 - turn, -1, -1]), np.ones(4))

    def laws(self):
        return (Law.none("draws nothing"),)


def test_a_frame_keeps_its_block_and_others_wait_for_it():
    """The second round opens while user 1 is on the air in the block that user 0 is given."""
    parts = PARTS | {"round": {"kind": "first", "m": 1}}
    _, log = play(4, 2, **parts, allocation=f"{__name__}:Swapping")
    frames = sorted(
        (start_s, end_s, int(user), snr_db)
        for part in log.attempts
        for start_s, end_s, user, snr_db in zip(
            part["start_s"], part["end_s"], part["user"], part["snr_db"], strict=True
        )
        if np.isfinite(snr_db)
    )
    on_block = [
        (start_s, end_s, int(np.argmin([abs(10 ** (snr_db / 10) / network_sinr(user, block) - 1) for block in (0, 1)])))
        for start_s, end_s, user, snr_db in frames
    ]
    assert len(on_block) >= 2
    for first, second in itertools.combinations(on_block, 2):
        assert first[2] != second[2] or second[0] >= first[1] - 1e-9


def test_a_user_exempt_from_contention_has_a_block_of_its_own():
    """User 0 has the fewest examples, and no block as one of four; the others are assigned as without it."""
    exempt = {"contention": 0}
    _, log = play(4, 3, **PARTS, allocation="block_assignment", exempt=exempt)
    assert log.spendings["begun"].tolist() == [3, 0, 3, 3]
    snr_db = {int(user): value for part in log.attempts for user, value in
              zip(part["user"], part["snr_db"], strict=True)}  # fmt: skip
    best_block = [network_sinr(0, 0), network_sinr(2, 1), network_sinr(3, 0)]
    assert [10 ** (snr_db[user] / 10) for user in (0, 2, 3)] == pytest.approx(best_block, rel=1e-6)
