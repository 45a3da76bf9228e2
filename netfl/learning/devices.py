"""Names of devices for training, which are checked before torch is imported."""

from __future__ import annotations

import re

from netfl.core.remedies import argument
from netfl.errors import Fault, ScenarioError


def check_device(device: object) -> None:
    """Check that *device* has the form of the name of a device.

    Raises:
        ScenarioError: it does not.
    """
    if not isinstance(device, str) or not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise ScenarioError([Fault(argument("device"), "no such device", device, "write auto, cpu, cuda or cuda:N")])
