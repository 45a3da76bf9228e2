"""Updates between the air and the server, without the users that sent them."""

from netfl.network.updates import Update


def make_update(outstanding, user, bits=1.0, *, base=0, sent_s=0.0, flow=0, priority=0):
    """Return an update of *user* that has left the air and that *outstanding* counts."""
    update = Update(user, bits, flow, priority, base=base, sent_s=sent_s, attempts=1, outstanding=outstanding)
    outstanding.in_flight[update] = None
    return update
