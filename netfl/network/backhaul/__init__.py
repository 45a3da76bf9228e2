"""The wired network: output ports, routes, traffic sources and the event-free path of queues."""
