"""The signal of a tower at a user, beside that of the user at the tower."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netfl.network.radio.radios import Radios
from netfl.types import Floats, Ints


class DownlinkBoost:
    """SNR of the signal of a tower at a user above that of the user's signal at the tower, in dB.

    Antennas and channels have the same gains in both directions.  Power P and noise figure NF are those of each end:
    P_tower - P_user + NF_tower - NF_user, without the noise figures where the noise is that of the medium.

    Args:
        radios: radios of users and towers.
        towers: names of the towers.
        tower_power_dbm: power of towers whose radio states none; ``None`` for that of the user.
        is_thermal: whether the noise is that of the receivers.
        channel_noise_db: mean noise of the frequency channels at towers, above that of their receivers.
    """

    def __init__(
        self,
        radios: Radios,
        towers: Sequence[str],
        tower_power_dbm: float | None,
        *,
        is_thermal: bool,
        channel_noise_db: float = 0.0,
    ) -> None:
        self._channel_noise_db = channel_noise_db
        self._radios = radios
        self._index_of = {name: index for index, name in enumerate(towers)}
        self._tower_power_dbm = tower_power_dbm
        self._is_thermal = is_thermal
        self._common_db: float | None = None
        parts = (radios.power_dbm, radios.noise_figure_db, radios.tower_power_dbm, radios.tower_noise_figure_db)
        if len(towers) and len(radios.power_dbm) and all(_are_equal(part) for part in parts):
            self._common_db = float(self.at(np.zeros(1, np.int64), np.zeros(1, np.int64))[0])

    def of(self, users: Ints, tower: str) -> float | Floats:
        """Return it for each user and *tower*; one number if it is that of all users and towers, else ``[n]``."""
        if self._common_db is not None:
            return self._common_db
        return self.at(users, np.full(len(users), self._index_of[tower]))

    def at(self, users: Ints, towers: Ints) -> Floats:
        """Return it for each user and its one of *towers*, by index, ``[n]``."""
        radios = self._radios
        user_dbm = radios.power_dbm[users]
        stated_dbm = radios.tower_power_dbm[towers]
        default_dbm = user_dbm if self._tower_power_dbm is None else self._tower_power_dbm
        boost_db = np.where(np.isnan(stated_dbm), default_dbm, stated_dbm) - user_dbm
        if self._is_thermal:
            boost_db += radios.tower_noise_figure_db[towers] - radios.noise_figure_db[users]
        if self._channel_noise_db:
            boost_db += self._channel_noise_db
        return np.asarray(boost_db)


def _are_equal(values: Floats) -> bool:
    """Return whether all values are equal, or none is a number."""
    return bool(np.isnan(values).all() or (values == values[0]).all())
