"""Aggregations from outside netfl that send more than the model."""

from netfl.learning.aggregation.average import Average


class Forgetful(Average):
    """Sends a vector with its versions, and does not state it."""

    def open(self, users, current):
        return {"sent": current.clone()}

    def message(self, state):
        return state["sent"]


class Stated(Forgetful):
    """Sends a vector with its versions, and states it."""

    def downlink_extra(self, parameters):
        return parameters


class Returning(Average):
    """Its users send as many numbers beside the model as it has."""

    def uplink_extra(self, parameters):
        return parameters


class Vague(Average):
    """States what it sends as *extra*; fails without."""

    extra: float | str = ""

    def uplink_extra(self, parameters):
        if self.extra == "":
            raise LookupError("how many?")
        return self.extra
