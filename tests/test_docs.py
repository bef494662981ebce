"""The code of the documentation runs, and the reference names everything that is public."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
DOC = ROOT / "doc"


def run_blocks(page: str) -> dict:
    blocks = re.findall(
        r"^```python\n(.*?)^```", (DOC / page).read_text(), re.DOTALL | re.MULTILINE
    )
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(block, names)
    return names


def test_getting_started_runs():
    names = run_blocks("getting_started.md")
    assert names["interval"].shape == (111, 2)
    assert names["quartiles"].shape == (111, 3)
    assert names["samples"].shape == (111, 10)
    assert names["r2"] > 0.2
    assert -6 < names["log_likelihood"] < -5
    assert names["proba"].shape == names["proba_std"].shape == (150, 3)
    assert names["stream"].n_samples_seen_ == 442
    assert names["best"]["hidden_layer_sizes"] in [(50,), (50, 50)]


def test_guide_runs_and_compares_three_models_by_three_scores():
    names = run_blocks("guide.md")
    assert 0.8 < names["inside"] < 0.99
    assert 0 < names["off"] < 0.15
    assert names["best_sigma_v"] in (0.3, 0.5, 0.7, 0.9)
    table = names["table"]
    ours, linear = table["TAGIRegressor"], table["BayesianRidge"]
    assert ours[0] > linear[0] - 0.2
    text = (DOC / "guide.md").read_text()
    shown = re.findall(r"^(\w+) +(-\d+\.\d+) +(-\d+\.\d+) +(-\d+\.\d+)$", text, re.MULTILINE)
    assert [row[0] for row in shown] == list(table)
    for name, *values in shown:
        np.testing.assert_allclose(np.array(values, dtype=float), table[name], rtol=0.02)


@pytest.mark.parametrize("module", ["sktagi", "sktagi.metrics", "sktagi.plotting"])
def test_reference_names_everything_public(module):
    try:
        public = importlib.import_module(module).__all__
    except ModuleNotFoundError:
        pytest.skip(f"{module} needs matplotlib")
    reference = (DOC / "api.rst").read_text()
    for name in public:
        assert re.search(rf"\b{name}\b", reference), name


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *DOC.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith(("http", "auto_examples/")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
            elif target.startswith("auto_examples/plot_"):
                name = Path(target).stem
                assert (ROOT / "examples" / f"{name}.py").exists(), f"{page.name}: {target}"
