"""How Sphinx builds the documentation; the reference that is made from the code is written first."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.highlighting import lexers

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import fromcode  # noqa: E402 - it lies beside this file

import netfl  # noqa: E402

fromcode.write(HERE / "reference" / "generated")
lexers["csv"] = TextLexer()  # which Pygments has none of its own for

project = "netfl"
author = "The netfl developers"
release = version = netfl.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["fromcode"]
default_role = "py:obj"
highlight_language = "text"
myst_heading_anchors = 3
smartquotes_action = "qe"  # quotes and ellipses; two hyphens begin an option

nb_execution_mode = "auto"  # notebooks are stored without outputs: those on the pages are of this netfl
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
autodoc_typehints_format = "short"
add_module_names = False
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True
nitpicky = True
nitpick_ignore_regex = [
    (r"py:obj", r".*"),  # a name between backticks that is a key, a kind, or another module's
    (r"py:.*", r"(numpy|np|pandas|pd|matplotlib|networkx|nx|simpy|pydantic|pydantic_core|pathlib|collections)\..*"),
    (
        r"py:.*",
        r"(torch\..*|Augment|NetworkSimulator|Axes|Environment|FigureBase|Over|ComparisonTable|netfl\.report\.paper_tables\..*|netfl\.units\.Unit|ArrayLike|NDArray|Floats|Ints|Bools|Tensor|State|Architecture|LearnerSpec|Reported|Size|Ge|MaxLen|_PydanticGeneralMetadata|Field|FieldInfo|NoneType)",
    ),
    (r"py:.*", r"(TypeAliasForwardRef|PydanticCustomError|annotated_types\..*)"),
    (
        r"py:class",
        r"(pyarrow\..*|SweepIndex|SearchEntry|types\.ModuleType|netfl\.types\.rounds\.RoundBatch|netfl\.results\.metrics\.Metric|netfl\.sweeps\.(plan|index)\..*|tuple\[.*)",
    ),  # what only netfl handles
    (
        r"py:class",
        r"netfl\.(network|learning|simulation)\..*|(netfl\.access\.selection\._observation\.)?Observe|OnlyWith",
    ),  # sections of a scenario, and machinery behind a contract
]

html_theme = "furo"
pygments_dark_style = "github-dark"  # the default underlines names of modules as if they were links
html_title = "netfl"
html_static_path = ["_static"]
html_css_files = ["netfl.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

_ARRAY = re.compile(r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], ~?(?:numpy\.)?dtype\[([^\]]*)\]\]")
_HINT = re.compile(r"~?(?:typing\.|types\.)?Annotated\[(.*?), ~?(?:netfl\.columns\.)?ColumnHint\([^)]*\)\]")
_ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")


def _google(app: Sphinx, what: str, name: str, *told: Any) -> None:
    """Read ``Args:`` and ``Raises:``; in one sentence about an attribute a colon is only a colon."""
    *about, lines = told
    if what not in {"attribute", "data", "property"}:
        lines[:] = GoogleDocstring(lines, Config(napoleon_use_rtype=False), app, what, name, *about).lines()


def _short(*told: Any) -> tuple[str | None, ...]:
    """Arrays, and what is like them, by the names that their annotations have; fields without their columns."""
    return tuple(
        _HINT.sub(r"\1", _ARRAY.sub(r"NDArray[\1]", _ALIAS.sub(r"\1", one))) if one else one for one in told[-2:]
    )


def setup(app: Sphinx) -> None:
    """Connect what docstrings and signatures go through."""
    app.connect("autodoc-process-docstring", _google)
    app.connect("autodoc-process-signature", _short)
