"""Each number in the text of an example is one that it prints, or a setting of its code."""

import ast
import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NUMBER = r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)"
# What is quoted and neither printed nor a setting of the code, and why it may be.
ELSEWHERE: dict[str, dict[str, str]] = {
    "quick_start.py": {"442": "the rows of the data set"},
    "plot_reject.py": {"10": "the number of digits", "2.3": "its logarithm"},
}


def text_of(source: str) -> str:
    """Return what an example says: its docstring, and its comments that become text."""
    blocks = re.findall(r"^# %%\n((?:#.*\n)*)", source, re.MULTILINE)
    said = "\n".join([ast.get_docstring(ast.parse(source)) or "", *blocks])
    of_the_paper = r"Eq\. \d+(\W\d+)?(,? (and|or) \d+)?|Figure \d+"
    return re.sub(rf"``.*?``|:\w+:`.*?`|{of_the_paper}", " ", said, flags=re.DOTALL)


def numbers(text: str) -> list[str]:
    return re.findall(NUMBER, text)


def settings(source: str) -> set[float]:
    """Return the numbers of the code, and the same as percentages."""
    constants = {
        float(node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and type(node.value) in (int, float)
    }
    return constants | {100 * value for value in constants if 0 < value < 1}


def to_find(name: str) -> list[str]:
    """Return the quoted numbers that the output has to show."""
    source = (EXAMPLES / name).read_text()
    known = settings(source)
    said = numbers(text_of(source))
    allowed = ELSEWHERE.get(name, {})
    return [n for n in said if n not in allowed and abs(float(n)) not in known]


def is_printed(quoted: str, printed: list[str]) -> bool:
    """Tell whether a printed number is the quoted one, up to one unit of its last digit or 3 %.

    Rounding errors differ between machines, and training makes them larger.
    """
    unit = 10.0 ** -len(quoted.partition(".")[2])
    most = max(unit * 1.001, 0.03 * abs(float(quoted)))
    return any(abs(float(quoted) - float(value)) <= most for value in printed)


QUOTING = [path.name for path in sorted(EXAMPLES.glob("*.py")) if to_find(path.name)]


@pytest.mark.parametrize("name", QUOTING)
def test_numbers_of_the_text_are_printed(name, capsys, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr("sys.argv", [name])
    monkeypatch.setattr(plt, "show", lambda: None)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    plt.close("all")
    printed = re.findall(r"-?\d+(?:\.\d+)?", capsys.readouterr().out)
    missing = [quoted for quoted in to_find(name) if not is_printed(quoted, printed)]
    assert not missing, missing


def test_a_number_that_is_not_printed_is_noticed():
    assert numbers("84 % of rows, 1e3, v2, -0.5 and ±6 (6x)") == ["84", "-0.5", "6"]
    assert is_printed("84", ["0.1", "86.4"])
    assert not is_printed("84", ["87", "0.84"])
    assert is_printed("0.07", ["0.067"])


def test_exceptions_are_needed():
    for name, allowed in ELSEWHERE.items():
        assert set(allowed) <= set(numbers(text_of((EXAMPLES / name).read_text()))), name
