"""The statement of each MAC about idle time, `Mac.idle_time`, and equal shares of equal users in bursts.

Every MAC is found: those of the package, of the guides, of the contract and of the template.  One without a statement
is tested as "idle time changes nothing".
"""

import numpy as np
import pytest
from support.guide_macs import guide_macs, settings_of
from testing.test_laws import from_example

from netfl.core.kinds import list_kinds
from netfl.network import mac as family
from netfl.network.mac import Mac
from netfl.network.mac.fdma import Fdma
from netfl.network.mac.multichannel_aloha import MultichannelAloha
from netfl.network.mac.priority import Priority
from netfl.network.mac.proportional_fair import ProportionalFair
from netfl.network.mac.slotted_aloha import SlottedAloha
from netfl.network.radio.bench import BenchSetup, MacTestBench
from netfl.streams import Streams
from netfl.types import Law

USERS, AIRTIME_S = 4, 1.0
PERIOD_S = 1200.0
"""A whole number of slots, of frames of the schedule, and longer than any burst."""
VARIANTS = {
    "stride": Priority(weights={}, by="stride"),
    "strict": Priority(weights={}, by="strict"),
    "lottery": Priority(weights={}, by="lottery"),
    "airtime": ProportionalFair(window=20.0, rate="airtime"),
    "short window": ProportionalFair(window=0.5),
    "polls": ProportionalFair(window=5.0, poll=0.25),
    "known": SlottedAloha(adaptive="known"),
    "backoff": SlottedAloha(adaptive="backoff"),
    "pseudo_bayesian": SlottedAloha(adaptive="pseudo_bayesian"),
    "backlog": Fdma(among="backlog"),
    "need": Fdma(division="need"),
    "water filling": Fdma(division="water_filling"),
    "channels": MultichannelAloha(adaptive="pseudo_bayesian", channels=2),
}
GUIDES = guide_macs()


def models():
    """Yield every MAC with its name."""
    for kind in list_kinds(Mac):
        yield kind, from_example("network/mac", kind)
    yield from VARIANTS.items()
    for name, model in GUIDES.items():
        yield name, model(**settings_of(model))


MODELS = [pytest.param(model, id=name) for name, model in models()]


def serve_bursts(mac, bursts, pause_s, members=None, seed=1):
    """Serve bursts of one update of each member, *pause_s* apart; return (user, end after the burst) of each burst.

    All users are members of the first burst, at time 0.
    """
    members = [range(USERS)] * bursts if members is None else members
    waiting = [[burst for burst in range(1, bursts) if user in members[burst]] for user in range(USERS)]

    def next_ready(users, now):
        return np.array([waiting[user].pop(0) * pause_s if waiting[user] else np.inf for user in users.tolist()])

    bench = MacTestBench(BenchSetup(mac, USERS, AIRTIME_S, Streams(seed)), next_ready)
    bench.cell.user_metrics = {name: np.ones(USERS) for name in ("norm", "loss", "age")}
    bench.env.run(until=bursts * pause_s)
    served = [[] for _ in range(bursts)]
    for user, (ready_s, _, end_s) in zip(bench.users, bench.deliveries, strict=True):
        served[round(ready_s / pause_s)].append((user, round(end_s - ready_s, 6)))
    return served


def compare(first, second):
    assert [[user for user, _ in burst] for burst in first] == [[user for user, _ in burst] for burst in second]
    for short, long in zip(first, second, strict=True):
        assert [end_s for _, end_s in short] == pytest.approx([end_s for _, end_s in long], abs=1e-5)


def draw_members(bursts):
    """Return the members of each burst; all users are in the first."""
    rng = np.random.default_rng(4)
    return [range(USERS), *(rng.permutation(USERS)[: rng.integers(1, USERS + 1)] for _ in range(bursts - 1))]


def check_pauses(mac, bursts=10):
    """Compare bursts one after another with bursts that are far apart."""
    members = draw_members(bursts)
    longest_s = max(end_s for burst in serve_bursts(mac, bursts, PERIOD_S, members) for _, end_s in burst)
    frame_s = USERS * AIRTIME_S
    pause_s = frame_s * (np.floor(longest_s / frame_s) + 1.0)
    if mac.idle_time == "expires":
        pause_s = 100.0 * PERIOD_S
    compare(serve_bursts(mac, bursts, pause_s, members), serve_bursts(mac, bursts, 50.0 * pause_s, members))


@pytest.mark.parametrize("mac", MODELS)
def test_idle_time_does_what_the_mac_states(mac):
    """A pause changes nothing, or its memory has expired: then a longer pause changes nothing."""
    assert mac.idle_time in {"no_effect", "expires"}
    check_pauses(mac)


@pytest.mark.slow
@pytest.mark.parametrize("mac", MODELS)
def test_equal_users_are_equal_in_bursts(mac):
    """In independent cells, each user is as often among the first two of the third burst; 5 standard errors."""
    if mac.has_fixed_order:
        pytest.skip("its order is by the numbers of the users")
    if isinstance(mac, Priority):
        mac = mac.model_copy(update={"weights": {}})
    cells = 150
    early = np.zeros(USERS)
    for seed in range(cells):
        *_, burst = serve_bursts(mac, 3, 20.0 * PERIOD_S, seed=seed)
        early[[user for user, _ in burst[:2]]] += 1.0
    assert early.sum() > 0.4 * cells
    assert np.abs(early - early.mean()).max() < 5.0 * np.sqrt(cells * 0.25), early


class ChargesIdleTime(Mac):
    """A MAC that violates the default statement: the user served last pays for the pause."""

    def serve(self, cell):
        average, last, picked_s = np.zeros(cell.size), 0, 0.0
        while True:
            yield cell.wait_for_backlog()
            backlog = cell.backlog()
            fade = np.exp(-(cell.env.now - picked_s) / 20.0)
            average *= fade
            average[last] += 1.0 - fade
            last, picked_s = int(backlog[average[backlog].argmin()]), cell.env.now
            yield cell.attempt([last])

    def laws(self):
        return (Law.none("draws nothing"),)


class PrefersLowest(Mac):
    """A MAC that violates the default statement: the lowest number is first."""

    def serve(self, cell):
        while True:
            yield cell.wait_for_backlog()
            yield cell.attempt(cell.backlog()[:1])

    def laws(self):
        return (Law.none("draws nothing"),)


@pytest.mark.slow
def test_wrong_statements_are_found():
    with pytest.raises(AssertionError):
        check_pauses(ChargesIdleTime())
    with pytest.raises(AssertionError):
        test_equal_users_are_equal_in_bursts(PrefersLowest())


def test_models_outside_the_package_are_found():
    assert {name.rpartition(", ")[2] for name in GUIDES} >= {"LongestWait", "Persistent", "Polling", "Turns"}
    assert {param.id for param in MODELS} >= {*list_kinds(family.Mac)}


@pytest.mark.parametrize("kind", list_kinds(Mac))
def test_docstring_states_effect_of_idle_time(kind):
    text = type(from_example("network/mac", kind)).__doc__
    assert "idle time" in " ".join(text.replace("*", "").lower().split())
