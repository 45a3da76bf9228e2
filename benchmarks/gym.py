"""Steps per second of the Gymnasium environments, compared with the network alone.

The network alone takes the same actions through `netfl.Simulation.step`, without a state after each round.  Programs
take turns, and the table shows the medians of their turns: wall-clock time and processor time of a step in ms, and
steps per second by each.

    python benchmarks/gym.py [--rounds 300] [--turns 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium

import netfl
import netfl.gym  # registers the environments

Times = tuple[float, float]
ENVIRONMENTS = {"UserSelection": "rural_outage", "ResourceAllocation": "gym/resource_allocation"}
"""Scenario of each environment."""


def timed(play: Callable[[], None], steps: int) -> Times:
    """Return wall-clock and processor time of a step, in seconds."""
    start = time.perf_counter(), time.process_time()
    play()
    return (time.perf_counter() - start[0]) / steps, (time.process_time() - start[1]) / steps


def actions_of(environment: gymnasium.Env[Any, Any], rounds: int) -> list[Any]:
    """Return random actions, the same in each call."""
    environment.action_space.seed(1)
    return [environment.action_space.sample() for _ in range(rounds)]


def network_alone(name: str, environment: Any, seed: int, actions: list[Any]) -> Callable[[], None]:
    """Return a function that simulates an episode without the environment."""
    simulation = netfl.Simulation(environment.scenario, seed=seed, record=False)
    masks = name == "UserSelection"

    def play() -> None:
        for action in actions:
            if masks:
                simulation.step(action.astype(bool))
            else:
                simulation.step(controls=environment.settings(action))

    return play


def episode(environment: gymnasium.Env[Any, Any], seed: int, actions: list[Any]) -> Callable[[], None]:
    """Return a function that plays an episode."""
    environment.reset(seed=seed)

    def play() -> None:
        for action in actions:
            environment.step(action)

    return play


def row(label: str, times: list[Times]) -> str:
    """Return a row of the table."""
    wall_s, work_s = (statistics.median(values) for values in zip(*times, strict=True))
    return f"| {label} | {1e3 * wall_s:.2f} | {1e3 * work_s:.2f} | {1 / wall_s:.0f} | {1 / work_s:.0f} |"


def measure(name: str, scenario: str, rounds: int, turns: int) -> list[str]:
    """Return the rows of one environment."""
    options: dict[str, Any] = {"scenario": scenario, "rounds": rounds, "observation": "flat"}
    plain = gymnasium.make(f"netfl/{name}-v0", disable_env_checker=True, **options)
    checked = gymnasium.make(f"netfl/{name}-v0", **options)
    environment: Any = plain.unwrapped
    actions = actions_of(plain, rounds)
    found: dict[str, list[Times]] = {"network alone": [], "environment": [], "with the checker of gymnasium.make": []}
    resets = []
    for seed in range(turns):
        found["network alone"].append(timed(network_alone(name, environment, seed, actions), rounds))
        found["environment"].append(timed(episode(plain, seed, actions), rounds))
        found["with the checker of gymnasium.make"].append(timed(episode(checked, seed, actions), rounds))
        resets.append(timed(lambda seed=seed: plain.reset(seed=seed), 1))  # type: ignore[misc]
    rows = [row(f"{name}: {label}", times) for label, times in found.items()]
    return [*rows, row(f"{name}: reset", resets)]


def vectorised(rounds: int, turns: int, mode: str, number: int) -> str:
    """Return the row of a vector environment, whose time is that of one step of one of its environments."""
    scenario = ENVIRONMENTS["UserSelection"]
    vector = gymnasium.make_vec("netfl/UserSelection-v0", number, mode, scenario=scenario, rounds=rounds)
    vector.action_space.seed(1)
    actions = [vector.action_space.sample() for _ in range(rounds)]
    times = []
    for seed in range(turns):
        vector.reset(seed=seed)
        times.append(timed(lambda: [vector.step(action) for action in actions] and None, rounds * number))
    vector.close()
    wall_s = statistics.median(wall for wall, _ in times)
    return f"| UserSelection: {number} {mode} | {1e3 * wall_s:.2f} | | {1 / wall_s:.0f} | |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300, help="rounds of an episode")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    start_s = time.perf_counter()
    gymnasium.make("netfl/UserSelection-v0", scenario=ENVIRONMENTS["UserSelection"], rounds=options.rounds)
    print(f"first environment, with its data: {time.perf_counter() - start_s:.2f} s\n")
    print("| | ms | processor ms | steps/s | steps per processor s |\n|---|---|---|---|---|")
    for name, scenario in ENVIRONMENTS.items():
        print("\n".join(measure(name, scenario, options.rounds, options.turns)))
    for mode in ("sync", "async"):
        print(vectorised(options.rounds, options.turns, mode, 2))


if __name__ == "__main__":
    main()
