"""Draw the pictures of docs/gallery.md and of the tutorial: one run each, as `netfl report` pictures it.

    python analysis/gallery.py                     # all; runs that are there already are pictured again, not run again
    python analysis/gallery.py emergent_cyclic     # some

Runs are in runs/gallery.  Pictures have few colours, so that they take little room.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from PIL import Image

import netfl
from netfl.report import picture
from netfl.scenario.scenario import checked
from netfl.scenario.yaml_document import ScenarioDocument, parse, plain_value

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
WIDTH = 1100
"""Pixels of a picture from left to right."""
SHOWN: dict[str, tuple[str, dict[str, object]]] = {
    "emergent_stationary": ("emergent_stationary", {}),
    "emergent_markov": ("emergent_markov", {}),
    "emergent_cyclic": ("emergent_cyclic", {}),
    "closed_loop": ("closed_loop", {}),
    "bursty": ("access/bursty", {}),
    "fig2a": ("paper/fig2a", {"rounds": 2000}),
}
"""Each picture's scenario, and what is said otherwise; `netfl run --set` says the same."""


def scenario_of(name: str) -> netfl.Scenario:
    """The scenario of one picture; that of the tutorial stands in its page."""
    if name == "tutorial":
        text = re.findall(r"^```yaml\n(.*?)^```", TUTORIAL.read_text("utf-8"), re.DOTALL | re.MULTILINE)[0]
        return checked(ScenarioDocument(plain_value(parse(text, TUTORIAL.name)), TUTORIAL.name))
    path, said = SHOWN[name]
    return netfl.load(ROOT / "scenarios" / f"{path}.yaml", said)


def draw(name: str, runs: Path, out: Path) -> Path:
    """Run what is not there yet, and write the picture."""
    folder = runs / name
    if not (folder / "summary.json").exists():
        said = scenario_of(name)
        start = netfl.run if said.learners else netfl.trace
        start(said, folder)
    with Image.open(picture(netfl.open_run(folder))) as drawn:
        small = drawn.convert("RGB").resize(
            (WIDTH, round(drawn.height * WIDTH / drawn.width)), Image.Resampling.LANCZOS
        )
    path = out / f"{name}.png"
    small.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def main() -> None:
    """Read the command line, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of tutorial, {', '.join(SHOWN)}; all if none is named")
    parser.add_argument("--runs", type=Path, default=Path("runs/gallery"), help="where the runs are")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/gallery", help="where the pictures go")
    said = parser.parse_args()
    said.out.mkdir(parents=True, exist_ok=True)
    for name in said.names or ["tutorial", *SHOWN]:
        path = draw(name, said.runs, said.out)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
