"""The commands that compare two states of the package: of a checkout with itself, and a change."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks" / "__main__.py").exists():
    pytest.skip("the benchmarks are part of a checkout only", allow_module_level=True)
sys.path.insert(0, str(ROOT))
from benchmarks import agreement, house, versus  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402
from benchmarks.checkouts import Checkout, package_folder  # noqa: E402


def cells(out: str) -> dict[str, list[str]]:
    """The rows of printed tables, by their first cell."""
    rows = [line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows}


@pytest.fixture
def changed(tmp_path) -> Path:
    """A checkout whose networks report a little more noise, and whose classifier is broken."""
    shutil.copytree(ROOT / "sktagi", tmp_path / "sktagi")
    with (tmp_path / "sktagi" / "__init__.py").open("a") as file:
        file.write(
            "\n\ndef _noisier(self, X):\n    epistemic, aleatoric = _variance(self, X)\n"
            "    return epistemic, aleatoric * (1 + 1e-9)\n\n\n"
            "_variance = TAGIRegressor.predict_variance\n"
            "TAGIRegressor.predict_variance = _noisier\n"
            "TAGIClassifier.predict_proba = None\n"
        )
    return tmp_path


def test_a_checkout_agrees_with_itself(capsys):
    main(["agreement", "--before", str(ROOT), "--configurations", "6"])
    out = capsys.readouterr().out
    assert "6 of 6 are equal to the last bit" in out
    assert set(cells(out)["all"]) <= {"0", "0 |", ""}
    assert "worst" not in out


def test_a_change_is_found_with_its_size_and_its_configuration(capsys, changed):
    numbers = [number for number in range(40) if is_plain(agreement.configuration(0, number))]
    regressors = [n for n in numbers if is_regressor(n)][:2]
    classifier = next(n for n in numbers if not is_regressor(n))
    only = [str(number) for number in (*regressors, classifier)]
    main(["agreement", "--before", str(changed), "--only", *only])
    out = capsys.readouterr().out
    assert "0 of 3 are equal to the last bit" in out
    assert any("1.0e-09" in cell for cell in cells(out)["aleatoric"])
    assert not any("e-" in cell for cell in cells(out)["mean"])
    assert f"Configuration {classifier}: before, TypeError" in out
    assert "and now, nothing is raised" in out


def is_plain(c) -> bool:
    return c["data"]["errors"] == "none" and c["data"]["dtype"] == "float64"


def is_regressor(number: int) -> bool:
    return agreement.configuration(0, number)["estimator"] == "TAGIRegressor"


def test_configurations_do_not_depend_on_their_number_of_calls():
    assert agreement.configuration(3, 17) == agreement.configuration(3, 17)
    assert agreement.configuration(3, 17) != agreement.configuration(4, 17)


def test_differences_are_relative_to_the_array_and_see_what_is_not_a_number():
    a = np.array([4.0, 0.0, np.nan])
    assert agreement.difference("mean", a, a.copy()) == 0
    assert agreement.difference("mean", a, a + np.array([0, 1, 0])) == 0.25
    assert agreement.difference("mean", a, np.nan_to_num(a)) == np.inf
    assert agreement.difference("mean", a, a[:2]) == np.inf
    assert agreement.difference("mean", a, a.astype(np.float32)) == np.inf
    assert agreement.difference("coefs_", [a, 2 * a], [a, a]) == 0.5
    assert agreement.difference("log_likelihood", np.array(0.1), np.array(0.2)) == 0.1


def test_versus_times_both(capsys, monkeypatch):
    monkeypatch.setattr(versus, "PROCESSES", 1)
    main(["versus", "--before", str(ROOT), "--cases", "b10", "stream", "--repeats", "2"])
    rows = cells(capsys.readouterr().out)
    for case in ("b10", "stream"):
        before, now, ratio, quartiles, processor = rows[versus.CASES[case][0]]
        assert before.endswith(" ms")
        assert now.endswith(" ms")
        assert 0.01 < float(ratio) < 100
        assert " to " in quartiles
        assert float(processor.strip(" |")) > 0


def test_imports_are_timed_in_a_fresh_process(tmp_path):
    wall, processor = versus.importing(ROOT, str(tmp_path))
    assert 0 < processor < 10
    assert 0 < wall < 10


def test_pairs_take_turns():
    calls = []

    def timed(name):
        return lambda: calls.append(name) or (1.0 + (name[0] == "n"), 1.0)

    pairs = [(timed(f"before {k}"), timed(f"now {k}")) for k in range(2)]
    taken = versus.in_turn(pairs, 4)
    assert taken.shape == (4, 2, 2)
    assert (taken[:, 0, 0] == 1).all()
    assert (taken[:, 1, 0] == 2).all()
    order = ["before 0", "now 0", "now 1", "before 1"]
    assert calls[4:] == order * 2


def test_house_prints_its_numbers(capsys):
    main(["house"])
    rows = cells(capsys.readouterr().out)
    for what in ("fit: distinct calls across files", "partial_fit: files"):
        assert int(rows[what][0].strip(" |")) > 0
    assert rows["engine: swapaxes"][0].strip(" |").isdigit()
    assert "attributes of Units" in rows
    assert " of " in rows["engine: parameters without annotation"][0]


def test_what_house_counts():
    text = (
        '"""Doc\nstring."""\n\nx = 1  # one\n# two\n\n\n'
        'def f(a, b: int = (\n    0\n), *c):\n    """D."""\n'
    )
    assert house.lines(text) == (11, 4)
    tree = {"engine/a.py": house.ast.parse(text)}
    assert house.parameters(tree) == (2, 3)
    tree["engine/b.py"] = house.ast.parse(
        "class Units:\n    a: int\n    b = c = 1\n"
        "    def set(self):\n        self.d, e = self.a, 1\n"
        "def turned(a):\n    '''Turn.'''\n    return a.swapaxes(-1, -2)\n"
        "turned(x).T + transposed(y) @ np.swapaxes(z, 0, 1)\n"
    )
    assert house.most_attributes(tree) == (4, "4 (Units in engine/b.py)")
    assert list(house.transpositions(tree).items()) == [
        ("swapaxes", 2), (".mT", 0), (".T", 1), ("transposed(), turned()", 2),
        ("other turns of axes", 0),
    ]  # fmt: skip


def test_a_folder_without_the_package_is_refused(tmp_path):
    for command in (["house", "--source"], ["agreement", "--before"], ["versus", "--before"]):
        with pytest.raises(SystemExit, match=r"no sktagi/__init__\.py"):
            main([*command, str(tmp_path)])


def test_an_error_in_the_other_process_is_told():
    with Checkout(ROOT) as checkout:
        assert checkout.call(package_folder) == str(ROOT / "sktagi")
        with pytest.raises(RuntimeError, match="KeyError: 'nothing'"):
            checkout.call(versus.run, "nothing")
        assert checkout.call(package_folder) == str(ROOT / "sktagi")
