"""Large topologies are refused by their numbers, before anything is computed."""

import pytest

from netfl.errors import ScenarioError
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

MANY = 10**9


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (
            {"kind": "grid", "rows": MANY, "columns": MANY, "spacing": 1.0},
            "1,000,000,000,000,000,000 routers, more than",
        ),
        ({"kind": "tree", "fanout": [MANY], "ring": 1.0, "radius": 1.0}, "1,000,000,000 towers and routers, more than"),
        ({"kind": "ring", "routers": MANY, "radius": 1.0}, "routers: should be less than or equal to 10000"),
        (
            {"kind": "barabasi_albert", "routers": 10_000, "m": 5000, "towers": 1, "side": 1.0},
            "25,000,000 links, more than 100,000",
        ),
    ],
)
def test_large_topologies_are_refused(topology, message):
    settings = {"name": "x", "users": 4, "rounds": 2, "access": {"kind": "network", "topology": topology}}
    with pytest.raises(ScenarioError) as raised:
        validate(ScenarioDocument(settings, "x"))
    assert message in str(raised.value)
    assert "access.topology" in str(raised.value)
