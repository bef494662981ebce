"""What the README and the examples show works."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_python_blocks_of_the_readme_run(capsys):
    blocks = re.findall(r"^( *)```python\n(.*?)```", README, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    names: dict = {}
    for indent, block in blocks:
        exec(re.sub(f"^{indent}", "", block, flags=re.MULTILINE), names)
    assert names["mean"].shape == names["std"].shape == names["low"].shape
    assert (names["std"] > 0).all()
    assert -7 < float(capsys.readouterr().out) < -4


def test_readme_opens_with_the_two_commands():
    block = re.search(r"```.*?\n(.*?)\n```", README, re.DOTALL)[1]
    first, second = block.splitlines()
    assert (ROOT / first.split()[-1]).exists()
    assert second.endswith("-m pytest -n 2")


def test_figures_of_the_readme_are_those_of_the_results():
    header, _, ours = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.search(r"(\| \| boston.*\n.*\n.*)", README)[1].splitlines()
    )
    results = (ROOT / "doc" / "results.md").read_text()
    for name, cell in zip(header[1:], ours[1:], strict=True):
        rmse, log_lik = cell.split("/")
        row = rf"\| {name} \| {rmse} ± \S+ \| {log_lik} ± "
        assert re.search(row, results), name


def test_quick_start_shows_scores_beside_those_of_the_mlp(capsys):
    runpy.run_path(str(ROOT / "examples" / "quick_start.py"), run_name="__main__")
    out = capsys.readouterr().out
    row = r"^  {} +([\d.]+) +(-[\d.]+) +(\d+) %$"
    for name, rtol in (("TAGIRegressor", 0.01), ("MLPRegressor", 0.03)):
        found, shown = (
            [float(value) for value in re.search(row.format(name), text, re.MULTILINE).groups()]
            for text in (out, README)
        )
        assert found[:2] == pytest.approx(shown[:2], rel=rtol)
        assert found[2] == pytest.approx(shown[2], abs=2)


def test_extrapolation_example_draws_what_it_says(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    picture = tmp_path / "picture.png"
    monkeypatch.setattr("sys.argv", ["plot_extrapolation.py", str(picture)])
    runpy.run_path(str(ROOT / "examples" / "plot_extrapolation.py"), run_name="__main__")
    assert picture.stat().st_size > 10_000
    out = capsys.readouterr().out
    one, ten = re.findall(r"is ([\d.]+) and ([\d.]+) times", out)
    assert list(map(float, one)) == pytest.approx([1.8, 1.2], abs=0.3)
    assert list(map(float, ten)) == pytest.approx([4.5, 4.0], abs=0.7)
    far = re.findall(r"is ([\d.]+) and ([\d.]+) std off", out)
    assert np.array(far, dtype=float) == pytest.approx(np.array([[16, 16], [5, 6]]), abs=1)
