"""Metrics of a network at the end of a replica."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from netfl.network.counters import LinkUsage, PacketCounter
from netfl.network.energy import EnergyMeter
from netfl.network.tower import Tower


class NetworkStatistics:
    """Metrics of a network since the start of the run, or since `restart`.

    Args:
        packets: Counters of the packets of traffic.
        towers: Towers with cells, by name.
        usage: Returns the counters of all links at a time, by name.
        serving: Whether there are rounds; metrics of traffic then have the prefix ``traffic.``.
        energy: Energy meter of the users; ``None`` for none.
    """

    def __init__(
        self,
        packets: PacketCounter,
        towers: Mapping[str, Tower],
        usage: Callable[[float], Mapping[str, LinkUsage]],
        *,
        serving: bool,
        energy: EnergyMeter | None = None,
    ) -> None:
        self._packets, self._usage, self._serving, self._energy = packets, usage, serving, energy
        self._cells = {name: tower.cell for name, tower in towers.items()}
        self._all_cells = [cell for tower in towers.values() for cell in tower.cells]
        self._before: Mapping[str, LinkUsage] = {}

    def restart(self, now_s: float) -> None:
        """Start all counts over at the end of the warm-up."""
        self._packets.restart(now_s)
        self._before = self._usage(now_s)
        for cell in self._all_cells:
            cell.restart()
        if self._energy is not None:
            self._energy.restart(now_s)

    def energy_j(self, now_s: float) -> float | None:
        """Return the energy of all users by now; ``None`` without an energy meter."""
        return None if self._energy is None else self._energy.total_j(now_s)

    def metrics(self, now_s: float) -> dict[str, float]:
        """Return all metrics at *now_s*."""
        span_s, prefix = now_s - self._packets.since_s, "traffic." if self._serving else ""
        metrics = {f"{prefix}{name}": value for name, value in self._packets.metrics(now_s).items()}
        metrics |= self._attempt_metrics()
        metrics |= {f"utilisation.{name}": cell.busy_by_s(now_s) / span_s for name, cell in self._cells.items()}
        for name, usage in self._usage(now_s).items():
            metrics[f"utilisation.{name}"] = (usage - self._before.get(name, LinkUsage())).busy_s / span_s
        return metrics

    def _attempt_metrics(self) -> dict[str, float]:
        """Return the number of attempts, the share that collided, and the share of the rest that faded."""
        if not self._cells:
            return {}
        attempts, failed = sum(cell.attempts for cell in self._all_cells), Counter[str]()
        for cell in self._all_cells:
            failed.update(cell.failed)
        received_or_faded = attempts - failed["collided"] - failed["lost"]
        return {
            "attempts": float(attempts),
            "collision_probability": failed["collided"] / max(attempts, 1),
            "outage_probability": failed["faded"] / max(received_or_faded, 1),
        }
