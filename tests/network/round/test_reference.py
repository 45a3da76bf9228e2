"""Rounds of all rules, conducts, outages and selections, against an independent simulator, delivery by delivery."""

import random

import numpy as np
import pytest
from support.recorders import Memory
from support.round_reference import NEVER, Case, Play
from support.small_network import Listed

from netfl.access.network import NetworkAccess
from netfl.errors import ModelError
from netfl.streams import Streams
from netfl.types import AccessContext

ROUNDS = 8
HORIZON_S = 150
AIR = {
    "radio": {"power": "20 dBm", "bandwidth": "125 kHz"},
    "channel": [{"kind": "constant", "gain": "0 dB"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "1 kbps"},
    "update_size": 1000.0,
}
"""Users send 1 s each."""


def spans(rng, for_good):
    """When a user is away: none of the spans touch; with *for_good* one in fourteen never ends."""
    found, at_s = [], rng.uniform(-2, 15)
    while at_s < HORIZON_S and (not found or found[-1][1] < NEVER):
        end_s = NEVER if for_good and rng.random() < 0.07 else at_s + rng.uniform(0.3, 10)
        found.append((max(at_s, 0.0), end_s))
        at_s = end_s + rng.uniform(0.3, 20)
    return [span for span in found if span[1] > 0]


def rule_of(rng, name, n):
    """A rule as a scenario says it, and as the case does: how many are enough, the deadline, the least."""
    deadline, size, least = rng.uniform(2, 15), rng.randint(1, n), 0
    said = {"kind": name}
    if name in {"first", "available"} and rng.random() < 0.6:
        deadline = None
    if name == "first":
        said |= {"m": size, "deadline": deadline}
    elif name == "quorum":
        least = rng.choice([0, rng.randint(0, size)])
        said |= {"quorum": size / n, "deadline": deadline, "min_share": least / n}
    elif name == "available":
        said |= {"deadline": deadline}
    else:
        deadline = None
        said |= {"size": size} if name == "buffered" else {}
    return said, {"size": size, "deadline": deadline, "least": least}


def drawn(seed):
    """A case, and what of it a scenario says otherwise: the rule and the staleness."""
    rng = random.Random(seed)
    n, name = rng.randint(1, 5), rng.choice(["first", "first", "quorum", "available", "buffered", "asynchronous"])
    said, told = rule_of(rng, name, n)
    busy = "restart" if name in {"buffered", "asynchronous"} else rng.choice(["restart", "finish", "ignore"])
    staleness, for_good = rng.choice([None, None, 0, 1, 3]), rng.random() < 0.2
    case = Case(
        train=[rng.uniform(0.1, 6) for _ in range(n)],
        delay=[rng.uniform(0, 4) * rng.choice([0.01, 1]) for _ in range(n)],
        rule=name,
        busy=busy,
        staleness=0
        if staleness is None and busy == "restart" and "size" not in said and name != "asynchronous"
        else staleness,
        attempts=rng.choice([None, 1, 2]),
        spares=rng.random() < 0.3,
        outages=[spans(rng, for_good) for _ in range(n)] if rng.random() < 0.7 else None,
        chosen=[sorted(rng.sample(range(n), rng.randint(1, n))) for _ in range(rng.randint(2, 5))]
        if rng.random() < 0.35 and name != "quorum"
        else None,
        hop=1e-6,
        **told,
    )
    return case, {"round": said, "on_new_version": busy, "staleness": staleness}


def network(case, said, folder):
    """The network of a case: each user has a tower of its own, at which it stands."""
    n = len(case.train)
    at, names = [[100.0 * (user + 1), 0.0] for user in range(n)], [f"mast {chr(97 + user)}" for user in range(n)]
    towers = {name: {"role": "tower", "position": place} for name, place in zip(names, at, strict=True)}
    said = said | {
        "topology": {
            "kind": "inline",
            "nodes": {"core": {"role": "server", "position": [0, 0]}} | towers,
            "links": [
                {"between": [name, "core"], "rate": 1e9, "delay": delay_s}
                for name, delay_s in zip(names, case.delay, strict=True)
            ],
            "placement": {"kind": "listed", "positions": at},
        },
        "mac": {"kind": "round_robin", "poll": 0, "max_attempts": case.attempts},
        "compute": {"speed": [1 / time_s for time_s in case.train], "samples": 1},
        "broadcast_rate": 1e15,
    }
    if case.chosen:
        said["selection"] = Listed(turns=case.chosen)
    if case.outages:
        rows = [(user, *span) for user, own in enumerate(case.outages) for span in own]
        told = [f"{user},{a!r},{'' if b == NEVER else repr(b)}\n" for user, a, b in rows]
        (folder / "away.csv").write_text("node,start_s,end_s\n" + "".join(told))
        in_progress = "finish" if case.spares else "interrupt"
        said["outages"] = [{"kind": "calendar", "file": str(folder / "away.csv"), "in_progress": in_progress}]
    return NetworkAccess.model_validate(AIR | said)


def played(access, users):
    """What the network's rounds bring, up to where it says that nobody will ever be heard any more."""
    told = []
    setting = AccessContext(users, ROUNDS, 0, Streams(1), np.ones(users), 1e3, 1e3, Memory("none"))
    rounds = access.rounds(setting)
    try:
        told.extend(
            (one.closed_s, [(each.user, each.base, each.arrived_s) for each in one.deliveries]) for one in rounds
        )
    except ModelError as error:
        if "permanently cut off" not in str(error):
            raise
    return told


@pytest.mark.parametrize("block", range(6))
@pytest.mark.slow
def test_every_delivery_is_that_of_the_reference(block, tmp_path):
    """Cases in which two things happen at the server at one instant are left out: their order is no matter of rules."""
    compared = 0
    for seed in range(100 * block, 100 * block + 100):
        case, said = drawn(seed)
        play = Play(case, ROUNDS + 1)
        expected = play.run()[:ROUNDS]
        told = played(network(case, said, tmp_path), len(case.train))
        if play.tied:
            continue
        both = min(len(told), len(expected))
        for (closed_s, got), (end_s, wanted) in zip(told[:both], expected[:both], strict=True):
            assert [one[:2] for one in got] == [one[:2] for one in wanted], seed
            np.testing.assert_allclose(
                [closed_s, *(one[2] for one in got)], [end_s, *(one[2] for one in wanted)], atol=1e-6
            )
            compared += len(got)
        assert not any(got for _, got in told[both:] + expected[both:]), seed
    assert compared > 1000
