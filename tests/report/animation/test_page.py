"""The replay in a real browser, compared with the tables, and its speed."""

import json
import struct
import time
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from support.chromium import CHROMIUM, Browser

import netfl
from netfl import report
from netfl.report import sections
from netfl.report.animation import events as gathering
from netfl.report.run_data import RunData

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine"),
    pytest.mark.slow,  # a browser and a run of 300 rounds
]

RURAL = Path(__file__).parents[3] / "scenarios" / "rural_outage.yaml"
READY = "document.getElementById('replay-round')?.textContent"
PIXELS = """(() => {
  const canvas = document.getElementById("replay-scene");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.reduce((sum, part) => (sum * 31 + part) % 2147483647, 0);
})()"""
FRAMES_PER_S = """new Promise((done) => {
  const first = performance.now();
  let frames = 0;
  const count = (now) =>
    now - first > 2000 ? done((frames / (now - first)) * 1000) : (frames++, requestAnimationFrame(count));
  requestAnimationFrame(count);
})"""


@pytest.fixture(scope="module")
def page(filmed, tmp_path_factory):
    """The opened report of `filmed`."""
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        opened.open(filmed.folder / "report.html", READY)
        yield opened
        assert opened.errors == []


def text(page, name):
    """Return the text of an element of the replay."""
    return page.js(f"document.getElementById('replay-{name}').textContent")


def choose(page, name, value, event):
    """Set a control of the replay."""
    control = f"document.getElementById('replay-{name}')"
    page.js(f"{control}.value = {json.dumps(value)}, {control}.dispatchEvent(new Event('{event}'))")


def move(page, share, end_s):
    """Move the slider; return its simulated time in seconds."""
    choose(page, "cursor", round(1e6 * share), "input")
    return round(1e6 * share) / 1e6 * end_s


def seconds(clock):
    """Return the seconds of a time on the clock of the replay."""
    return sum(float(part) * 60**power for power, part in enumerate(reversed(clock.removesuffix(" s").split(":"))))


def down(events, at_s):
    """Return the numbers of users and nodes that are down, from the table of events."""
    rows = events[events["kind"].isin(["down", "up"])].astype({"node": str})
    found = []
    for nodes_ in (rows[rows["user"] >= 0], rows[rows["user"] < 0]):
        count = 0
        for _, turns in nodes_.groupby(["user", "node"]):
            past = turns[turns["time_s"] <= at_s]
            count += (past["kind"].iloc[-1] == "down") if len(past) else (turns["kind"].iloc[0] == "up")
        found.append(count)
    return tuple(found)


def quiet(events, end_s):
    """Return times without nearby events at the start, middle and end, as shares of the run."""
    times = events["time_s"].unique() / end_s
    wide = [at for at in np.linspace(0.02, 0.98, 400) if np.abs(times - at).min() > 3e-6]
    return [wide[0], wide[len(wide) // 2], wide[-1]]


def test_values_at_cursor_match_tables(filmed, page):
    view = RunData(filmed)
    events = gathering.recorded_events(view)
    rounds = filmed.rounds[filmed.rounds["replica"] == 0]
    scores = filmed.metrics.query("replica == 0 and metric == 'accuracy' and group == ''")
    for share in quiet(events, view.end_s):
        at_s = move(page, share, view.end_s)
        assert seconds(text(page, "clock")) == pytest.approx(at_s, abs=0.06)
        assert int(text(page, "round")) == (rounds["opened_s"] <= at_s).sum()
        assert (int(text(page, "down")), int(text(page, "broken"))) == down(events, at_s)
        past = scores[scores["time_s"] <= at_s].sort_values("time_s").groupby("learner", observed=True)["value"].last()
        lines = [
            line.split("%")[0] for line in page.js("document.getElementById('replay-scores').innerText").split("\n")
        ]
        assert [float(score) for score in lines[1::2]] == pytest.approx(
            [100 * past[name] for name in ("FedAvg", "FED-CVaR-AVG")], abs=0.051
        )


def test_list_has_latest_events(filmed, page):
    view = RunData(filmed)
    events = gathering.recorded_events(view)
    for share in quiet(events, view.end_s):
        at_s = move(page, share, view.end_s)
        past = events[events["time_s"] <= at_s]
        lines = page.js(
            "[...document.querySelectorAll('#replay-events li')].map("
            "(li) => [Number(li.dataset.first), Number(li.dataset.last), ...li.innerText.split('\\n')])"
        )
        assert len(lines) == 14
        expected = len(past) - 1
        for first, last, clock, words in lines:
            row = events.iloc[first]
            assert last == expected
            assert events["kind"].iloc[first : last + 1].unique().tolist() == [row["kind"]]
            assert seconds(clock) == pytest.approx(row["time_s"], abs=0.06)
            if row["user"] >= 0:
                assert f"user {row['user']}" in words
            expected = first - 1


def test_keys_step_through_rounds_and_events(filmed, page):
    view = RunData(filmed)
    opened = filmed.rounds[filmed.rounds["replica"] == 0]["opened_s"].to_numpy()
    page.js("document.getElementById('replay-stage').focus()")
    page.press("Home")
    assert (text(page, "round"), seconds(text(page, "clock"))) == ("1", 0.0)
    for steps in range(1, 4):
        page.press("ArrowRight")
        assert text(page, "round") == str(steps + 1)
        assert seconds(text(page, "clock")) == pytest.approx(opened[steps], abs=0.06)
    page.press("ArrowLeft")
    assert text(page, "round") == "3"
    times = gathering.recorded_events(view)["time_s"]
    page.press("ArrowRight", shift=True)
    assert seconds(text(page, "clock")) == pytest.approx(times[times > opened[2]].min(), abs=0.06)
    page.press("End")
    assert text(page, "round") == "300"
    assert seconds(text(page, "clock")) == pytest.approx(view.end_s, abs=0.06)


def test_replay_starts_and_stops_on_request(page):
    page.js("document.getElementById('replay-stage').focus()")
    page.press("Home")
    time.sleep(0.3)
    assert seconds(text(page, "clock")) == 0.0
    page.press(" ")
    time.sleep(0.5)
    assert text(page, "play") == "Pause"
    page.press(" ")
    shown = text(page, "clock")
    assert seconds(shown) > 0.0
    time.sleep(0.3)
    assert text(page, "clock") == shown
    assert text(page, "play") == "Play"


def test_reduced_motion_shows_one_frame_per_second(filmed, tmp_path):
    with Browser(tmp_path / "browser", calm=True) as page:
        page.open(filmed.folder / "report.html", READY)
        page.js("document.getElementById('replay-play').click()")
        seen = set()
        for _ in range(15):
            seen.add(text(page, "clock"))
            time.sleep(0.1)
        assert 1 < len(seen) < 6


def test_users_are_coloured_by_accuracy_or_deliveries(filmed, page):
    move(page, 0.7, RunData(filmed).end_s)
    options = page.js("[...document.getElementById('replay-hue').options].map((one) => one.text)")
    assert options == ["accuracy of FedAvg", "accuracy of FED-CVaR-AVG", "number of deliveries"]
    seen = set()
    for value in ("0", "1", "-1"):
        choose(page, "hue", value, "change")
        seen.add(page.js(PIXELS))
    assert len(seen) == 3
    delivered = filmed.deliveries[filmed.deliveries["replica"] == 0]["user"].value_counts()
    events = filmed.events[(filmed.events["kind"] == "delivered") & (filmed.events["replica"] == 0)]
    assert text(page, "high") == str(events["user"].value_counts().max() if len(events) else delivered.max())
    choose(page, "hue", "0", "change")


def test_texts_of_crowded_places_do_not_overlap(page):
    script = files("netfl.report.animation").joinpath("labels.js").read_text(encoding="utf-8")
    rng = np.random.default_rng(4)
    places = np.concatenate([rng.uniform(180, 260, (10, 2)), rng.uniform(20, 400, (12, 2)), [[2.0, 2.0]]])
    texts = [{"at": place, "away": 12, "width": 14} for place in places.tolist()]
    disks = [[*place, 9] for place in places.tolist()]
    call = f"placeTexts({json.dumps(texts)}, {json.dumps(disks)}, 420, 420).map((at) => at ?? null)"
    centres = page.js(f"(() => {{ {script}; return {call}; }})()")
    boxes = np.array([[x - 7, y - 6, x + 7, y + 6] for x, y in filter(None, centres)])
    assert len(boxes) >= 15
    assert boxes.min() >= 0.0
    for number, (left, top, right, bottom) in enumerate(boxes):
        others = boxes[:number]
        apart = (others[:, 0] >= right) | (others[:, 2] <= left) | (others[:, 1] >= bottom) | (others[:, 3] <= top)
        assert apart.all()
        nearest = places.clip([left, top], [right, bottom])
        assert np.hypot(*(nearest - places).T).min() >= 9.0 - 1e-9
    lengths = page.js(f"(() => {{ {script}; return [7600, 1999, 0.3].map(roundLength); }})()")
    assert lengths == pytest.approx([5000, 1000, 0.2])


@pytest.mark.parametrize("width", [420, 1280])
def test_events_are_not_cut(filmed, tmp_path, width):
    with Browser(tmp_path / "browser") as page:
        page.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        page.open(filmed.folder / "report.html", READY)
        move(page, 0.9, RunData(filmed).end_s)
        cut = "[...document.querySelectorAll('#replay-events span')].filter((one) => one.scrollWidth > one.clientWidth)"
        assert page.js(f"{cut}.length") == 0
        assert page.js("document.querySelectorAll('#replay-events li').length") == 14


def test_moving_back_restores_the_picture(filmed, page):
    end_s = RunData(filmed).end_s
    move(page, 0.3, end_s)
    before = page.js(PIXELS)
    move(page, 0.9, end_s)
    assert page.js(PIXELS) != before
    move(page, 0.3, end_s)
    assert page.js(PIXELS) == before


@pytest.mark.parametrize("dark", [False, True])
def test_replay_has_light_and_dark_colours(filmed, tmp_path, dark):
    with Browser(tmp_path / "browser", dark=dark, calm=True) as page:
        page.open(filmed.folder / "report.html", READY)
        page.js("document.getElementById('replay').scrollIntoView({behavior: 'instant'})")
        raw = page.picture(tmp_path / "replay.png").read_bytes()
        colour = page.js("getComputedStyle(document.body).backgroundColor")
        assert page.errors == []
    assert raw.startswith(b"\x89PNG")
    assert struct.unpack(">II", raw[16:24])[0] == 1200
    assert colour == ("rgb(18, 21, 26)" if dark else "rgb(245, 246, 248)")


def test_replay_of_thirty_users_exceeds_30_frames_per_second(tmp_path):
    overrides = {"rounds": 300, "partition.by": "distance", "record": "all"}
    run = netfl.trace(netfl.load(RURAL, overrides), tmp_path / "run")
    report.write(run)
    with Browser(tmp_path / "browser") as page:
        page.open(run.folder / "report.html", READY)
        page.js("document.getElementById('replay').scrollIntoView({behavior: 'instant'})")
        page.js("document.getElementById('replay-play').click()")
        assert max(page.js(FRAMES_PER_S) for _ in range(3)) > 30.0
        assert seconds(text(page, "clock")) > 10.0


def test_replay_of_ten_thousand_users_is_drawn(tmp_path, monkeypatch):
    (tmp_path / "many.yaml").write_text(
        "{name: many, seed: 1, users: 10000, rounds: 5, access: {kind: bernoulli, probability: 0.01}}"
    )
    run = netfl.trace(netfl.load(tmp_path / "many.yaml"), tmp_path / "run")
    monkeypatch.setattr(sections, "access_sections", lambda view: ())
    report.write(run)
    with Browser(tmp_path / "browser") as page:
        page.open(run.folder / "report.html", READY)
        assert text(page, "users") == "of 10\u202f000"
        before = page.js(PIXELS)
        move(page, 0.6, RunData(run).end_s)
        assert page.js(PIXELS) != before
        assert page.errors == []


def test_default_speed_plays_a_run_in_one_minute(filmed, page):
    default = float(page.js("document.getElementById('replay-speed').value"))
    assert RunData(filmed).end_s / default == pytest.approx(60.0, rel=0.05)
    speeds = page.js("[...document.getElementById('replay-speed').options].map((one) => Number(one.value))")
    assert speeds == sorted({*speeds})
    assert min(speeds) < default


@pytest.mark.parametrize("dark", [False, True])
def test_layout_on_a_phone(filmed, tmp_path, dark):
    with Browser(tmp_path / "browser", dark=dark, size=(420, 800)) as page:
        page.ask("Emulation.setDeviceMetricsOverride", width=420, height=800, deviceScaleFactor=1, mobile=True)
        page.open(filmed.folder / "report.html", READY)
        top, bottom, play = page.js(
            "['replay-scene', 'replay-play'].map((id) => document.getElementById(id).getBoundingClientRect())"
            ".flatMap((box, at) => at ? [box.bottom] : [box.top, box.bottom])"
        )
        assert bottom < play < top + 800
        unfocusable = page.js(
            "[...document.querySelectorAll('*')].filter((one) => one.scrollWidth > one.clientWidth + 1 &&"
            " ['auto', 'scroll'].includes(getComputedStyle(one).overflowX) && one.tabIndex < 0)"
            ".map((one) => one.className)"
        )
        assert unfocusable == []
        assert page.js("document.documentElement.scrollWidth") <= 420
        assert page.errors == []
