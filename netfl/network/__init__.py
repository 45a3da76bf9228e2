"""The network: channels, cells, routers and outages on a SimPy clock."""
