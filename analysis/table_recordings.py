"""Write the recordings of scenarios/table: the built-in recordings in stretches, each of which is a replica.

A built-in recording is one run.  Ten stretches of it, one after the other, have different deliveries of the same process.
Of Tour Perret, where gateways come and go over the year, it is the half in which nine of the twelve receive frames all
the time, and without the other three.  The stretches are a derived database, under ODbL-1.0 as the recordings.

    python analysis/table_recordings.py
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from netfl.access._built_in import FOLDER, PREFIX

REPLICAS = 10


@dataclass(frozen=True)
class Stretches:
    """The part of a recording that the table has.

    Args:
        name: of the recording.
        begin: rounds before the first stretch.
        rounds: rounds of a stretch.
        users: number of users, the first of the recording.
    """

    name: str
    begin: int
    rounds: int
    users: int


PARTS = (Stretches("saint_eynard", 0, 600, 8), Stretches("tour_perret", 10_000, 1000, 9))


def cut(part: Stretches, rounds: pd.DataFrame, deliveries: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return rounds and deliveries of `REPLICAS` stretches, whose rounds, versions and times begin anew in each."""
    deliveries = deliveries[deliveries["user"] < part.users]
    rounds = rounds.assign(delivered=rounds["round"].map(deliveries["round"].value_counts()).fillna(0).astype("int64"))
    stretches = []
    for replica in range(REPLICAS):
        first = part.begin + replica * part.rounds
        of_stretch = rounds[rounds["round"].between(first + 1, first + part.rounds)]
        arrived = deliveries[deliveries["round"].between(first + 1, first + part.rounds)]
        begin_s = of_stretch["opened_s"].iloc[0]
        moved = []
        for table, versions, times in (
            (of_stretch, ("round", "oldest"), ("opened_s", "closed_s")),
            (arrived, ("round", "base"), ("sent_s", "arrived_s")),
        ):
            new = table.assign(replica=replica)
            for column in versions:
                new[column] -= first
            for column in times:
                new[column] = (new[column] - begin_s).round(1)
            moved.append(new)
        stretches.append(moved)
    of_rounds, of_deliveries = zip(*stretches, strict=True)
    return pd.concat(of_rounds, ignore_index=True), pd.concat(of_deliveries, ignore_index=True)


def main() -> None:
    """Write both recordings and print their sizes."""
    for part in PARTS:
        source = FOLDER / PREFIX / part.name
        target = Path(__file__).parents[1] / "scenarios/table" / part.name
        target.mkdir(exist_ok=True)
        rounds = pd.read_parquet(source / "rounds.parquet")
        tables = cut(part, rounds, pd.read_parquet(source / "deliveries.parquet"))
        for table, kind in zip(tables, ("rounds", "deliveries"), strict=True):
            table.to_parquet(target / f"{kind}.parquet", compression="zstd", compression_level=19, index=False)
        print(f"{target}: {len(tables[0])} rounds, {len(tables[1])} deliveries")


if __name__ == "__main__":
    main()
