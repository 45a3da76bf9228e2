"""An access that takes its time, so that a test can do something in the middle of a run, and one that gives up."""

from time import sleep

from netfl.access import Access
from netfl.types import Delivery, Law, Round


class Slow(Access):
    """Users take turns; a round takes so many seconds of the clock on the wall, and from *until* on none comes."""

    pause: float = 0.0
    until: int | None = None
    offset: int = 0

    def rounds(self, setting):
        for index in range(1, setting.rounds + 1):
            if index == self.until:
                raise RuntimeError("the toy is broken")
            sleep(self.pause)
            user = (index + self.offset + setting.replica) % setting.users
            yield Round(
                index, index - 1.0, index + 0.0, (Delivery(user, index - 1, index - 1.0, index + 0.0),), index - 1
            )

    def max_deliveries(self, users, rounds):
        return 1

    def laws(self):
        return (Law.none("a toy"),)
