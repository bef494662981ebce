"""What the README shows works."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_python_blocks_of_the_readme_run(capsys):
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^( *)```python\n(.*?)```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    names: dict = {}
    for indent, block in blocks:
        exec(re.sub(f"^{indent}", "", block, flags=re.MULTILINE), names)
    assert names["mean"].shape == names["std"].shape == names["low"].shape
    assert (names["std"] > 0).all()
    assert -7 < float(capsys.readouterr().out) < -4


def test_readme_opens_with_the_two_commands():
    first, second = re.search(r"```bash\n(.*?)\n```", (ROOT / "README.md").read_text(), re.S)[
        1
    ].splitlines()
    assert (ROOT / first.split()[-1]).exists()
    assert second.endswith("-m pytest")


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_quick_start_shows_both_models_with_scores(capsys):
    runpy.run_path(str(ROOT / "examples" / "quick_start.py"), run_name="__main__")
    out = capsys.readouterr().out
    rmse, mlp_rmse = map(float, re.search(r"RMSE +([\d.]+) +([\d.]+)", out).groups())
    log_lik, mlp_log_lik = map(
        float, re.search(r"log-likelihood +(-[\d.]+) +(-[\d.]+)", out).groups()
    )
    assert rmse < 1.1 * mlp_rmse
    assert log_lik > mlp_log_lik - 0.05
