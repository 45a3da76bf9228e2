"""Write the recordings of scenarios/table: real ones in stretches, each of which is a replica, and those of networks.

A built-in recording is one run.  Ten stretches of it, one after the other, have different deliveries of the same
process.  At Tour Perret gateways come and go over the year: the stretches are of the half in which nine of the twelve
receive frames all the time.  They are a derived database, under ODbL-1.0 as the recordings.

A network is simulated once in ten replicas.  Rounds keep their times and joules.  An update counts as sent at the
opening of its round and as arrived at its close, as learning depends on its base and its order alone; so the files are
small.

    python analysis/table_recordings.py             all recordings; 15 minutes of one core
    python analysis/table_recordings.py lorawan     those that are named
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

import netfl
from netfl.access._built_in import FOLDER, PREFIX

FILES = Path(__file__).parents[1] / "scenarios/table/recordings"
REPLICAS = 10
ROUND_COLUMNS = ["replica", "round", "opened_s", "closed_s", "delivered", "oldest", "energy_J"]
DELIVERY_COLUMNS = ["replica", "round", "user", "base", "sent_s", "arrived_s"]


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


def record_network(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rounds and deliveries of a network of ``networks.yaml``."""
    scenario = netfl.load(FILES / "networks.yaml", named=name)
    with TemporaryDirectory() as folder:
        run = netfl.trace(scenario, Path(folder) / "run", progress=False)
        rounds = run.rounds
        deliveries = run.deliveries
    rounds = rounds.round({"opened_s": 3, "closed_s": 3, "energy_J": 4})
    times = rounds.set_index(["replica", "round"])
    rows = times.loc[[*zip(deliveries["replica"], deliveries["round"], strict=True)]]
    deliveries = deliveries.assign(sent_s=rows["opened_s"].to_numpy(), arrived_s=rows["closed_s"].to_numpy())
    return rounds, deliveries


def read_stretches(part: Stretches) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rounds and deliveries of a real recording."""
    source = FOLDER / PREFIX / part.name
    return cut(part, pd.read_parquet(source / "rounds.parquet"), pd.read_parquet(source / "deliveries.parquet"))


def main() -> None:
    """Write the recordings that are named, by default all, and print their sizes."""
    real = {part.name: part for part in PARTS}
    for name in sys.argv[1:] or [*real, *netfl.load(FILES / "networks.yaml").overrides]:
        tables = read_stretches(real[name]) if name in real else record_network(name)
        target = FILES / name
        target.mkdir(exist_ok=True)
        for table, kind, columns in zip(
            tables, ("rounds", "deliveries"), (ROUND_COLUMNS, DELIVERY_COLUMNS), strict=True
        ):
            stored = table[columns]
            stored.to_parquet(target / f"{kind}.parquet", compression="zstd", compression_level=19, index=False)
        shares = tables[1].groupby("user").size() / len(tables[0])
        print(f"{name}: {len(tables[0])} rounds, shares {', '.join(f'{share:.3f}' for share in shares)}", flush=True)


if __name__ == "__main__":
    main()
