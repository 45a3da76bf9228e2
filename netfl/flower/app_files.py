"""Flower apps by name: a module with its ServerApp and ClientApp, or the folder of a Flower project."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from netfl.core.plugins import PluginError, import_plugin
from netfl.errors import Fault, ScenarioError, suggest

Config = dict[str, bool | float | int | str]

_NAMES = {"server": ("server_app", "server", "app"), "client": ("client_app", "client", "app")}
"""Attributes of a module that may be the app, in this order."""
_KINDS: dict[str, type] = {"server": ServerApp, "client": ClientApp}
_KEY = "--app"
_CONFIG_KEY = "--run-config"


@dataclass(frozen=True)
class FlowerApp:
    """A ServerApp and a ClientApp.

    Args:
        name: what the user wrote.
        server: the ServerApp.
        client: the ClientApp.
        config: the default run config.
    """

    name: str
    server: ServerApp
    client: ClientApp
    config: Config = field(default_factory=dict)


def load_app(name: str, run_config: Sequence[str] = ()) -> FlowerApp:
    """Load an app.

    Args:
        name: ``package.module`` with the attributes ``server_app`` and ``client_app``; ``package.module:server,client``
            with other attributes; ``package`` with the modules ``server_app`` and ``client_app``, each with the
            attribute ``app``; or the folder of a Flower project, whose ``pyproject.toml`` names both.
        run_config: assignments ``key=value`` with TOML values, several in one text as Flower writes them; or the path
            of one TOML file.

    Raises:
        ScenarioError: the app cannot be loaded, or a key of the config does not exist.
    """
    folder = Path(name)
    config: Config = {}
    if (folder / "pyproject.toml").is_file():
        components, config = _read_project(folder)
        sys.path.insert(0, str(folder.resolve()))
        server = _import(components["serverapp"], "serverapp")
        client = _import(components["clientapp"], "clientapp")
    elif folder.is_dir() and folder.as_posix() != name.replace(".", "/"):  # which may be the folder of a package
        raise _error("this folder has no pyproject.toml", name, "give the folder of a Flower project, or a module")
    else:
        server, client = _import_apps(name)
    for app, kind in ((server, ServerApp), (client, ClientApp)):
        if not isinstance(app, kind):
            raise _error(f"{type(app).__name__} in place of a {kind.__name__}", name, "name the right attribute")
    return FlowerApp(name, server, client, config | _overrides(run_config, config))


def _import_apps(name: str) -> tuple[Any, Any]:
    """Return the ServerApp and the ClientApp of ``package.module``, or of ``package.module:server,client``."""
    module, colon, attributes = name.partition(":")
    if not colon:
        return _find(module, "server"), _find(module, "client")
    parts = [part.strip() for part in attributes.split(",")]
    if len(parts) != 2 or not all(parts):
        raise _error("not of the form module:server,client", name, "name two attributes of the module")
    server, client = parts
    return _import(f"{module}:{server}", module), _import(f"{module}:{client}", module)


def _read_project(folder: Path) -> tuple[dict[str, str], Config]:
    """Return the components and the config of the project in *folder*."""
    path = folder / "pyproject.toml"
    try:
        app = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]
        components = {part: str(app["components"][part]) for part in ("serverapp", "clientapp")}
        return components, _flat(app.get("config", {}), _KEY)
    except ValueError as error:  # no UTF-8, or no TOML
        raise _error(f"{path} cannot be read: {error}", None, "correct it") from error
    except (KeyError, TypeError) as error:
        remedy = "give [tool.flwr.app.components] with serverapp and clientapp"
        raise _error(f"{path} describes no Flower app: {error} is missing", None, remedy) from error


def _flat(config: Mapping[str, Any], key: str, prefix: str = "") -> Config:
    """Return a config whose nested keys are joined by dots, as Flower does; errors have the place *key*."""
    flat: Config = {}
    for part, value in config.items():
        name = f"{prefix}{part}"
        if isinstance(value, Mapping):
            flat |= _flat(value, key, f"{name}.")
        elif isinstance(value, bool | float | int | str):
            flat[name] = value
        else:
            problem = f"the value of {name} in the run config has a wrong type"
            raise ScenarioError([Fault(key, problem, value, "give a number, a text or a boolean")])
    return flat


def _overrides(texts: Sequence[str], config: Config) -> Config:
    """Return the values that *texts* assign; where the app has a config, it must have these keys."""
    files = [text for text in texts if text.endswith(".toml") and "=" not in text]
    if not files:
        changes = _assignments(texts)
    elif len(texts) == 1:
        changes = _read_run_config(Path(files[0]))
    else:
        remedy = "give one file, or assignments"
        raise ScenarioError([Fault(_CONFIG_KEY, "a file stands alone, as in Flower", files[0], remedy)])
    unknown = [key for key in changes if config and key not in config]
    if unknown:
        raise ScenarioError([Fault(_CONFIG_KEY, "no such key", key, suggest(key, [*config])) for key in unknown])
    return changes


def _read_run_config(path: Path) -> Config:
    """Return the values of a TOML file."""
    try:
        return _flat(tomllib.loads(path.expanduser().read_text(encoding="utf-8")), _CONFIG_KEY)
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
    except ValueError as error:  # no UTF-8, or no TOML
        problem = f"cannot be read: {error}"
    raise ScenarioError([Fault(_CONFIG_KEY, problem, str(path), "give a TOML file with the keys of the run config")])


def _assignments(texts: Sequence[str]) -> Config:
    """Return the values of assignments ``key=value``."""
    changes: Config = {}
    for text in texts:
        for assignment in _split(text):
            key, equals, value = assignment.partition("=")
            if not (key and equals):
                remedy = "write for example --run-config num-server-rounds=10"
                raise ScenarioError([Fault(_CONFIG_KEY, "not of the form KEY=VALUE", assignment, remedy)])
            changes[key] = _value(value)
    return changes


def _split(text: str) -> list[str]:
    """Split a text at its blanks outside quotes.

    >>> _split("a=1 b='x y'")
    ['a=1', "b='x y'"]
    """
    parts = [""]
    quote = ""  # the mark of the quotation that is open
    for letter in text:
        if quote:
            if letter == quote:
                quote = ""
        elif letter in "'\"":
            quote = letter
        if letter.isspace() and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]


def _value(text: str) -> bool | float | int | str:
    """Return a TOML value; what is not one is a string."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    if isinstance(value, bool | float | int | str):
        return value
    return text


def _find(module: str, part: str) -> Any:
    """Return the app of *module*, or of its module ``server_app`` or ``client_app``."""
    _import(f"{module}:__name__", module)
    kind = _KINDS[part]
    attributes = vars(sys.modules[module])
    for name in _NAMES[part]:
        app = attributes.get(name)
        if isinstance(app, kind):
            return app
    is_package = hasattr(sys.modules[module], "__path__")
    inner = f"{module}.{part}_app"
    if is_package and find_spec(inner) is not None:
        return _import(f"{inner}:app", module)
    remedy = f"name it {part}_app, or write {module}:SERVER,CLIENT with the names of both apps"
    raise _error(f"the module has no {kind.__name__}", module, remedy)


def _import(name: str, shown: str) -> Any:
    """Import what ``package.module:attribute`` names; the current folder is searched, too."""
    try:
        return import_plugin(name)
    except PluginError as error:
        raise _error(error.problem, shown, error.remedy) from error


def _error(problem: str, value: object, remedy: str) -> ScenarioError:
    return ScenarioError([Fault(_KEY, problem, value, remedy)])
