"""The account of what users spend, user by user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.energy import Rates
from netfl.statistics import jain

Ids = NDArray[np.int64]


class Spending:
    """What users have spent since the beginning, or since `restart`; told of trainings, attempts and receptions.

    Counts and times are kept, and priced at the end.  A training counts by the share of its time that it went on for.
    Users are numbered as in the whole network.

    Args:
        rates: what each of them spends.
        samples: training samples of one update, ``[users]``.
        broadcast_s: how long a version is on the air on an ideal way down.
    """

    def __init__(self, rates: Rates, samples: NDArray[np.float64], broadcast_s: float = 0.0) -> None:
        self._rates, self._samples, self._broadcast_s = rates, samples, broadcast_s
        self._from_s, self._until_s = np.zeros(len(samples)), np.zeros(len(samples))
        self.restart(0.0)

    def restart(self, now_s: float) -> None:
        """Count from now on."""
        self._since_s = now_s
        self._begun, self._trained, self._sending_s, self._hearing_s = np.zeros((4, len(self._samples)))

    def train(self, ids: Ids, from_s: NDArray[np.float64], until_s: NDArray[np.float64]) -> None:
        """Users begin to train, each of whom is at no other training."""
        self._begun[ids] += 1
        self._from_s[ids], self._until_s[ids] = from_s, until_s

    def stop(self, ids: Ids, at_s: ArrayLike) -> None:
        """The last trainings of users are over, if they were not before."""
        running = self._until_s[ids] > self._from_s[ids]
        ids, by_s = ids[running], np.broadcast_to(at_s, ids.shape)[running]
        from_s, until_s = self._from_s[ids], self._until_s[ids]
        self._trained[ids] += np.clip((by_s - from_s) / (until_s - from_s), 0.0, 1.0)
        self._from_s[ids] = until_s

    def send(self, ids: Ids, airtime_s: float) -> None:
        """Users go on the air."""
        self._sending_s[ids] += airtime_s

    def receive(self, ids: Ids, airtime_s: float) -> None:
        """A version is sent to users."""
        self._hearing_s[ids] += airtime_s

    def hear(self, ids: Ids) -> None:
        """Users receive a version on an ideal way down."""
        self.receive(ids, self._broadcast_s)

    def total_j(self, now_s: float) -> float:
        """What all have spent by now; a training that is under way counts by the share of its time that has passed."""
        lasts = np.where(self._until_s > self._from_s, self._until_s - self._from_s, np.inf)
        under_way = np.clip((now_s - self._from_s) / lasts, 0.0, 1.0)
        spent = float(sum(joules.sum() for joules in self._spent(now_s).values()))
        return spent + float((self._rates.sample_j * self._samples * under_way).sum())

    def close(self, now_s: float) -> dict[str, NDArray[Any]]:
        """The run ends: what each user has done and spent, by name, ``[users]`` each."""
        self.stop(np.arange(len(self._samples)), now_s)
        spent = self._spent(now_s)
        done = {"begun": self._begun.astype(np.int64), "trained": self._trained}
        times = {"sending_s": self._sending_s, "receiving_s": self._hearing_s}
        told = {f"{name}_J": joules for name, joules in spent.items()}
        return {
            "user": np.arange(len(self._samples)),
            **done,
            **times,
            **told,
            "energy_J": np.sum([*spent.values()], axis=0),
        }

    @staticmethod
    def figures(columns: Mapping[str, NDArray[Any]], deliveries: int | None) -> dict[str, float]:
        """The figures of a replica, from its columns; *deliveries* is ``None`` where there can be none."""
        each = columns["energy_J"]
        told = {"energy_J": float(each.sum())}
        parts = {name: float(columns[f"{name}_J"].sum()) for name in ("train", "send", "receive", "idle")}
        told |= {f"energy_{name}_J": joules for name, joules in parts.items() if joules}
        if deliveries is not None:
            told["energy_per_delivery_J"] = told["energy_J"] / deliveries if deliveries else np.nan
        return told | {"energy_max_J": float(each.max()), "energy_jain": jain(each)}

    def _spent(self, now_s: float) -> dict[str, NDArray[np.float64]]:
        """Joules of each user, by what they went into."""
        rates = self._rates
        return {
            "train": rates.training_j * self._begun + rates.sample_j * self._samples * self._trained,
            "send": rates.transmit_w * self._sending_s,
            "receive": rates.receive_w * self._hearing_s,
            "idle": rates.idle_w * (now_s - self._since_s),
        }
