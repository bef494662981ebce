"""The glossary of doc/method.md names what is in the code."""

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "doc" / "method.md"


def glossary() -> list[str]:
    """Return the names of the second column of the glossary's table."""
    section = PAGE.read_text().split("## Glossary")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[2])]


def is_there(name: str) -> bool:
    """Tell whether an engine module has a name, or a class of it an attribute."""
    module, *path = name.split(".")
    found = import_module(f"sktagi.engine.{module}")
    for part in path[:-1]:
        found = getattr(found, part)
    last = path[-1]
    # An attribute that is only set in __init__ stands there as self.<name>.
    in_init = f"self.{last}" in _source_of_init(found)
    return hasattr(found, last) or last in getattr(found, "__annotations__", {}) or in_init


def _source_of_init(found: object) -> str:
    code = getattr(getattr(found, "__init__", None), "__code__", None)
    return " ".join(f"self.{name}" for name in code.co_names) if code else ""


def test_the_glossary_has_names():
    assert len(glossary()) > 20


@pytest.mark.parametrize("name", glossary())
def test_every_name_of_the_glossary_exists(name):
    assert is_there(name)


@pytest.mark.parametrize("name", ["passes.Units.rho", "passes.rho", "posterior.Layer.mean"])
def test_a_name_that_is_gone_is_noticed(name):
    assert not is_there(name)
