"""Write the built-in recordings of real LoRaWAN devices: netfl/access/recordings/real.

The sources are tables of received frames, one row for each frame counter, with RSSI and SNR at each gateway.  They are
derived from github.com/CampusIoT/datasets, commit 14a8a91e, under ODbL-1.0, and so are the recordings.

    python analysis/real_recordings.py saint_eynard_33.csv.gz netfl/access/recordings/real/saint_eynard
    python analysis/real_recordings.py tour_perret.csv.gz netfl/access/recordings/real/tour_perret
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from netfl.files.recordings import Recording, fill_times

SPREADING_FACTOR_OF_DR0 = 12
"""Data rate 0 of the band EU868; each further one has a spreading factor less (LoRaWAN regional parameters)."""


def read_recording(source: Path) -> Recording:
    """Return the gateways of a table as users, and its frame counters as rounds.

    A round lasts from its frame to the next one.  A frame that no gateway received has no time: it gets one between
    its neighbours, evenly spaced.  The last round is as long as the median.
    """
    table = pd.read_csv(source)
    gateways = [name for name in table if name.startswith("rssi_dbm_gw")]
    is_received = table[gateways].notna().to_numpy()  # [frames, gateways]
    opened_s, closed_s = fill_times(np.round(table["time_s"].to_numpy(), 1))
    opened_s, closed_s = np.round(opened_s, 1), np.round(closed_s, 1)  # the resolution of the source
    frame, user = np.nonzero(is_received)  # in the order of frames, then of gateways
    snr_db = table[[name.replace("rssi_dbm", "snr_db") for name in gateways]].to_numpy()[frame, user]
    return Recording(
        opened_s=opened_s,
        closed_s=closed_s,
        round=frame + 1,
        user=user,
        arrived_s=opened_s[frame],
        names=[name.removeprefix("rssi_dbm_") for name in gateways],
        snr_db=np.round(snr_db, 1),  # LoRa chips report multiples of 0.25 dB, and the source some in 32 bits
        mode=data_rates(table["data_rate"])[frame],
    )


def data_rates(cells: pd.Series) -> np.ndarray:
    """Return data rates as numbers, ``[frames]``: from numbers, or words such as SF12BW125; 0 where unknown."""
    words = cells.astype(str).str.extract(r"^SF(\d+)BW125$")[0].astype(float)
    numbers = pd.to_numeric(cells, errors="coerce").fillna(SPREADING_FACTOR_OF_DR0 - words)
    return numbers.fillna(0).to_numpy(np.int64)


def main() -> None:
    """Write one recording."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    recording = read_recording(arguments.source)
    recording.write(arguments.folder)
    rates = ", ".join(f"{rate:.3f}" for rate in recording.rates)
    print(f"{arguments.folder}: {recording.rounds} rounds, {len(recording.round)} deliveries, rates {rates}")


if __name__ == "__main__":
    main()
