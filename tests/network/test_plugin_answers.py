"""Models from outside netfl answer what the validation and the warnings of a network ask."""

import numpy as np
from support.small_network import make

from netfl.errors import Fault
from netfl.network.channel import Channel, StaticGain
from netfl.network.mac.tdma import Tdma
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.spec import NetworkSpec
from netfl.network.theory import TheoryCase
from netfl.scenario.validation import nested_faults
from netfl.types import ScenarioFacts

WALK = {"kind": "random_waypoint", "radius": 200, "speed": [1.0, 2.0]}


class Foliage(Channel):
    """A loss that fits slow users only, with a carrier."""

    @property
    def carrier_hz(self):
        return 868e6

    def motion_misfit(self, pace):
        lowest_hz, highest_hz = pace.dopplers_hz
        return f"leaves move slower than {lowest_hz:.1f} to {highest_hz:.1f} Hz"

    def open(self, layout, streams):
        return StaticGain(np.full(layout.users, -1.0))


class Fuse(Outage):
    """An outage that no frame above 100 bits survives."""

    def warnings(self, uses):
        if uses.frame_bits > 100:
            yield f"frames of {uses.frame_bits:g} bits blow the fuse, trainings of {uses.samples:g} samples do not"

    def open(self, layout, streams):
        return Up()


class Up(NodeAvailability):
    def up(self, nodes, time_s):
        return np.ones(np.broadcast_shapes(np.shape(nodes), np.shape(time_s)), bool)

    def next_change(self, nodes, time_s):
        return np.full(np.broadcast_shapes(np.shape(nodes), np.shape(time_s)), np.inf)


class Picky(Tdma):
    """A MAC that needs a threshold of at least 3 dB."""

    def reception_faults(self, reception):
        if reception.threshold_db(1.0) < 3.0:
            yield Fault("threshold", "too low", reception.threshold, "raise it")


def test_channel_states_its_carrier_and_what_contradicts_the_motion():
    access, context, _ = make(2, 1, channel=[Foliage(), {"kind": "rayleigh"}], motion=WALK, unreachable="keep")
    assert not [*nested_faults(access, "", ScenarioFacts(2, 1))], "the fading takes the carrier of the plug-in"
    texts = [text for text in access.warnings(context) if "leaves" in text]
    assert len(texts) == 1
    assert texts[0].startswith("access.channel.0, ")
    assert texts[0].endswith("Foliage: leaves move slower than 2.9 to 5.8 Hz")


def test_outage_warns_of_uses_that_it_always_ends():
    access, context, _ = make(2, 1, outages=[Fuse()])
    texts = [text for text in access.warnings(context) if "fuse" in text]
    assert len(texts) == 1
    assert texts[0].startswith("access.outages.0, ")
    assert texts[0].endswith("Fuse: frames of 1000 bits blow the fuse, trainings of 1 samples do not")


def test_mac_refuses_a_reception():
    access, _, _ = make(2, 1, mac=Picky())
    (fault,) = nested_faults(access, "", ScenarioFacts(2, 1))
    assert (fault.key, fault.problem) == ("reception.threshold", "too low")


def test_network_is_described_without_an_access():
    access, context, _ = make(2, 1)
    fields = {name: getattr(access, name) for name in NetworkSpec.model_fields}
    spec = NetworkSpec.model_validate(fields)
    assert spec.air_rates_bps == (1000.0,)
    case = TheoryCase(spec, spec.topology.open(2, context.streams), context.streams)
    assert case.network.mac == Tdma()
