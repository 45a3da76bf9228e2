"""What channel models are made of, for those of other packages too.

`BlockGain` draws a gain anew for each user in each block of time, `StaticGain` keeps one for each user, and
`by_distance` follows the distance between a user and its tower, wherever it moves.
"""

from netfl.network.channel._gains import BlockGain, StaticGain
from netfl.network.channel._path_loss import distance_gain

__all__ = ["BlockGain", "StaticGain", "distance_gain"]
