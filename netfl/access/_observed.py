"""What is told of a network beside what it carries: what a probe sees, and what a theory says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netfl.errors import ScenarioError
from netfl.network.parts import Parts
from netfl.network.probe import Sampler
from netfl.network.radio import Air
from netfl.network.theory import Case
from netfl.types import Setting

if TYPE_CHECKING:
    from netfl.access.network import Network


def observed(network: Network, parts: Parts, setting: Setting) -> Parts:
    """*parts* with the probe at work, and with what theory expects of them.

    Raises:
        ScenarioError: the theory does not hold for the scenario; one fault for each of its assumptions.
    """
    sites, streams = parts.sites, setting.streams
    sampler, expected = None, {}
    if network.probe is not None:
        air = None if network.radio is None else Air(network.radio, network.channel, sites, streams)
        sampler = Sampler(network.probe, sites, air, parts.outages, setting.warmup_s)
    if network.theory is not None:
        case = Case(network, sites, streams)
        faults = [*network.theory.misfits(case)]
        if faults:
            raise ScenarioError(faults)
        expected = dict(network.theory.figures(case))
    return replace(parts, sampler=sampler, expected=expected)
