"""The code of the documentation runs, and the reference names everything that is public."""

import importlib
import inspect
import re
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
DOC = ROOT / "doc"


def blocks_of(page: str) -> list[tuple[str, str]]:
    """Return language and text of the blocks of a page, those in lists too."""
    fences = r"^( *)```(\w*)\n(.*?)^\1```$"
    found = re.findall(fences, (DOC / page).read_text(), re.DOTALL | re.MULTILINE)
    return [(language, textwrap.dedent(block)) for _, language, block in found]


def run_blocks(page: str) -> dict:
    blocks = [block for language, block in blocks_of(page) if language == "python"]
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(block, names)
    return names


def shown_on(page: str) -> list[str]:
    """Return the lines of the blocks without a language: what a page says that it prints."""
    return "".join(block for language, block in blocks_of(page) if not language).splitlines()


def test_getting_started_prints_what_it_shows(capsys):
    names = assert_prints_what_it_shows("getting_started.md", capsys, rel=0.1, abs=0.1)
    assert names["interval"].shape == (111, 2)
    assert names["quartiles"].shape == (111, 3)
    assert names["samples"].shape == (111, 10)
    assert names["r2"] > 0.2
    assert -6 < names["log_likelihood"] < -5
    assert names["proba"].shape == names["proba_std"].shape == (150, 3)
    assert names["stream"].n_samples_seen_ == 442
    assert names["best"]["hidden_layer_sizes"] in ["auto", (50,), (50, 50)]


def numbers_in(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", line)]


def assert_prints_what_it_shows(page: str, capsys, rel: float = 0.01, abs: float = 0.03) -> dict:
    """Run the code of a page, and hold what it prints to what the page shows."""
    names = run_blocks(page)
    shown, printed = shown_on(page), capsys.readouterr().out.splitlines()
    assert len(shown) == len(printed)
    for ours, theirs in zip(shown, printed, strict=True):
        assert ours.split()[0] == theirs.split()[0]
        assert numbers_in(ours) == pytest.approx(numbers_in(theirs), rel=rel, abs=abs)
    return names


def test_page_of_predictions_prints_what_it_shows(capsys):
    assert_prints_what_it_shows("predictions.md", capsys)


def test_page_of_decisions_prints_what_it_shows(capsys):
    names = assert_prints_what_it_shows("decisions.md", capsys)
    assert len(set(names["ask"])) == 5


def test_page_of_checks_prints_what_it_shows_and_compares_three_models(capsys):
    names = assert_prints_what_it_shows("checking.md", capsys)
    assert 0.8 < names["inside"] < 0.99
    assert 0 < names["off"] < 0.15
    ours, linear = (names["table"][name] for name in ("TAGIRegressor", "BayesianRidge"))
    assert ours[0] > linear[0] - 0.2


def test_page_of_noise_prints_what_it_shows(capsys):
    names = assert_prints_what_it_shows("noise.md", capsys)
    assert names["best_sigma_v"] in (0.3, 0.5, 0.7, 0.9)
    noise = {
        name: np.sqrt(model.predict_variance([[0.1], [0.9]])[1])
        for name, model in names["sensor_models"].items()
    }
    assert noise["constant"][0] == noise["constant"][1]
    assert noise["auto"] == pytest.approx([0.055, 0.455], abs=0.05)


def test_page_of_classes_prints_what_it_shows(capsys):
    assert_prints_what_it_shows("classes.md", capsys)


def test_page_of_groups_covers_new_patients_as_its_table_says(capsys):
    names = assert_prints_what_it_shows("rows.md", capsys)
    text = (DOC / "rows.md").read_text()
    for held_out, (covered, score) in names["honest"].items():
        cells = re.search(rf"^\| {held_out} \| (\d+) % \| (\S+) \|$", text, re.MULTILINE).groups()
        assert 100 * covered == pytest.approx(float(cells[0]), abs=5)
        assert score == pytest.approx(float(cells[1]), abs=0.3)


def test_page_of_settings_prints_what_it_shows(capsys):
    assert_prints_what_it_shows("choices.md", capsys)


def test_page_of_real_tables_prints_what_it_shows(capsys):
    pytest.importorskip("pandas")
    names = run_blocks("tables.md")
    shown, printed = shown_on("tables.md"), capsys.readouterr().out.splitlines()
    assert len(shown) == len(printed) >= 20
    for ours, theirs in zip(shown, printed, strict=True):
        # The unit of dates in an error depends on the version of pandas.
        ours, theirs = (re.sub(r"datetime64\[\w+\]", "", line) for line in (ours, theirs))
        words = [re.sub(r"-?\d+\.?\d*", "", line).split() for line in (ours, theirs)]
        assert words[0] == words[1]
        assert numbers_in(ours) == pytest.approx(numbers_in(theirs), rel=0.1, abs=0.15)
    low, high = names["low"], names["high"]
    assert 0.8 < np.mean((low < names["y_new"]) & (names["y_new"] < high)) < 0.99
    assert np.isfinite(names["scores"]).all()


def test_page_of_deployment_prints_what_it_shows(capsys):
    pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("skops")
    names = run_blocks("deployment.md")
    for found, expected in zip(
        shown_on("deployment.md"), capsys.readouterr().out.splitlines(), strict=True
    ):
        assert found.split(":")[0] == expected.split(":")[0]
    assert abs(names["mean"][:, 0] - names["expected"]).max() < 1e-5 * names["y"].std()
    expected = names["pipe"].named_steps["tagiregressor"]
    expected = expected.predict_interval(names["pipe"][0].transform(names["X"]))
    np.testing.assert_allclose(names["interval"], expected, rtol=1e-4)


MODULES = ["sktagi", "sktagi.metrics", "sktagi.plotting", "sktagi.merging", "sktagi.inspection"]


def public_names(module: str) -> dict:
    names = importlib.import_module(module).__all__
    found = {name: getattr(importlib.import_module(module), name) for name in names}
    return {name: value for name, value in found.items() if not isinstance(value, str)}


@pytest.mark.parametrize("module", [*MODULES, "sktagi.dask", "sktagi.onnx"])
def test_reference_names_everything_public(module):
    if module == "sktagi.onnx":
        pytest.importorskip("skl2onnx")
    reference = (DOC / "api.rst").read_text()
    for name in public_names(module):
        assert re.search(rf"^   {name}$", reference, re.MULTILINE), name


def test_reference_shows_methods_of_base_classes_too():
    template = (DOC / "_templates" / "autosummary" / "class.rst").read_text()
    assert ":inherited-members:" in template  # save, load, sample_functions


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_name_every_parameter_and_show_an_example(module):
    for name, value in public_names(module).items():
        doc = inspect.getdoc(value)
        assert "Examples\n--------\n>>> " in doc, name
        if not inspect.isclass(value) and not inspect.isfunction(value):
            continue  # a scorer
        documented = {name: value}
        for method, function in inspect.getmembers(value, inspect.isroutine):
            if not method.startswith("_") and str(function.__module__).startswith("sktagi"):
                documented[f"{name}.{method}"] = function
        for path, function in documented.items():
            for parameter in inspect.signature(function).parameters:
                pattern = rf"^(\w+, )*\**{parameter}(, \w+)* : "
                if parameter != "self":
                    text = inspect.getdoc(function)
                    assert re.search(pattern, text, re.MULTILINE), (path, parameter)


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *DOC.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith(("http", "auto_examples/")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
            elif target.startswith("auto_examples/plot_"):
                name = Path(target).stem
                assert (ROOT / "examples" / f"{name}.py").exists(), f"{page.name}: {target}"


def test_commits_that_pages_name_are_in_the_history():
    def git(*command):
        return subprocess.run(
            ["git", "-C", str(ROOT), *command], capture_output=True, text=True, check=False
        )

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("this is not a clone with the history")
    named = {
        commit
        for page in DOC.glob("*.md")
        for commit in re.findall(r"(?:commit|code of|of|\|) ([0-9a-f]{7})\b", page.read_text())
        if re.search("[a-f]", commit) and re.search("[0-9]", commit)
    }
    assert named
    missing = [c for c in named if git("merge-base", "--is-ancestor", c, "HEAD").returncode]
    assert not missing


PAGES = [ROOT / "README.md", *sorted(DOC.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_rows_of_a_table_have_the_columns_of_its_header(page):
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE):
        header, *rows = table.splitlines()
        for row in rows:
            assert row.count("|") == header.count("|"), row


def test_tree_of_the_developer_guide_is_the_folder():
    tree = (DOC / "development.md").read_text().split("```text\n")[1].split("```")[0]
    named = re.findall(r"^ +(\w+\.py) ", tree, re.MULTILINE)
    package = ROOT / "sktagi"
    found = [
        path.name
        for folder in (package, package / "engine", package / "tables")
        for path in folder.glob("*.py")
    ]
    left_out = {"__init__.py", "_version.py"}
    assert sorted(named) == sorted(name for name in found if name not in left_out)


def test_every_example_has_a_place_in_the_gallery():
    index = (ROOT / "examples" / "index.rst").read_text()
    shown = re.findall(r"^   \.\./examples/(\w+)\.py$", index, re.MULTILINE)
    listed = re.findall(r"^   (\w+)$", index, re.MULTILINE)
    assert shown == listed
    assert sorted(shown) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
