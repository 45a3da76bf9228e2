"""Train PPO of stable-baselines3 in an environment of netfl.gym, and compare it with policies that do not learn.

    python train.py selection --steps 30000
    python train.py allocation --steps 100000

Several agents are trained, each from its own seed.  The parameters of the other policies are those with the best mean
reward on seeds for tuning; so is the choice whether an agent samples its actions.  All policies are then evaluated on
the same further seeds, which neither training nor tuning has used: each seed is another network, with other positions,
fading and outages.  The script prints a table, writes the values of every policy and seed to ``results/TASK.csv``, and
keeps the agents beside them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import torch
from per_user_policy import PerUserPolicy
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from netfl.results.statistics import interval

RESULTS = Path(__file__).parent / "results"
TUNING, TESTING = range(10_000, 10_005), range(20_000, 20_030)
"""Seeds of episodes for parameters, and for the table.  Episodes of the training have other seeds."""
FEATURES = ("age", "link_margin", "up")
"""Features of each user that the agents observe."""

Act = Callable[[Any, Any], Any]
"""Choice of an action: a function of the observation and the environment; ``None`` leaves the scenario as it is."""


@dataclass(frozen=True)
class Task:
    """An environment, its reward, and policies to compare.

    Args:
        environment: id of the environment.
        options: arguments of the environment.
        rivals: for each name, overrides of the scenario by the parameter that is tuned.
        others: policies without a parameter.
    """

    environment: str
    options: Mapping[str, Any]
    rivals: Mapping[str, Mapping[Any, Mapping[str, Any]]]
    others: Mapping[str, Act]

    def make(self, **changes: Any) -> gymnasium.Env[Any, Any]:
        """Return the environment."""
        options = {**self.options, "observe": FEATURES, "observation": "flat", **changes}
        return gymnasium.make(self.environment, disable_env_checker=True, **options)


def oldest_with_link(observation: Any, environment: Any) -> Any:
    """Score the users that are up and whose link can be received now by their age, and all others lowest."""
    age, margin, up = (observation[environment.observation_slices[name]] for name in FEATURES)
    return np.where((up > 0) & (margin >= 0), age, -1.0)


def only_with_link(observation: Any, environment: Any) -> Any:
    """Let the users whose link can be received now send with equal probabilities, and the others hardly."""
    margin = observation[environment.observation_slices["link_margin"]]
    up = observation[environment.observation_slices["up"]]
    able = (up > 0) & (margin >= 0)
    probability = min(1.0, environment.channels / max(1, able.sum()))
    return np.where(able, 1.0 - 2.0 * np.log(probability) / np.log(1e-3), -1.0)


SELECTIONS = (4, 6, 8, 10, 12, 14, 16, 20)
TASKS = {
    "selection": Task(
        "netfl.gym:netfl/UserSelection-v0",
        {
            "scenario": "gym/user_selection",
            "action": "scores",
            "m": 8,
            "reward": {"deliveries": 1.0, "energy": 0.3, "mean_age": 0.1},
        },
        {kind: {m: {"access.selection": {"kind": kind, "m": m}} for m in SELECTIONS} for kind in ("uniform", "oldest")},
        {"rule: oldest with a link (8)": oldest_with_link},
    ),
    "allocation": Task(
        "netfl.gym:netfl/ResourceAllocation-v0",
        {
            "scenario": "gym/resource_allocation",
            "controls": ("probability",),
            "reward": {"deliveries": 1.0, "energy": 0.3, "mean_age": 0.1},
        },
        {"equal probability": {p: {"access.mac.probability": p} for p in (1 / 24, 1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3)}},
        {"rule: equal, with a link": only_with_link},
    ),
}


def train(task: Task, seed: int, steps: int) -> PPO:
    """Return an agent that has been trained for so many steps."""
    torch.set_num_threads(1)
    options = {**task.options, "observe": FEATURES, "observation": "flat", "render_mode": None}
    vector = make_vec_env(
        task.environment, n_envs=8, seed=100 * seed, env_kwargs={**options, "disable_env_checker": True}
    )
    users = vector.get_attr("users")[0]
    agent = PPO(
        PerUserPolicy,
        vector,
        learning_rate=lambda left: 1e-3 * left + 1e-4,
        n_steps=64,
        batch_size=128,
        n_epochs=8,
        gamma=0.5,  # the effect of an action on ages fades within a few rounds
        gae_lambda=0.9,
        seed=seed,
        device="cpu",
        policy_kwargs={"features": len(FEATURES), "users": users, "log_std_init": -0.7},
    )
    agent.learn(steps)
    vector.close()
    return agent


def evaluate(environment: Any, act: Act, seeds: Iterable[int]) -> pd.DataFrame:
    """Return the means over the rounds of an episode, one row for each seed."""
    rows = []
    for seed in seeds:
        observation, _ = environment.reset(seed=seed)
        totals, rounds, over = np.zeros(3), 0, False
        while not over:
            observation, reward, _, over, info = environment.step(act(observation, environment.unwrapped))
            ages = environment.unwrapped.simulation.state.age
            totals += reward, info["deliveries"].sum(), ages.mean()
            rounds += 1
        reward, deliveries, mean_age = totals / rounds
        energy_j = environment.unwrapped.simulation.state.energy_j.sum() / rounds
        rows.append(
            {"seed": seed, "reward": reward, "deliveries": deliveries, "energy_j": energy_j, "mean_age": mean_age}
        )
    return pd.DataFrame(rows)


def tuned(task: Task, variants: Mapping[Any, Mapping[str, Any]]) -> tuple[Any, Mapping[str, Any]]:
    """Return the parameter with the best mean reward on the seeds for tuning, and its overrides."""
    means = {
        value: evaluate(task.make(overrides=overrides), lambda *_: None, TUNING)["reward"].mean()
        for value, overrides in variants.items()
    }
    best = max(means, key=lambda value: means[value])
    return best, variants[best]


def acting(agent: PPO, *, is_sampled: bool) -> Act:
    """Return the choices of an agent: the most likely actions, or samples from its distribution as in training."""
    return lambda observation, _: agent.predict(observation, deterministic=not is_sampled)[0]


def compare(task: Task, agents: list[PPO]) -> pd.DataFrame:
    """Return the values of all policies on the seeds for testing."""
    tables = []
    for name, variants in task.rivals.items():
        value, overrides = tuned(task, variants)
        table = evaluate(task.make(overrides=overrides), lambda *_: None, TESTING)
        tables.append(table.assign(policy=f"{name} ({value:.3g})"))
    for name, act in task.others.items():
        tables.append(evaluate(task.make(), act, TESTING).assign(policy=name))
    for number, agent in enumerate(agents, start=1):
        torch.manual_seed(number)
        acts = [acting(agent, is_sampled=is_sampled) for is_sampled in (False, True)]
        act = max(acts, key=lambda act: evaluate(task.make(), act, TUNING)["reward"].mean())
        tables.append(evaluate(task.make(), act, TESTING).assign(policy=f"PPO, agent {number}"))
    return pd.concat(tables, ignore_index=True)


def summary(values: pd.DataFrame, rivals: int) -> str:
    """Return a table of means with 95 % intervals, and of differences to the best rival on the same seeds."""
    means = values.groupby("policy", sort=False)["reward"].mean()
    best = means.iloc[:rivals].idxmax()
    reference = values.loc[values["policy"] == best, "reward"].to_numpy()
    lines = [
        f"| policy | reward per round | minus that of {best} | deliveries | energy (J) | mean age (rounds) |",
        "|---|---|---|---|---|---|",
    ]
    for policy, rows in values.groupby("policy", sort=False):
        cells = [_with_interval(rows["reward"]), _with_interval(rows["reward"].to_numpy() - reference)]
        cells += [_with_interval(rows[name]) for name in ("deliveries", "energy_j", "mean_age")]
        lines.append(f"| {policy} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _with_interval(values: Any) -> str:
    found = interval(np.asarray(values))
    return f"{found.mean:.2f} ± {found.half:.2f}"


def main() -> None:
    """Train, evaluate, write the values and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=[*TASKS])
    parser.add_argument("--steps", type=int, default=30_000, help="steps of each training")
    parser.add_argument("--agents", type=int, default=3, help="agents to train")
    parser.add_argument("--load", action="store_true", help="evaluate the agents of the last training")
    options = parser.parse_args()
    task, start_s = TASKS[options.task], time.perf_counter()
    agents = []
    RESULTS.mkdir(exist_ok=True)
    for seed in range(1, options.agents + 1):
        path = RESULTS / f"{options.task}-{seed}.zip"
        if not options.load:
            train(task, seed, options.steps).save(path)
            print(f"trained agent {seed} after {time.perf_counter() - start_s:.0f} s", flush=True)
        agents.append(PPO.load(path, device="cpu"))
    values = compare(task, agents)
    values.to_csv(RESULTS / f"{options.task}.csv", index=False, float_format="%.4f")
    print(summary(values, len(task.rivals)))
    print(f"done after {time.perf_counter() - start_s:.0f} s")


if __name__ == "__main__":
    main()
