"""Small scenarios for environments of Gymnasium, and a function that makes them."""

import pytest

NETWORK = {
    "name": "cell",
    "users": 6,
    "rounds": 12,
    "seed": 3,
    "access": {
        "kind": "network",
        "round": {"kind": "first", "deadline": "30 s"},
        "topology": {"kind": "star", "radius": "3 km"},
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "channel": [
            {"kind": "log_distance", "exponent": 3.8, "reference_distance": "100 m", "frequency": "868 MHz"},
            {"kind": "rayleigh", "coherence": "1 min"},
        ],
        "reception": {"kind": "snr_threshold", "threshold": "-7.5 dB", "rate": "5.5 kbps"},
        "unreachable": "keep",
        "mac": {"kind": "slotted_aloha", "probability": 0.3, "max_attempts": 4},
        "outages": [
            {
                "kind": "renewal",
                "nodes": nodes,
                "up": {"distribution": "exponential", "mean": "5 min"},
                "down": {"distribution": "exponential", "mean": "1 min"},
            }
            for nodes in ("users", "towers")
        ],
        "compute": {"speed": 50, "samples": 100, "spread": 0.5},
        "energy": {"per_training": "1 J", "transmit": "100 mW"},
        "broadcast_rate": "11 kbps",
        "update_size": "1 kB",
    },
}
LEARNING = {
    **NETWORK,
    "access": {key: value for key, value in NETWORK["access"].items() if key != "update_size"}
    | {"compute": {"speed": 100}},
    "data": "digits",
    "partition": {"kind": "rare_classes", "classes": [9], "users": 2, "by": "prerun"},
    "model": "logistic",
    "learners": {
        name: {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 16, "local_steps": 3}
        for name in ("A", "B")
    },
    "evaluate": {"every": 2},
}


def make(name="UserSelection", scenario=NETWORK, **options):
    """Return an environment without the wrappers of Gymnasium."""
    gymnasium = pytest.importorskip("gymnasium", reason="netfl-sim[gymnasium] is not installed")

    return gymnasium.make(f"netfl.gym:netfl/{name}-v0", scenario=scenario, **options).unwrapped
