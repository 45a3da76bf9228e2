"""Descriptions of keys: the docstrings below fields, wherever the class stands, with those of its bases."""

import subprocess
import sys

from netfl.core.descriptions import key_descriptions
from netfl.core.spec import Spec


class Base(Spec):
    first: int = 1
    """Of the base."""
    second: int = 2
    """Of the base,
    in two lines."""


class Derived(Base):
    class Inner(Spec):
        first: int = 3
        """Of the inner class."""

    second: int = 4
    """Of the derived class."""
    third: int = 5
    fourth: int = 6

    def method(self):
        """Not of a field."""


def test_own_and_inherited_docstrings_describe_keys():
    assert key_descriptions(Base) == {"first": "Of the base.", "second": "Of the base,\nin two lines."}
    assert key_descriptions(Derived) == {"first": "Of the base.", "second": "Of the derived class."}


def test_classes_of_one_name_are_told_apart():
    class Inner(Spec):
        first: int = 3
        """Of the local class."""

    assert key_descriptions(Inner) == {"first": "Of the local class."}
    assert key_descriptions(Derived.Inner) == {"first": "Of the inner class."}


def test_a_class_without_source_has_the_descriptions_of_its_bases():
    made = type("Made", (Base,), {"__module__": "__main__", "__annotations__": {"more": int}, "more": 1})
    assert key_descriptions(made) == key_descriptions(Base)


def test_the_start_reads_no_docstrings():
    """To read those of all models took as long as the rest of the start."""
    code = """
import netfl
from netfl.core.descriptions import key_descriptions

netfl.load("rural_outage")
print(key_descriptions.cache_info().misses)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"
