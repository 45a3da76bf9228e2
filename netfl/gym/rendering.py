"""Rendering: the users of an environment and their deliveries as an image."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netfl.types import Floats, Ints

if TYPE_CHECKING:
    from netfl.network.layout import Layout

_SIZE = (5.0, 5.6)
"""Width and height in inches."""
_DPI = 100
"""Dots per inch."""


def draw_users(xy_m: Floats | None, delivered: Ints, layout: Layout | None) -> NDArray[np.uint8]:
    """Return a map of users, coloured by their numbers of deliveries, or bars of these, ``[height, width, 3]``.

    Args:
        xy_m: positions of the users, ``[users, 2]``; ``None`` draws bars.
        delivered: number of deliveries of each user, ``[users]``.
        layout: towers, routers and the server to draw; ``None`` for none.
    """
    import pandas as pd
    from matplotlib.figure import Figure

    from netfl.plots import network, style

    users = pd.DataFrame({"user": np.arange(len(delivered)), "delivered": delivered, "rare": False})
    with style.theme():
        figure = Figure(figsize=_SIZE, facecolor="white", layout="constrained")
        ax = figure.add_subplot()
        if xy_m is None:
            ax.bar(users["user"], users["delivered"])
            ax.set(xlabel="user", ylabel="deliveries")
        else:
            nodes = None
            if layout is not None:
                nodes = pd.DataFrame([layout.graph.nodes[name] for name in layout.names])
            placed = users.assign(x_m=xy_m[:, 0], y_m=xy_m[:, 1])
            network.user_map(placed, "delivered", "deliveries", nodes=nodes, ax=ax)
        pixels = io.BytesIO()
        figure.savefig(pixels, format="rgba", dpi=_DPI)
    width, height = (round(inches * _DPI) for inches in _SIZE)
    return np.frombuffer(pixels.getvalue(), np.uint8).reshape(height, width, 4)[..., :3].copy()
