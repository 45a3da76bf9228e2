"""FedPer: layers that stay on the device and are trained together with the shared ones."""

from __future__ import annotations

from netfl.learning.device._personal_layers import PersonalLayers


class Fedper(PersonalLayers):
    """Some layers stay on the device: an update trains all layers together, and the others are sent.

    A device trains ``(b, h_k)``: b are the shared layers of the version that it has received, and h_k its personal
    layers as its last delivered update left them, those of version 0 before.  The aggregation gets b alone.

    Source: Arivazhagan et al., "Federated learning with personalization layers", arXiv:1912.00818, algorithms 1 and 2.
    There, all users take part in each round.

    Example::

        kind: fedper
        personal_layers: 1
    """
