"""Small valid files for `file_readers`, from which nearly valid ones are run_folder."""

import atexit
import gzip
import io
import json
import shutil
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import savemat

import netfl
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, dump
from netfl.simulation.checkpoints import CHECKPOINT
from support.exported_runs import Stopping
from support.small_network import SECTION

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "network" / "data"
FILES = ROOT / "scenarios" / "files"
RNG = np.random.default_rng(7)
SCENARIO = {
    "name": "small", "users": 4, "rounds": 3, "replicas": 2, "access": SECTION,
    "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 20}, "partition": "iid", "model": "logistic",
    "learners": {"A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}},
    "evaluate": {"every": 1}, "record": {"events": "all", "versions": True}, "checkpoint": {"rounds": 1},
}  # fmt: skip
SMALL = """\
name: a
users: 4
rounds: 3
access: {kind: stationary, rho: {zipf: 1.0}}
"""
REPLAYED = {"kind": "availability", "file": "a.csv", "unit": "rounds", "repeat": 20}
OWN = {"kind": "table", "file": "a.csv", "features": ["x", "y"], "labels": 3, "user": "who", "test_share": 0.25}
ALIASES = "a: &a {x: 1, y: [1.5, two, null, true]}\nb: {<<: *a, z: *a}\nc: |\n  text\n? d\n: 2024-01-01\n"


@cache
def run_folder() -> Path:
    """Return a folder with a finished run, and one that was stopped after its first round."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    scenario = validate(ScenarioDocument(SCENARIO, "small"))
    netfl.run(scenario, folder / "done", device="cpu")
    netfl.run(scenario, folder / "stopped", device="cpu", observer=Stopping(1))
    return folder


def uplinks():
    return [(FILES / "uplinks.jsonl").read_bytes()]


def phone_logs():
    return [(FILES / "gnettrack.csv").read_bytes()]


def flower_logs():
    return [(FILES / "flower.log").read_bytes(), (DATA.parents[1] / "files/flower_1_41_server.log").read_bytes()]


def of_run(name):
    """Return a function that returns the content of a file in a run directory."""
    return lambda: [(run_folder() / ("stopped" if name == CHECKPOINT else "done") / name).read_bytes()]


def shipped(pattern, folder=ROOT / "scenarios"):
    """Return the contents of shipped files."""
    return [path.read_bytes() for path in sorted(folder.glob(pattern))]


def packed(files, mode="w"):
    """Return a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def gzipped(data):
    """Return gzip-compressed data, without a time stamp."""
    return gzip.compress(data, mtime=0)


def zipped(files):
    """Return a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def written(write, *args, **kwargs):
    """Return the bytes that *write* writes into a file."""
    buffer = io.BytesIO()
    write(buffer, *args, **kwargs)
    return buffer.getvalue()


def texts():
    return [SMALL.encode(), ALIASES.encode()]


def scenarios():
    return [SMALL.encode(), dump(SCENARIO).encode(), dump({**SCENARIO, "access": REPLAYED, "data": OWN}).encode()]


def walks():
    return [*shipped("walks.csv", DATA), b"user,time_s,x_m,y_m\n0,0,0,0\n0,5.5,1e3,-2\n1,0,0,0\n1,3,4,5\n"]


def traces():
    lines = "".join(f"{user},{time_s},tower:0,{1e6 + user}\n" for user in range(4) for time_s in (0, 0.5, 3e1))
    return [
        ("user,time_s,tower,rate_bps\n" + lines).encode(),
        b"user,time_s,gain_db\n0,-1,-80\n1,0,-81\n0,2,-82\n2,0,-83\n3,0,-84.5\n3,9,-9e1\n",
    ]


def radio_maps():
    return [
        *shipped("campus.csv", DATA),
        b"x_m,y_m,snr_db,tower\n0,0,1,tower:0\n0,5,2,tower:0\n9,0,3,tower:0\n9,5,4,tower:0\n",
    ]


def sumo_fcds():
    vehicles = "".join(f'<vehicle id="{name}" x="{place}" y="-1.5"/>\n' for place, name in enumerate("abcd"))
    steps = "".join(f'<timestep time="{time_s}">{vehicles}</timestep>\n' for time_s in ("0.00", "1.50"))
    return [f"<?xml version='1.0'?>\n<!-- by SUMO -->\n<fcd-export>{steps}</fcd-export>".encode()]


def _fcd_table():
    names = [*"abcd"]
    rows = [(time_s, name, float(place), -1.5, 0.0) for time_s in (0.0, 1.5) for place, name in enumerate(names)]
    return pd.DataFrame(rows, columns=["timestep_time", *(f"vehicle_{key}" for key in ("id", "x", "y", "speed"))])


def sumo_fcd_tables():
    return [_fcd_table().to_csv(sep=separator, index=False).encode() for separator in ";,"]


def sumo_fcds_parquet():
    return [_fcd_table().to_parquet(index=False)]


def places():
    return [b"x_m, y_m ,user\n1,2,0\n3,4,1\n5,6,2\n7,8,3\n"]


def calendars():
    more = b'node,start,end,why\n"0",90 min,2.5 h,"a, b"\ntower:0,2024-03-01T08:00Z,,x\n'
    return [*shipped("outages.csv", FILES), b"node,start_s,end_s\n0,10,20\n1,1e3,\n", more]


def availabilities():
    intervals = b"user,start,end\n0,0,10\n0,20 s,\n1,5,6\n1,6,7\n2,,\n3,-1,59.5\n"
    return [b"user,start,times\n0,on,10,20.5\n1,off,5\n2,on\n3,1,7,9\n", b'3,true,"1",2\n0,0\n1,0\n2,0\n', intervals]


def availabilities_parquet():
    rows = {"user": [0, 1, 2, 3], "start": [True, False, False, True], "times": [[10.0, 20.5], [5.0], [], [7.0, 9.0]]}
    spans = {"user": [0, 1, 2, 3], "start": pd.to_timedelta([0, 5, 6, 7], "s"), "end": [1.0, 9.0, None, 8.0]}
    return [pd.DataFrame(columns).to_parquet(index=False) for columns in (rows, spans)]


def availabilities_json():
    return [
        b'[{"user": 0, "start": "on", "times": [10, 20.5]}, {"user": 1, "start": 0}, {"user": 2, "start": 0},'
        b'{"user": "3", "start": "true", "times": ["4"]}]',
        b'[{"user": 0, "start": 0, "end": 10}, {"user": 1, "start": "5 s", "end": null},'
        b'{"user": 2, "start": null, "end": null},'
        b'{"user": 3, "start": 1.5, "end": "20"}]',
    ]


def graphmls():
    return shipped("*.graphml", DATA)


def gmls():
    return shipped("*.gml", DATA)


def node_links():
    return shipped("nodelink.json", DATA)


def edges():
    return [*shipped("*.edges", DATA), b"a b {'delay_s': 0.1, 'rate_bps': 1e6}\nb c {}\n# no\nc a\n"]


def _matlab(**arrays):
    """Return MATLAB files with these arrays, plain and compressed, without the date in their headers."""
    files = [written(savemat, arrays, do_compression=compress) for compress in (False, True)]
    return [b"MATLAB 5.0 MAT-file".ljust(116) + file[116:] for file in files]


def vehicle():
    cells = np.empty((2, 2, 1), object)
    for sensor in range(2):
        cells[0, sensor, 0], cells[1, sensor, 0] = np.eye(2, 100), np.array([[1], [-1]])
    return _matlab(X=cells[0], Y=cells[1])


def glove():
    return [b"the 0.1 -0.2\nof 1e-3 4\na 3 4\n"]


def _frame():
    return pd.DataFrame(
        {"a": [0.5, 1, 2, 3] * 3, "b": [1, 2, 3, 4] * 3, "label": [0, 1, 2] * 4, "user": list("xyxy" * 3)}
    )


def arrays_packed():
    arrays_ = {"x": np.ones((6, 2), np.float32), "label": np.arange(6) % 3}
    return [written(np.savez, **arrays_), written(np.savez_compressed, **arrays_, user=np.array(list("ababab")))]


def arrays():
    return [written(np.save, np.ones((6, 2))), written(np.save, np.ones((6, 2), ">i2")), bytes(9)]


def pack_arrays(data):
    """Return an archive of arrays in which *data* replaces the one that its first bytes select."""
    files = {"x.npy": np.ones((6, 2)), "label.npy": np.arange(6) % 3, "user.npy": np.arange(6) % 2}
    files = {name: written(np.save, array) for name, array in files.items()}
    return zipped(files | {[*files][sum(data[:9]) % 3]: data})


def leaf():
    users = {name: {"x": [[0.5, 1], [2, 3], [1, 0], [4, 4]], "y": [0, 1, 2, 0]} for name in "ab"}
    content = {"users": [*users], "num_samples": [4, 4], "user_data": users}
    return [json.dumps(content).encode(), json.dumps({"user_data": users}).encode()]


def tables_csv():
    return [_frame().to_csv(index=False).encode()]


def tables_parquet():
    return [_frame().to_parquet(index=False)]


def _deliveries():
    return pd.DataFrame(
        {"round": [1, 1, 2, 3], "user": [0, 1, 0, 2], "closed_s": [1.0, 1.0, 2.0, 3.5], "replica": [0] * 4}
    )


def deliveries_csv():
    return [
        _deliveries().to_csv(index=False).encode(),
        b"round;user\n1;ann\n2;bob\n5;ann\n",
        b"round\tuser\n0\t7\n1\t8\n",
    ]


def deliveries_parquet():
    return [_deliveries().to_parquet(index=False)]


def times_csv():
    return [
        b"round,user,total_s,outcome,attempts\n1,ann,2.5,delivered,1\n1,bob,3,delivered,2\n2,ann,2,lost,1\n2,bob,1,delivered,1\n",
        b"round;user;download_s;upload_s\n0;7;1;2\n0;8;1;\n1;7;0;0\n1;8;2;1\n",
    ]


def pickled():
    with zipfile.ZipFile(run_folder() / "stopped" / CHECKPOINT) as archive:
        return [archive.read("archive/data.pkl")]


def pack_checkpoint(data):
    """Return the checkpoint with *data* as its pickled objects."""
    with zipfile.ZipFile(run_folder() / "stopped" / CHECKPOINT) as archive:
        return zipped({name: archive.read(name) for name in archive.namelist()} | {"archive/data.pkl": data})


def manifests():
    diverged_ = {"learner": "A", "replica": 0, "round": 1, "user": None, "problem": "no number"}
    manifest = {
        "status": "done",
        "format": 3,
        "scenario": "small",
        "replicas": 2,
        "learning": True,
        "digests": {"a": "b"},
    }
    return [json.dumps(manifest | {"diverged": diverged}).encode() for diverged in ([], [diverged_])]


def sweeps():
    tasks = {"t": {"trace": "x", "lanes": {"l": "A"}, "first": 0, "stop": 1, "levels": [0.5]}}
    points = [{"values": {"seed": 1}, "trace": "x", "lanes": {"A": "l"}, "levels": [0.5], "choices": ["best"]}]
    index = {"format": 3, "replicas": 1, "points": points, "tasks": tasks, "errors": {"t": "broke"}}
    return [json.dumps(index).encode()]


def lay(folder: Path) -> None:
    """Create the files beside those of the readers: a run, its documents, a recorded run, a task of a sweep."""
    for name in ("run", "replay", "tasks/t"):
        shutil.copytree(run_folder() / "done", folder / name)
    (folder / "documents").mkdir()
    for name in ("manifest.json", "summary.json", "scenario.yaml"):
        shutil.copy(run_folder() / "done" / name, folder / "documents")
