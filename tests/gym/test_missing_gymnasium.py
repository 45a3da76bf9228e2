"""Without Gymnasium the package can be imported, and its environments cannot."""

import pytest

import netfl.gym
from netfl.errors import ScenarioError


def test_missing_gymnasium_is_one_error(monkeypatch):
    monkeypatch.setattr(netfl.gym, "find_spec", lambda name: None)
    for name in netfl.gym.__all__:
        with pytest.raises(ScenarioError) as error:
            getattr(netfl.gym, name)
        assert str(error.value) == (
            "netfl.gym needs Gymnasium, which is not installed; pip install 'netfl-sim[gymnasium]'"
        )


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = netfl.gym.nothing
    assert "UserSelection" in dir(netfl.gym)
