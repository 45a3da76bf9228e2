"""Warnings about files whose times all lie outside of the run."""

import pytest

import netfl
from netfl.simulation.setup import warnings

SCENARIO = {
    "name": "n",
    "users": 2,
    "rounds": 8,
    "access": {
        "kind": "network",
        "round": {"kind": "first", "m": 1},
        "topology": {"kind": "star", "radius": 200},
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
        "channel": [{"kind": "log_distance", "exponent": 2.5, "frequency": "868 MHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "50 kbps"},
        "mac": {"kind": "slotted_aloha", "probability": 0.2},
        "compute": {"speed": 1, "samples": 5},
        "broadcast_rate": "50 kbps",
        "update_size": "1 kB",
    },
}


@pytest.mark.parametrize(
    ("key", "model", "text", "is_warned"),
    [
        ("outages", {"kind": "calendar"}, "node,start,end\n0,1711843200,1711929600\n", True),
        ("outages", {"kind": "calendar"}, "node,start,end\n", True),
        ("outages", {"kind": "calendar"}, "node,start,end\n0,20240331,20240401\n", True),
        ("outages", {"kind": "calendar"}, "node,start,end\n0,5,9\n0,1711843200,1711929600\n", False),
        ("outages", {"kind": "availability"}, "0,on,1600000000000\n1,off,1600000003000\n", True),
        ("outages", {"kind": "availability"}, "0,on,5\n1,off,1600000003000\n", False),
        ("outages", {"kind": "renewal", "nodes": "users"}, None, False),
        ("motion", {"kind": "trajectory", "relative": True}, "user,time_s,x_m,y_m\n0,1.7e9,0,0\n0,1.8e9,5,0\n", True),
        ("motion", {"kind": "trajectory", "relative": True}, "user,time_s,x_m,y_m\n0,0,0,0\n0,1.8e9,5,0\n", False),
    ],
)
def test_files_outside_of_the_run(tmp_path, key, model, text, is_warned):
    if text is None:
        span = {"distribution": "exponential", "mean": 9}
        model = model | {"up": span, "down": span}
    else:
        path = tmp_path / "f.csv"
        path.write_text(text)
        model = model | {"file": str(path)}
    section = SCENARIO["access"] | {key: [model] if key == "outages" else model}
    found = [text for text in warnings(netfl.load(SCENARIO | {"access": section})) if "in its file falls" in text]
    assert len(found) == is_warned
    assert all(text.startswith(f"access.{key}") for text in found)
    remedy = "check the unit of the times and origin" if key == "outages" else "check the unit of the times"
    assert all(text.endswith(remedy) for text in found)


def test_remedy_names_the_key_that_the_model_has(tmp_path):
    """SUMO's files have begin, and no origin."""
    steps = "".join(
        f'<timestep time="{time_s}"><vehicle id="a" x="0" y="0"/><vehicle id="b" x="5" y="0"/></timestep>'
        for time_s in ("1700000000.00", "1700000060.00")
    )
    (tmp_path / "f.xml").write_text(f"<fcd-export>{steps}</fcd-export>")
    model = {"kind": "sumo_fcd", "file": str(tmp_path / "f.xml")}
    section = SCENARIO["access"] | {"motion": model, "topology": {"kind": "star", "placement": model}}
    found = [text for text in warnings(netfl.load(SCENARIO | {"access": section})) if "in its file falls" in text]
    assert [text.endswith("check the unit of the times and begin") for text in found] == [True]
