"""An access that is slow, so that a test can act during a run, or that fails."""

from time import sleep

from netfl.access import Access
from netfl.types import Delivery, Law, Round


class Slow(Access):
    """Users take turns; each round takes *pause* seconds of wall-clock time, and round *until* fails."""

    pause: float = 0.0
    until: int | None = None
    offset: int = 0

    def rounds(self, context):
        for index in range(1, context.rounds + 1):
            if index == self.until:
                raise RuntimeError("the toy is broken")
            sleep(self.pause)
            user = (index + self.offset + context.replica) % context.users
            yield Round(
                index=index,
                opened_s=index - 1.0,
                closed_s=index + 0.0,
                deliveries=(Delivery(user=user, base=index - 1, sent_s=index - 1.0, arrived_s=index + 0.0),),
                oldest=index - 1,
            )

    def max_deliveries(self, users, rounds):
        return 1

    def laws(self):
        return (Law.none("a toy"),)
