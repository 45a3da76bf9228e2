"""The queues of `network.py` as users of plain SimPy, and of ns.py, would write them.

    python benchmarks/queues.py CASE SIDE PACKETS

prints how many packets came and the processor time that they took.  It imports nothing of netfl, so that the ns.py side
can be run by the interpreter of another environment.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

import simpy

CASES = {"M/M/1": (0.8, 1, None), "M/M/1/10": (0.9, 1, 9), "three links": (0.8, 3, None)}
"""Load, links one after the other, and how many packets may wait; a packet takes 1 s on a link in the mean."""
SEED = 1

Put = Callable[[float, float], None]
"""Takes the packet that came at an instant and takes so long."""


def arrivals(env: simpy.Environment, load: float, packets: int, put: Put) -> Generator[simpy.Event, Any, None]:
    """Poisson arrivals of packets of exponential size."""
    for _ in range(packets):
        yield env.timeout(random.expovariate(load))
        put(env.now, random.expovariate(1.0))


def store_link(env: simpy.Environment, room: int | None, onward: Put) -> Put:
    """A link as a process that takes packets out of a store."""
    store = simpy.Store(env)

    def put(born_s: float, service_s: float) -> None:
        if room is None or len(store.items) < room:
            store.put((born_s, service_s))

    def serve() -> Generator[simpy.Event, Any, None]:
        while True:
            born_s, service_s = yield store.get()
            yield env.timeout(service_s)
            onward(born_s, service_s)

    env.process(serve())
    return put


def resource_link(env: simpy.Environment, room: int | None, onward: Put) -> Put:
    """A link as a resource that each packet, a process of its own, asks for."""
    link = simpy.Resource(env)

    def cross(born_s: float, service_s: float) -> Generator[simpy.Event, Any, None]:
        with link.request() as turn:
            yield turn
            yield env.timeout(service_s)
        onward(born_s, service_s)

    def put(born_s: float, service_s: float) -> None:
        if room is None or len(link.queue) < room:
            env.process(cross(born_s, service_s))

    return put


def simpy_loop(link: Callable[..., Put], load: float, hops: int, room: int | None, packets: int) -> None:
    """A bare loop that keeps the delays."""
    env, delays_s = simpy.Environment(), list[float]()

    def arrive(born_s: float, service_s: float) -> None:
        delays_s.append(env.now - born_s)

    put: Put = arrive
    for _ in range(hops):
        put = link(env, room, put)
    env.process(arrivals(env, load, packets, put))
    env.run()


def ns_py(load: float, hops: int, room: int | None, packets: int) -> None:
    """The components of ns.py; the sink keeps the delays, and no second list of arrivals."""
    from ns.packet.dist_generator import DistPacketGenerator
    from ns.packet.sink import PacketSink
    from ns.port.port import Port

    env = simpy.Environment()
    out = PacketSink(env, rec_arrivals=False)
    for _ in range(hops):  # its limit counts the packet in service, too
        port = Port(env, 8.0, qlimit=None if room is None else room + 1)
        port.out, out = out, port
    source = DistPacketGenerator(env, "source", lambda: random.expovariate(load), lambda: random.expovariate(1.0))
    source.out = out
    env.run(until=packets / load)


SIDES: dict[str, Callable[[float, int, int | None, int], None]] = {
    "SimPy, a Store": lambda *case: simpy_loop(store_link, *case),
    "SimPy, a Resource": lambda *case: simpy_loop(resource_link, *case),
    "ns.py": ns_py,
}


def seconds(case: str, side: str, packets: int) -> float:
    """The processor time that one side takes for a case."""
    random.seed(SEED)
    begin = time.process_time()
    SIDES[side](*CASES[case], packets)
    return time.process_time() - begin


if __name__ == "__main__":
    print(seconds(sys.argv[1], sys.argv[2], int(sys.argv[3])))
