"""A network that is open: its rounds, and the simulator from which they come."""

from __future__ import annotations

from dataclasses import dataclass, field

from netfl.access import OpenAccess
from netfl.network.simulator import NetworkSimulator


@dataclass(slots=True)
class OpenNetwork(OpenAccess):
    """The rounds of a simulated network, with the state that callers read between them.

    Args:
        network: the simulator.
    """

    network: NetworkSimulator = field(kw_only=True)

    def _end_early(self) -> None:
        self.network.finish()
