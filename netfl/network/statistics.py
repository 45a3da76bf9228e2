"""The account of a network: the figures that a replica ends with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from netfl.network.counters import LinkUsage, PacketCounter
from netfl.network.energy import EnergyMeter
from netfl.network.tower import Tower


class NetworkStatistics:
    """What has been carried since the beginning, or since `restart`.

    Args:
        meter: counts of the packets of traffic.
        towers: the towers and their cells.
        usage: what the links behind them have carried by now, by their names.
        serving: whether rounds are served: traffic is then something beside them, and its figures' names say so.
        spending: what users spend; ``None``: nobody counts.
    """

    def __init__(
        self,
        meter: PacketCounter,
        towers: Mapping[str, Tower],
        usage: Callable[[float], Mapping[str, LinkUsage]],
        *,
        serving: bool,
        spending: EnergyMeter | None = None,
    ) -> None:
        self._meter, self._usage, self._serving, self._spending = meter, usage, serving, spending
        self._cells = {name: tower.cell for name, tower in towers.items()}
        self._all = [cell for tower in towers.values() for cell in tower.cells]
        self._before: Mapping[str, LinkUsage] = {}

    def restart(self, now_s: float) -> None:
        """The warm-up is over: count from now on."""
        self._meter.restart(now_s)
        self._before = self._usage(now_s)
        for cell in self._all:
            cell.restart()
        if self._spending is not None:
            self._spending.restart(now_s)

    def energy_j(self, now_s: float) -> float | None:
        """What all users have spent by now; ``None`` where nobody counts."""
        return None if self._spending is None else self._spending.total_j(now_s)

    def figures(self, now_s: float) -> dict[str, float]:
        """The figures by now."""
        span_s, prefix = now_s - self._meter.since_s, "traffic." if self._serving else ""
        told = {f"{prefix}{name}": value for name, value in self._meter.figures(now_s).items()}
        told |= self._attempts()
        told |= {f"utilisation.{name}": cell.busy_by_s(now_s) / span_s for name, cell in self._cells.items()}
        for name, usage in self._usage(now_s).items():
            told[f"utilisation.{name}"] = (usage - self._before.get(name, LinkUsage())).busy_s / span_s
        return told

    def _attempts(self) -> dict[str, float]:
        """Attempts over the air: their number, the share of them that collided, and that faded among those heard."""
        if not self._cells:
            return {}
        attempts, failed = sum(cell.attempts for cell in self._all), Counter[str]()
        for cell in self._all:
            failed.update(cell.failed)
        heard = attempts - failed["collided"] - failed["lost"]
        return {
            "attempts": float(attempts),
            "collision_probability": failed["collided"] / max(attempts, 1),
            "outage_probability": failed["faded"] / max(heard, 1),
        }
