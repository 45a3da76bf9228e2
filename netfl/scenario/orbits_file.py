"""Files of orbits: YAML to a validated `netfl.network.orbits.Orbits`."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from netfl import files
from netfl.core.spec_errors import faults_of
from netfl.errors import ScenarioError
from netfl.network.orbits import Orbits
from netfl.scenario.path_errors import find_place, wrong_path
from netfl.scenario.yaml_document import read_text
from netfl.units import WRITTEN


def load_orbits(path: Path) -> Orbits:
    """Load a constellation and its stations.

    Args:
        path: a YAML file with the keys of `Orbits`.

    Raises:
        ScenarioError: with every error, each located.
        MachineError: the system does not let the file be read.
    """
    if find_place(path) != "scenario":  # the place of all YAML files
        raise ScenarioError([wrong_path(path, "orbits")])
    try:
        document = read_text(files.read_text(path), str(path))
    except (OSError, UnicodeDecodeError) as error:
        files.raise_unreadable(path, error, "give a YAML file in UTF-8")
    if "access" in document.data:
        raise ScenarioError([wrong_path(path, "orbits")])
    try:
        return Orbits.model_validate(document.data, context=WRITTEN)
    except ValidationError as error:
        raise ScenarioError(document.located(faults_of(error))) from None
