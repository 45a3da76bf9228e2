"""Draw the plots of docs/gallery.md and of the tutorial: the overview of one run each.

    python analysis/gallery.py                     # all; finished runs are drawn again without a new run
    python analysis/gallery.py emergent_cyclic     # some

Runs are in runs/gallery.  Images have at most 256 colours, which keeps the files small.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from PIL import Image

import netfl
from netfl.report import picture
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, parse

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
WIDTH = 1100
"""Width of an image in pixels."""
SHOWN: dict[str, tuple[str, dict[str, object]]] = {
    "rural_outage": ("rural_outage", {"replicas": 10}),
    "emergent_stationary": ("emergent_stationary", {}),
    "emergent_markov": ("emergent_markov", {}),
    "emergent_cyclic": ("emergent_cyclic", {}),
    "closed_loop": ("closed_loop", {}),
    "bursty": ("access/bursty", {}),
    "fig2a": ("paper/fig2a", {"rounds": 2000}),
}
"""Scenario of each plot, and the keys that are set as by `netfl run --set`."""


def scenario_of(name: str) -> netfl.Scenario:
    """Return the scenario of one plot; that of the tutorial is read from its page."""
    if name == "tutorial":
        text = re.findall(r"^```yaml\n(.*?)^```", TUTORIAL.read_text("utf-8"), re.DOTALL | re.MULTILINE)[0]
        return validate(ScenarioDocument(parse(text, TUTORIAL.name), TUTORIAL.name))
    path, settings = SHOWN[name]
    return netfl.load(ROOT / "scenarios" / f"{path}.yaml", settings)


def draw(name: str, runs: Path, out: Path) -> Path:
    """Run the scenario unless its run is finished, and write the plot."""
    folder = runs / name
    if not (folder / "summary.json").exists():
        scenario = scenario_of(name)
        start = netfl.run if scenario.learners else netfl.trace
        start(scenario, folder)
    with Image.open(picture(netfl.open_run(folder))) as drawn:
        small = drawn.convert("RGB").resize(
            (WIDTH, round(drawn.height * WIDTH / drawn.width)), Image.Resampling.LANCZOS
        )
    path = out / f"{name}.png"
    small.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def main() -> None:
    """Parse the arguments and draw the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of tutorial, {', '.join(SHOWN)}; all by default")
    parser.add_argument("--runs", type=Path, default=Path("runs/gallery"), help="folder of the runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/gallery", help="folder of the plots")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or ["tutorial", *SHOWN]:
        path = draw(name, options.runs, options.out)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
