"""Channels of plugins whose gains are not one for each user."""

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.channel import Channel, StaticGain, distance_gain
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.network.topology import Star
from netfl.streams import Streams
from netfl.types import Law

USERS = 5


class Gains(Channel):
    """Return the same object from ``open``, whatever the layout."""

    form: str

    def open(self, layout, streams):
        if self.form == "constant":
            return distance_gain(layout, lambda distance_m: 3.0)
        return StaticGain([-1.0] * int(self.form))

    def laws(self):
        return (Law.none("nothing is drawn"),)


def budget(form):
    """The link budget of five users with the channel; building it checks the gains."""
    radio = Radio.model_validate({"power": 0.0, "bandwidth": 1e6})
    return LinkBudget(radio, [Gains(form=form)], Star(distance=100).open(USERS, Streams(1)), Streams(1))


@pytest.mark.parametrize(("form", "given"), [("3", "3 values"), ("8", "8 values"), ("constant", "a single number")])
def test_gains_that_are_not_one_for_each_user_are_an_error(form, given):
    with pytest.raises(ScenarioError, match=rf"gives {given} for 5 users; return a finite number of dB for each user"):
        budget(form)


def test_a_static_gain_may_be_a_list():
    assert budget(str(USERS)).mean_gains_db(np.arange(USERS), [0.0]).tolist() == [[-1.0] * USERS]
