"""What surrounds the package says the same everywhere, and can be read by those it is for."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import sktagi

ROOT = Path(__file__).parents[1]
if not (ROOT / ".github").exists():  # neither is it part of an sdist
    pytest.skip("this is not a checkout", allow_module_level=True)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def read(path: str) -> dict:
    return pytest.importorskip("yaml").safe_load((ROOT / path).read_text())


def test_one_version_everywhere():
    citation, changelog = read("CITATION.cff"), (ROOT / "CHANGELOG.md").read_text()
    assert citation["version"] == sktagi.__version__
    newest = re.search(r"^## (\S+) \((.*)\)$", changelog, re.MULTILINE)
    assert newest[1] == sktagi.__version__
    assert citation.get("date-released", "unreleased") == newest[2]


def test_citation_is_that_of_the_paper():
    citation = read("CITATION.cff")
    assert citation["license"] == PROJECT["project"]["license"]
    paper = citation["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == ["Goulet", "Nguyen", "Amiri"]
    assert paper["url"] in PROJECT["project"]["urls"].values()


def test_workflows_run_sessions_that_exist_on_three_systems():
    sessions = re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    tests = read(".github/workflows/tests.yml")["jobs"]
    assert set(tests["sessions"]["strategy"]["matrix"]["session"]) <= set(sessions)
    matrix = tests["tests"]["strategy"]["matrix"]
    assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
    oldest, newest = matrix["include"]
    assert f">={oldest['python']}" == PROJECT["project"]["requires-python"]
    assert newest["requirement"] == "scikit-learn"
    lowest = re.search(r"scikit-learn>=([\d.]+)", " ".join(PROJECT["project"]["dependencies"]))[1]
    assert oldest["requirement"] == f"scikit-learn=={lowest}.*"
    release = read(".github/workflows/release.yml")["jobs"]
    assert release["publish"]["needs"] == "build"
    assert release["publish"]["permissions"] == {"id-token": "write"}
    commands = [step.get("run", "") for step in release["build"]["steps"]]
    assert any("nox -s wheel" in command for command in commands)


def test_hooks_have_the_versions_of_the_dev_extra():
    hooks = read(".pre-commit-config.yaml")["repos"][0]["hooks"]
    asked = {tool for hook in hooks for tool in hook["additional_dependencies"]}
    assert len(asked) == 2
    assert asked <= set(PROJECT["project"]["optional-dependencies"]["dev"])


@pytest.fixture
def check_links():
    spec = importlib.util.spec_from_file_location("check_links", ROOT / "doc" / "check_links.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_checker_of_links_finds_what_leads_nowhere(tmp_path, check_links):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "there.html").write_text(
        '<h1 id="one">One</h1><a href="../a.html">a</a>'
    )
    good = [
        "folder/there.html",
        "folder/there.html#one",
        "#here",
        "https://example.org/x",
        "a.html",
    ]
    links = "".join(f'<a href="{link}">x</a>' for link in good)
    page = tmp_path / "a.html"
    page.write_text(f'<p id="here">{links}</p>')
    assert check_links.problems(tmp_path) == []
    bad = ["gone.html", "folder/there.html#two", "#nowhere", "../outside.html"]
    links = "".join(f'<a href="{link}">x</a>' for link in bad)
    page.write_text(f'{links}<script src="https://example.org/x.js"></script><img src="no.png">')
    check_links.page_of.cache_clear()
    found = check_links.problems(tmp_path)
    assert [line.split(": ")[1].split()[0] for line in found] == [
        *bad, "https://example.org/x.js", "no.png"
    ]  # fmt: skip
