"""The benchmarks' command line, on made-up data: runs, interrupts, resumes, reports, refuses."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks" / "__main__.py").exists():
    pytest.skip("the benchmarks are part of a checkout only", allow_module_level=True)
sys.path.insert(0, str(ROOT))
from benchmarks import (  # noqa: E402
    class_streams,
    classes_methods,
    classes_rows,
    decisions,
    defaults,
    distribution_rows,
    floors,
    landing,
    methods,
    tables,
    tables_methods,
    uci,
)
from benchmarks.__main__ import COMMANDS, main  # noqa: E402
from benchmarks.data import _from_openml, load_uci  # noqa: E402
from benchmarks.harness import Progress  # noqa: E402
from benchmarks.methods import SIGMA_V_GRID  # noqa: E402
from benchmarks.published import PAPER  # noqa: E402
from sktagi import TAGIRegressor  # noqa: E402

UCI_OPTIONS = ["--sets", "boston", "yacht", "--splits", "2", "--methods", "default", "paper"]


def start(*arguments, cwd, **options) -> subprocess.Popen:
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *map(str, arguments)], cwd=cwd, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
        **options,
    )  # fmt: skip


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def records(path: Path) -> list[dict]:
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            pass
    return found


def fits(path: Path) -> list[tuple]:
    return [(r["job"]["method"], r["job"]["name"], r["job"]["split"]) for r in records(path)]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "uci").mkdir()
    rng = np.random.default_rng(0)
    for name, n_rows in (("boston", 80), ("yacht", 60)):
        X = rng.normal(size=(n_rows, 3))
        y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=n_rows)
        tests = {f"test_{k}": rng.permutation(n_rows)[:15] for k in range(4)}
        np.savez(folder / "uci" / f"{name}.npz", X=X, y=y, **tests)
    y = rng.integers(10, size=400).astype(np.uint8)
    X = (25 * y[:, None] * np.ones(16) + rng.integers(20, size=(400, 16))).astype(np.uint8)
    np.savez(folder / "mnist.npz", X_train=X[:300], y_train=y[:300], X_test=X[300:], y_test=y[300:])
    return folder


def means(path: Path, score: str) -> dict[tuple[str, str], str]:
    """The cells of a table that hold a score of each method and set."""
    found: dict[tuple[str, str], list[float]] = {}
    for r in records(path):
        found.setdefault((r["job"]["method"], r["job"]["name"]), []).append(r["result"][score])
    return {k: f"| {np.mean(v):.3f} ± {np.std(v):.3f} ({len(v)})" for k, v in found.items()}


def test_a_run_that_was_interrupted_goes_on_and_repeats_no_fit(data, tmp_path, capsys):
    out = tmp_path / "some" / "uci.jsonl"
    arguments = ["uci", "--data", data, *UCI_OPTIONS, "--out", out]
    process = start(*arguments, cwd=tmp_path)
    while process.poll() is None and not (out.exists() and out.read_text().endswith("\n")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130, err
    assert "interrupted: " in err
    assert "Traceback" not in err
    first = fits(out)
    assert 1 <= len(first) < 8
    with out.open("a") as file:
        file.write('{"command": "uci", "job": {"na')  # as if killed while it wrote

    code, text, err = finish(start(*arguments, "--jobs", 2, cwd=tmp_path))
    assert code == 0, err
    assert f"{len(first)} of 8 fits are in {out} already" in err
    assert f"{8 - len(first)}/{8 - len(first)} fits" in err
    expected = product(("default", "paper"), ("boston", "yacht"), range(2))
    assert fits(out)[: len(first)] == first
    assert sorted(fits(out)) == sorted(expected)
    assert len(out.read_text().splitlines()) == 9  # and the line that was cut off

    main(["report", str(out)])
    report = capsys.readouterr().out
    assert text.strip() in report
    for score in ("rmse", "log_likelihood"):
        for cell in means(out, score).values():
            assert f"{cell}, " in report  # beside the paper's
            assert f"{cell} |" in report  # among all methods


@pytest.fixture
def uci_results(data, tmp_path, capsys) -> Path:
    out = tmp_path / "results" / "uci.jsonl"
    chosen = ["--data", str(data), "--sets", "boston", "yacht", "--splits", "2", "--out", str(out)]
    main(["uci", *chosen, "--methods", "paper", "ridge"])
    capsys.readouterr()
    return out


def test_records_say_what_was_fitted_how_and_with_what(uci_results):
    for record in records(uci_results):
        job, result, versions = record["job"], record["result"], set(record["versions"])
        assert 0 < result["rmse"] < 2
        assert result["seconds"] > 0
        assert set(result["coverage"]) == {"50", "90", "95"}
        assert {"numpy", "scipy", "scikit-learn", "python"} <= versions
        assert job["seed"] == job["split"]
        params = job["about"]["params"]
        if job["method"] == "paper":
            assert params["random_state"] == job["seed"]
            assert params["hidden_layer_sizes"] == "(50,)"
            assert params["sigma_v"] == PAPER[job["name"]].sigma_v
            assert result["sigma_v"] == pytest.approx(params["sigma_v"])
            assert result["n_iter"] == params["max_iter"] == 40
            assert {"sktagi", "source"} <= versions
        else:
            assert "bayesianridge__alpha_1" in params
            assert "source" not in versions  # another code of this package changes nothing


def test_report_writes_a_page_and_a_picture(uci_results, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    page, picture = tmp_path / "doc" / "page.md", tmp_path / "doc" / "page.png"
    main(["report", str(uci_results), "--to", str(page), "--plot", str(picture)])
    assert capsys.readouterr() == ("", "")
    text = page.read_text()
    cells = means(uci_results, "rmse")
    assert f"| boston | 2.98 ± 0.86 {cells['paper', 'boston']}, " in text  # Table 1
    assert re.search(r"^\| boston \| 0\.28 \| - \| 0\.6 \| ", text, re.MULTILINE)  # Table 3
    assert f"| yacht {cells['paper', 'yacht']} {cells['ridge', 'yacht']} |" in text
    assert text.startswith("# The paper's tables, measured\n\n8 fits, with sktagi ")
    assert "mixed" not in text
    assert "](page.png)" in text
    assert picture.stat().st_size > 10_000


def test_ctrl_c_in_a_terminal_ends_workers_too(data, tmp_path):
    out = tmp_path / "uci.jsonl"
    options = ["--sets", "boston", "yacht", "--methods", "paper-cv", "--jobs", 2, "--out", out]
    process = start("uci", "--data", data, *options, cwd=tmp_path, start_new_session=True)
    while process.poll() is None and not (out.exists() and out.stat().st_size):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # all processes of a terminal get it
    code, _, err = finish(process)
    assert code == 130, err
    assert "Traceback" not in err
    assert "interrupted: " in err
    assert out.read_text().endswith("\n")
    assert 1 <= len(fits(out)) < 8


def test_a_fit_that_fails_does_not_keep_the_others_from_being_made(
    data, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "uci.jsonl"
    options = "--sets yacht --splits 3 --methods ridge"
    arguments = ["uci", "--data", str(data), *options.split()]
    evaluate, calls = uci.evaluate, []

    def failing(*given, **named):
        calls.append(given)
        if len(calls) == 2:
            raise FloatingPointError("a bad number")
        return evaluate(*given, **named)

    monkeypatch.setattr(uci, "evaluate", failing)
    with pytest.raises(SystemExit, match="1 of 3 fits failed; the others are in "):
        main([*arguments, "--out", str(out)])
    assert [split for _, _, split in fits(out)] == [0, 2]
    err = capsys.readouterr().err
    assert "FloatingPointError: a bad number" in err
    assert '"split": 1' in err
    main([*arguments, "--out", str(out)])
    assert [split for _, _, split in fits(out)] == [0, 2, 1]
    assert len(calls) == 4


def test_report_warns_of_other_data_and_parameters_and_of_uneven_splits(uci_results, capsys):
    lines = uci_results.read_text().splitlines()
    last = json.loads(lines[-1])  # ridge on yacht
    first = json.loads(lines[0])  # paper on boston
    last["job"]["about"]["data"] = "other rows"
    first["job"]["about"]["params"]["max_iter"] = 41
    unknown = json.loads(lines[1])
    unknown["job"]["method"] = "of old"
    uci_results.write_text("\n".join(map(json.dumps, [first, unknown, last])) + "\n")
    with uci_results.open("a") as file:
        file.write("\n".join(lines[1:-1]))
    main(["report", str(uci_results)])
    out, err = capsys.readouterr()
    assert "note: of old on boston is left out" in err
    for warning in ("data are mixed: yacht.", "parameters are mixed: paper on boston."):
        assert f"Results of different {warning}" in err
        assert f"Results of different {warning}" in out
    assert "8 fits" in out
    assert "On the same splits" in out

    uci_results.write_text("\n".join(lines[:-1]))
    main(["report", str(uci_results)])
    out, err = capsys.readouterr()
    assert err == ""
    assert "Methods were measured on different ones of yacht:" in out


def test_report_takes_the_last_result_of_a_fit_and_warns_of_mixed_versions(
    uci_results, tmp_path, monkeypatch, capsys
):
    other = records(uci_results)[0]
    other["versions"]["source"] = "another"
    other["result"]["rmse"] = 77.0
    with uci_results.open("a") as file:
        file.write(json.dumps(other))
    monkeypatch.chdir(tmp_path)
    main(["report"])
    out, err = capsys.readouterr()
    assert "warning: Results of different versions are mixed: source." in err
    assert "8 fits" in out
    assert re.search(r"\| (38|39)\.\d+ ± ", out)  # the mean of 77 and about 1


def test_rivals_and_the_search_for_sigma_v(data, tmp_path, capsys):
    methods = ["paper-cv", "mlp", "gpr", "ridge"]
    out = tmp_path / "uci.jsonl"
    chosen = ["--data", str(data), "--sets", "yacht", "--splits", "1", "--out", str(out)]
    main(["uci", *chosen, "--methods", *methods])
    found = {r["job"]["method"]: r for r in records(out)}
    assert list(found) == methods
    searched = found["paper-cv"]["result"]
    assert searched["search_seconds"] > searched["seconds"] > 0
    assert np.isclose(searched["sigma_v"], SIGMA_V_GRID).any()
    assert 0.04 < searched["sigma_v"] < 0.4  # 0.1 of noise in a spread of 1.2, and few rows
    assert found["mlp"]["result"]["log_likelihood"] is None
    assert found["gpr"]["result"]["log_likelihood"] > found["ridge"]["result"]["log_likelihood"]
    assert "| RMSE | `paper-cv` | `mlp` | `gpr` | `ridge` |" in capsys.readouterr().out


def test_mnist_chooses_sigma_v_by_validation_rows_and_then_stops_early(data, tmp_path, capsys):
    path = tmp_path / "mnist.jsonl"
    main([
        "mnist", "--data", str(data), "--units", "12", "--batches", "10", "--sigma-v", "0.2", "0.4",
        "--seeds", "2", "--epochs", "3", "--members", "2", "--out", str(path),
    ])  # fmt: skip
    out = capsys.readouterr().out
    found = records(path)
    assert [r["job"]["method"] for r in found] == 4 * ["one-epoch"] + 2 * ["early"] + 2 * [
        "default"
    ]
    scores = {
        sigma_v: np.mean([
            r["result"]["validation_log_likelihood"]
            for r in found[:4]
            if r["job"]["sigma_v"] == sigma_v
        ])
        for sigma_v in (0.2, 0.4)
    }  # fmt: skip
    best = max(scores, key=scores.get)
    assert {r["job"]["sigma_v"] for r in found[4:6]} == {best}
    assert all(r["result"]["n_iter"] == 1 for r in found[:4])
    assert all(1 <= r["result"]["n_iter"] <= 3 for r in found[4:])
    errors = [100 * r["result"]["error"] for r in found[4:6]]
    cell = re.escape(f"{np.mean(errors):.2f} ± {np.std(errors):.2f} (2)")
    row = rf"^\| 2x12 \| 10 \| - \| {best:g} \(of 0.2, 0.4\) \| - \| .* \| - \| {cell} \| "
    assert re.search(row, out, re.MULTILINE)
    with path.open("a") as file:  # as if with another limit of epochs, later
        for record in found[4:6]:
            file.write(json.dumps({**record, "job": {**record["job"], "epochs": 9}}) + "\n")
    main(["report", str(path)])
    assert re.search(row, capsys.readouterr().out, re.MULTILINE)  # no seed counts twice
    assert re.search(r"^\| 2x12 \| 2 \| 3 \| \d", out, re.MULTILINE)


def test_progress_bar_goes_by_what_the_fits_cost(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress = Progress([1.0, 3.0])
    progress.start -= 30  # the first fit took half a minute
    progress.step(1.0)
    shown = capsys.readouterr().err.split("\r\x1b[2K")[-1]
    assert shown == "[#####...............] 1/2 fits, 30 s, about 90 s left"


REFUSED = {
    "no folder": (["uci", "--data", "nowhere"], "there is no folder nowhere"),
    "no file": (["uci", "--data", "empty", "--sets", "wine"], "wine.npz does not exist"),
    "not an archive": (["uci", "--data", "bad", "--sets", "wine"], "is not an archive of NumPy"),
    "no array": (["uci", "--data", "bad", "--sets", "power"], "power.npz has no array y, test_0"),
    "no mnist": (["mnist", "--data", "empty"], "mnist.npz does not exist"),
    "unknown set": (["uci", "--sets", "bostin"], "invalid choice: 'bostin'"),
    "unknown method": (["uci", "--methods", "papr"], "invalid choice: 'papr'"),
    "unknown command": (["ucy"], "invalid choice: 'ucy'"),
    "no jobs": (["uci", "--jobs", "0"], "0 is less than 1"),
    "a folder for results": (["report", "empty"], "there is no file empty"),
    "no splits": (["uci", "--splits", "0"], "0 is less than 1"),
    "no results": (["report"], "there are no results of uci or mnist"),
    "no results file": (["report", "nothing.jsonl"], "there is no file nothing.jsonl"),
    "rows that differ": (["uci", "--data", "bad", "--sets", "yacht"], "X has 3 rows and y has 2"),
    "no such rows": (["uci", "--data", "bad", "--sets", "naval"], "test_0 names rows that are not"),
    "not finite": (
        ["uci", "--data", "bad", "--sets", "energy"],
        "X has values that are not finite",
    ),
    "all rows": (["uci", "--data", "bad", "--sets", "kin8nm"], "test_0 leaves no row to learn"),
    "no noise": (["mnist", "--sigma-v", "0"], "0 is not a number above 0"),
    "a file for a folder": (["report", "good.jsonl", "--to", "bad/other.jsonl/page.md"], "File ex"),
    "no text": (["report", "bad/uci/power.npz"], "power.npz is not a file of results"),
    "no such picture": (["report", "good.jsonl", "--plot", "page.foo"], "--plot: "),
    "unknown table": (
        ["tables", "--data", "empty", "--kind", "regression", "--sets", "servo"],
        "no data set 'servo'; there are boston, ",
    ),
    "no tables of classes": (["tables", "--data", "empty"], "has no tables"),
    "nothing to fit": (
        ["tables", "--data", "empty", "--kind", "regression", "--methods", "LogisticRegression"],
        "there is nothing to fit",
    ),
    "no threads": (["tables", "--threads", "0"], "0 is less than 1"),
    "other lines": (["report", "bad/other.jsonl"], "line 1, is not a result"),
}


def test_bad_folders_and_names_are_refused_in_a_line(uci_results, tmp_path, monkeypatch, capsys):
    uci_results.rename(tmp_path / "good.jsonl")
    uci_results.parent.rmdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad" / "uci").mkdir(parents=True)
    (tmp_path / "bad" / "uci" / "wine.npz").write_text("no archive")
    ones = np.ones((3, 2))
    for name, arrays in {
        "power": {"X": ones},
        "yacht": {"X": ones, "y": [1, 2], "test_0": [1]},
        "naval": {"X": ones, "y": [1, 2, 3], "test_0": [1, 3]},
        "energy": {"X": ones * np.inf, "y": [1, 2, 3], "test_0": [1]},
        "kin8nm": {"X": ones, "y": [1, 2, 3], "test_0": [0, 1, 2]},
    }.items():
        np.savez(tmp_path / "bad" / "uci" / f"{name}.npz", **arrays)
    (tmp_path / "bad" / "other.jsonl").write_text('{"a": 1}\n')
    for case, (arguments, message) in REFUSED.items():
        with pytest.raises(SystemExit) as refused:
            main(arguments)
        told = f"{refused.value.code} {capsys.readouterr().err}"  # a text is printed by the exit
        assert message in told, case
        assert refused.value.code != 0, case
    assert not (tmp_path / "results").exists()


def test_sets_of_openml_are_those_of_the_publications(monkeypatch):
    from sklearn import datasets

    X, y = np.ones((308, 6)), np.arange(308.0)
    sources = []

    def fetch(**source):
        sources.append(source)
        return answers.pop()

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    for answer, message in (
        ((np.column_stack([X, y]), y), "yacht of OpenML has 7 features; 6 were expected"),
        ((X[1:], y[1:]), "yacht of OpenML has 307 rows; 308 were expected"),
        ((np.full((308, 6), "a"), y), "could not be fetched"),
    ):
        answers = [answer]
        with pytest.raises(SystemExit, match=message):
            load_uci(None, "yacht")
    answers = [(np.column_stack([X, y]), None)]
    found, target, tests = load_uci(None, "yacht")
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(target, y)
    assert len(tests) == 20
    assert {len(test) for test in tests} == {31}
    assert {(source["name"], source["version"]) for source in sources} == {
        ("yacht_hydrodynamics", 1)
    }
    _from_openml.cache_clear()


def test_a_refusal_ends_without_a_traceback(tmp_path):
    code, out, err = finish(start("uci", "--data", "nowhere", cwd=tmp_path))
    assert (code, out) == (1, "")
    assert err == "--data: there is no folder nowhere\n"


def test_help_of_every_command_explains_it(capsys):
    for command in COMMANDS:
        with pytest.raises(SystemExit) as done:
            main([command, "--help"])
        assert done.value.code == 0
        assert f"python -m benchmarks {command}" in capsys.readouterr().out.split("options:")[0]


def test_floors_do_the_work_of_the_shapes_given_and_can_be_repeated():
    """What is timed beside fits: it must run, and what it is given must stay as it is."""
    rng = np.random.default_rng(0)
    entries = rng.normal(size=(20, 30)) * (rng.uniform(size=(20, 30)) < 0.1)
    X = sparse.csr_array(entries)
    for floor in (
        floors.products((3, 5, 4, 2), 20, 6, 2, np.float32),
        floors.passes((3, 5, 4, 2), 20, 6, 2, np.float32),
        floors.conditioning((3, 5, 4, 2), 2, 6, members=2),
        floors.fetching(X, 4, 6),
    ):
        for _ in range(3):
            floor()
    np.testing.assert_array_equal(X.toarray(), entries)


def test_decisions_count_values_until_a_minimum_that_is_known(capsys):
    place = np.array([[0.114614, 0.555649, 0.852547]])
    function, n_inputs, enough = decisions.function_of("Hartmann")
    assert function(place) == pytest.approx(-3.86278, abs=1e-4)
    assert n_inputs == 3
    assert function(place) < enough < function(place + 0.1)
    main(["decisions", "--parts", "optimisation", "--seeds", "2", "--values", "16"])
    table = capsys.readouterr().out
    for way in ("TAGI, drawn functions", "expected improvement", "lower bound", "at random"):
        assert table.count(f"{way} |") == 4  # a line at once and one of the table, of two functions


def test_speed_prints_ratios_in_one_run(capsys):
    main(["speed", "--cases", "stream", "--repeats", "1"])
    header, _, *lines = capsys.readouterr().out.strip().splitlines()
    n_cells = header.count("|")
    assert len(lines) == 2
    for line in lines:
        assert line.count("|") == n_cells
        assert re.search(r"\| [\d.]+ ms \| [\d.]+ of MLPRegressor \| 1.0 \|", line)


def test_distribution_prints_tables_and_says_which_goals_are_met(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(distribution_rows, "N_NEW", 60)
    out = tmp_path / "results.jsonl"
    command = ["distribution", "--cases", "generated", "--seeds", "1", "--out", str(out)]
    main(command)
    text = capsys.readouterr().out
    title, _, header, _, *lines = text.splitlines()
    assert title == "generated"
    assert len([line for line in lines if line.startswith("| ")]) == 4
    assert all(line.count("|") == header.count("|") for line in lines if line.startswith("| "))
    assert len(re.findall(r"Goal: .*: (met|missed)", text)) == 5
    by_noise = {(r["job"]["n"], r["job"]["params"]["sigma_v"]): r["result"] for r in records(out)}
    assert set(by_noise) == set(product((300, 1000), ("constant", "auto")))
    for result in by_noise.values():
        assert sum(result["rows"]) == 60
        assert sum(result["inside"]) / 60 == pytest.approx(result["coverage"])
    assert f"{by_noise[1000, 'auto']['log_likelihood']:.3f}" in text
    main(command)  # every fit is in the file already
    assert capsys.readouterr().out == text
    assert len(records(out)) == 4

    with pytest.raises(SystemExit, match="the case inner needs --data"):
        main(["distribution", "--cases", "inner", "--out", str(out)])


def test_defaults_compare_variants_and_leave_the_package_as_it_is(data, tmp_path, capsys):
    variants = ["default", "max_iter=20", "without linear", "no whitening", "not calibrated"]
    command = ["defaults", "--data", str(data), "--sets", "boston", "--splits", "1",
               "--out", str(tmp_path / "defaults.jsonl"), "--variants", *variants]  # fmt: skip
    before = [vars(where).get(name) for where, name, _ in defaults.INSIDE.values()]
    main(command)
    rows = rows_below(capsys.readouterr().out, "variant")
    assert list(rows) == variants
    assert rows["default"][:2] == ["1.000", "+0.000"]
    found = {r["job"]["inside"] or str(r["job"]["params"]): r["result"]
             for r in records(tmp_path / "defaults.jsonl")}  # fmt: skip
    assert len({result["log_likelihood"] for result in found.values()}) == len(variants)
    assert found["not calibrated"]["rmse"] == found["{}"]["rmse"]
    assert before == [vars(where).get(name) for where, name, _ in defaults.INSIDE.values()]


@pytest.mark.parametrize("name", ["linear", "smooth", "pieces"])
def test_a_kind_that_is_left_out_of_a_comparison_is_not_learned(name):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(60, 2))
    with defaults.replaced(f"without {name}"):
        model = TAGIRegressor(n_members=2, max_iter=1, random_state=0).fit(X, np.sin(X[:, 0]))
    assert model.kinds_
    assert name not in model.kinds_


def test_inner_rows_are_not_among_the_test_rows_of_their_split(data, tmp_path):
    rng = np.random.default_rng(1)
    (tmp_path / "tables").mkdir()
    mask = rng.random((90, 2)) < 0.2
    np.savez(tmp_path / "tables" / "servo.npz", X=np.arange(90.0)[:, None], y=np.arange(90.0),
             test_mask=mask)  # fmt: skip
    for split in range(2):
        X, y, X_new, y_new = distribution_rows.inner_rows(str(tmp_path), "servo", split)
        assert sorted([*y, *y_new]) == np.flatnonzero(~mask[:, split]).tolist()
        assert len(y_new) == 30
        assert np.array_equal(X[:, 0], y)
        assert np.array_equal(X_new[:, 0], y_new)
        all_X, _, tests = load_uci(str(data), "boston")
        X, _, X_new, _ = distribution_rows.inner_rows(str(data), "boston", split)
        test_rows = {tuple(row) for row in all_X[tests[split]]}
        assert not test_rows & {tuple(row) for row in np.vstack([X, X_new])}


class Quick(GaussianNB):
    """In the place of classifiers that take longer, with all that is asked of ours."""

    def predict_proba(self, X, return_std=False):
        proba = super().predict_proba(X)
        return (proba, np.full_like(proba, 0.01)) if return_std else proba


@pytest.fixture
def quick_classes(monkeypatch):
    quick = {
        name: method._replace(make=lambda seed, **params: Quick(), package="scikit-learn")
        for name, method in classes_methods.METHODS.items()
    }
    monkeypatch.setattr(classes_methods, "METHODS", quick)
    monkeypatch.setattr(classes_methods, "TAGIClassifier", Quick)
    monkeypatch.setattr(classes_rows, "N_NEW", 200)
    monkeypatch.setattr(classes_rows, "COUNTS", (3, 4, 100, 300))
    monkeypatch.setattr(class_streams, "N_ROWS", 60)
    monkeypatch.setattr(class_streams.time, "process_time", lambda: 0.0)  # the same text again


def class_table(folder: Path, name: str, n_rows: int = 90) -> None:
    rng = np.random.default_rng(len(name))
    numbers, words = rng.normal(size=n_rows), rng.choice(["a", "b", "c"], size=n_rows)
    labels = np.where(numbers + (words == "a") > 0, "yes", "no")
    columns = np.column_stack([numbers.astype(str), words, labels])
    lines = ["number,word,label", *map(",".join, columns)]
    (folder / "classes").mkdir(exist_ok=True)
    with gzip.open(folder / "classes" / f"{name}.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")


def test_classes_prints_tables_and_says_which_goals_are_met(quick_classes, tmp_path, capsys):
    class_table(tmp_path, "small")
    class_table(tmp_path, "another")
    out = tmp_path / "results.jsonl"
    command = ["classes", "--data", str(tmp_path), "--seeds", "2", "--out", str(out)]
    main(command)
    text = capsys.readouterr().out
    for case in ("known", "tables", "order", "many", "unlike", "flips", "streams"):
        assert re.search(rf"^{case}$", text, re.MULTILINE)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table
    assert len(re.findall(r"^Goal: .*: (?:met|missed)", text, re.MULTILINE)) == 13
    errors = {
        name: np.mean([r["result"]["error"] for r in records(out)
                       if (r["job"]["rows"], r["job"]["method"]) == (name, "sktagi")])
        for name in ("another", "small")
    }  # fmt: skip
    for name, error in errors.items():
        assert f"| {name} | {100 * error:.1f} % |" in text
    n_fits = len(records(out))
    main(command)  # every fit is in the file already
    assert capsys.readouterr().out == text
    assert len(records(out)) == n_fits
    with pytest.raises(SystemExit, match="the case tables needs --data"):
        main(["classes", "--cases", "tables", "--out", str(out)])
    with pytest.raises(SystemExit, match="has no tables"):
        main(
            ["classes", "--cases", "tables", "--data", str(tmp_path / "classes"), "--out", str(out)]
        )


def test_streams_of_classes_beside_an_earlier_checkout(monkeypatch, capsys):
    """Each row is predicted before it is learned: the score of a stream that can be replayed."""
    monkeypatch.setattr(class_streams, "N_ROWS", 40)
    monkeypatch.setattr(class_streams, "OF_RIVER", ("Phishing",))
    right, loss, _ = class_streams.prequential("Phishing", 0, 1)
    X, y = class_streams.rows_of_stream("Phishing", 0)
    assert X.shape == (40, 9)
    model = class_streams.TAGIClassifier(n_members=1, random_state=0)
    proba = [[0.5, 0.5]]
    for row in range(40):
        if row:
            proba.append(model.predict_proba(X[row : row + 1])[0])
        model.partial_fit(X[row : row + 1], y[row : row + 1], classes=[0, 1])
    assert right == np.mean(np.argmax(proba, axis=1) == y)
    assert loss == pytest.approx(-np.log(np.array(proba)[np.arange(40), y]).mean())
    main(["classes", "--cases", "streams", "--seeds", "1"])
    assert "| Phishing | sktagi, 1 member |" in capsys.readouterr().out


def test_classes_go_without_catboost_and_score_an_earlier_checkout(tmp_path, monkeypatch, capsys):
    class_table(tmp_path, "small", n_rows=60)
    monkeypatch.setattr(methods, "find_spec", lambda name: None)
    out = tmp_path / "results.jsonl"
    main(["classes", "--data", str(tmp_path), "--cases", "tables", "--seeds", "1",
          "--before", str(ROOT), "--out", str(out)])  # fmt: skip
    text, err = capsys.readouterr()
    assert "CatBoost is not installed, and is left out" in err
    assert "mean error not above that before" in text
    error = re.search(r"^\| error \|(.*)\n.*\n\| small \|(.*)$", text, re.MULTILINE)
    names, cells = ([cell.strip() for cell in line.split("|")[:-1]] for line in error.groups())
    assert cells[0] == cells[-1]  # the same code
    assert names[0] == "sktagi"
    assert names[-1] == "before"
    assert "CatBoost" not in names
    with pytest.raises(SystemExit, match="no checkout"):
        main(["classes", "--cases", "order", "--before", str(tmp_path), "--out", str(out)])


def test_folds_of_a_table_hold_each_row_once_and_text_becomes_columns(tmp_path, monkeypatch):
    class_table(tmp_path, "small")
    monkeypatch.setattr(classes_rows, "MOST_ROWS", 50)
    folds = [classes_rows.rows_of(str(tmp_path), "small", fold) for fold in range(5)]
    new = np.vstack([rows.X_new for rows in folds])
    assert new.shape == (90, 4)
    assert len(np.unique(new[:, 0])) == 90
    assert set(np.unique(new[:, 1:])) == {0, 1}
    assert (new[:, 1:].sum(axis=1) == 1).all()
    for rows in folds:
        assert len(rows.X) == 50
        assert not set(rows.X[:, 0]) & set(rows.X_new[:, 0])
        assert set(rows.y) == set(rows.y_new) == {0, 1}


def test_labels_are_flipped_in_the_share_that_is_asked_for():
    right = classes_rows.rows_of(None, "digits", 0)
    wrong = classes_rows.rows_of(None, "digits", 0, wrong=0.1)
    assert np.array_equal(right.X, wrong.X)
    assert np.mean(right.y != wrong.y) == pytest.approx(0.1, abs=0.001)
    assert np.array_equal(right.y_new, wrong.y_new)
    assert set(wrong.y) == set(range(10))


def test_permuted_labels_are_the_same_classes_under_other_names():
    plain, permuted = (classes_rows.rows_of(None, "ordered", k) for k in (0, 3))
    assert np.array_equal(plain.X, permuted.X)
    assert len(set(zip(plain.y.tolist(), permuted.y.tolist(), strict=True))) == 16


def test_calibration_error_is_that_of_all_rows_together():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, size=200_000)
    y = (rng.uniform(size=len(p)) > p).astype(int)  # class 0 with probability p
    proba = np.column_stack([p, 1 - p])
    found = classes_rows.score(proba, y)
    assert found["error"] == pytest.approx(0.25, abs=0.01)
    assert found["log_loss"] == pytest.approx(
        np.mean(-p * np.log(p) - (1 - p) * np.log1p(-p)), abs=0.01
    )
    halves = [classes_rows.score(proba[part], y[part]) for part in (slice(100), slice(100, None))]
    assert classes_rows.calibration_error(halves) == pytest.approx(
        classes_rows.calibration_error([found])
    )
    assert classes_rows.calibration_error([found]) < 0.01
    sure = np.column_stack([np.full(len(p), 0.95), np.full(len(p), 0.05)])
    assert classes_rows.calibration_error([classes_rows.score(sure, y)]) == pytest.approx(
        0.2, abs=0.01
    )


def test_scores_of_a_distribution_are_those_of_a_known_one():
    class Known:
        """The truth, or its intervals half as wide."""

        def __init__(self, share):
            self.share = share

        def fit(self, X, y):
            pass

        def predict(self, X, return_std=False):
            return X[:, 0], self.share * X[:, 1]

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=20_000), rng.uniform(0.5, 2, size=20_000)])
    y = X[:, 0] + X[:, 1] * rng.normal(size=20_000)
    right, narrow = (distribution_rows.score(Known(share), X, y, X, y) for share in (1.0, 0.5))
    assert right["coverage"] == pytest.approx(0.9, abs=0.01)
    assert narrow["coverage"] == pytest.approx(0.589, abs=0.01)  # 2 Phi(1.645 / 2) - 1
    assert right["rms"] == pytest.approx(1, abs=0.02)
    assert narrow["rms"] == pytest.approx(2, abs=0.04)
    assert right["variance"] / right["squares"] == pytest.approx(1, abs=0.04)
    assert right["rows"] == [4000] * 5
    assert np.divide(right["inside"], right["rows"]) == pytest.approx([0.9] * 5, abs=0.02)
    assert right["spearman"] > 0.2


@pytest.fixture
def tables_command(data, tmp_path, monkeypatch) -> list[str]:
    """Measure what scikit-learn has, on two tables and one of classes; one method on one only."""
    folder = tmp_path / "data"
    (folder / "uci").mkdir(parents=True)
    for name in ("boston", "yacht"):
        (folder / "uci" / f"{name}.npz").write_bytes((data / "uci" / f"{name}.npz").read_bytes())
    class_table(folder, "small")
    few = tables_methods.REGRESSORS["GaussianProcess"]._replace(max_rows=20)
    monkeypatch.setitem(tables_methods.REGRESSORS, "GaussianProcess", few)
    monkeypatch.setattr(methods, "find_spec", lambda name: None)
    return ["tables", "--data", str(folder), "--sets", "boston", "yacht", "small", "--splits", "1",
            "--threads", "1", "--out", str(tmp_path / "tables.jsonl")]  # fmt: skip


def rows_below(text: str, title: str) -> dict[str, list[str]]:
    """The cells of the first table whose first column has that title, by their row."""
    table = re.search(rf"^\| {title} \|.*\n(?:\|.*\n)+", text, re.MULTILINE).group()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert len({len(row) for row in cells}) == 1
    return {row[0]: row[1:] for row in cells[2:]}


def test_tables_begin_with_one_that_says_it_all_and_go_on(tables_command, capsys):
    main(tables_command)
    text, err = capsys.readouterr()
    for method in ("CatBoost", "NGBoost", "RealMLP"):
        assert f"regression: {method} is not installed, and is left out" in err
    found = records(Path(tables_command[-1]))
    regression, classes = text.split("\nclasses\n")
    short = rows_below(regression, "method")
    assert list(short) == ["sktagi", "HistGradientBoosting", "GaussianProcess (on 1 of 2)",
                           "BayesianRidge", "MLP ensemble"]  # fmt: skip
    assert short["GaussianProcess (on 1 of 2)"][:3] == ["-"] * 3
    assert "Without ranks, as they are not on all tables: GaussianProcess;" in regression

    def figures(key, method):
        return np.array([r["result"][key] for r in found[:9] if r["job"]["method"] == method])

    everywhere = [method for method in short if method in tables_methods.REGRESSORS]
    for column, key, sign in ((0, "rmse", 1), (1, "log_likelihood", -1), (2, "crps", 1)):
        ranks = stats.rankdata([sign * figures(key, m) for m in everywhere], axis=0).mean(axis=1)
        assert [short[m][column] for m in everywhere] == [f"{rank:.2f}" for rank in ranks]
    ratios = figures("rmse", "BayesianRidge") / figures("rmse", "sktagi")
    gains = figures("log_likelihood", "BayesianRidge") - figures("log_likelihood", "sktagi")
    assert short["BayesianRidge"][3:5] == [f"{np.sqrt(ratios.prod()):.3f}", f"{gains.mean():+.3f}"]
    assert short["sktagi"][3:5] == ["1.000", "+0.000"]
    assert short["sktagi"][-1] == "1.00"
    assert rows_below(regression, "RMSE")["boston"][2] == "-"  # of the Gaussian process
    assert rows_below(regression, "seconds")["yacht"] == [
        f"{figures('seconds', m)[-1]:.2f}"
        for m in ("sktagi", "HistGradientBoosting", "GaussianProcess", "BayesianRidge",
                  "MLP ensemble")
    ]  # fmt: skip
    short = rows_below(classes, "method")
    assert list(short) == ["sktagi", "HistGradientBoosting", "MLP ensemble", "LogisticRegression"]
    assert found[-1]["job"]["method"] == "LogisticRegression"
    assert short["LogisticRegression"][3] == f"{100 * found[-1]['result']['error']:.1f} %"

    main(tables_command)  # every fit is in the file already
    assert capsys.readouterr().out == text
    assert len(records(Path(tables_command[-1]))) == len(found) == 5 + 4 + 4


def test_figures_of_tables_do_not_depend_on_the_unit_of_the_target(tmp_path):
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(400, 2)), 0.5 * rng.normal(size=400)
    (tmp_path / "uci").mkdir()
    results = []
    for unit in (1.0, 1000.0):
        y = unit * (2 * X[:, 0] + noise)
        np.savez(tmp_path / "uci" / "boston.npz", X=X, y=y, test_0=np.arange(40))
        results.append(tables.fit_regressor(str(tmp_path), "boston", 0, "BayesianRidge", 200, 1))
    for key in ("rmse", "log_likelihood", "crps"):
        assert results[0][key] == pytest.approx(results[1][key], rel=1e-3)
    right = 0.5 / np.sqrt(4.25)  # noise in units of the target
    assert results[0]["rmse"] == pytest.approx(right, rel=0.3)
    assert results[0]["crps"] == pytest.approx(right / np.sqrt(np.pi), rel=0.3)
    truth = -0.5 * np.log(2 * np.pi * right**2) - 0.5
    assert results[0]["log_likelihood"] == pytest.approx(truth, abs=0.3)
    assert sum(results[0]["rows"]) == 36


def test_landing_prints_three_figures_of_each_method_and_marks_the_best(
    tmp_path, monkeypatch, capsys
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    masks = np.arange(60)[:, None] % 5 == np.arange(2)
    (tmp_path / "tables").mkdir()
    np.savez(
        tmp_path / "tables" / "small.npz", X=X, y=X[:, 0] + rng.normal(size=60), test_mask=masks
    )
    monkeypatch.setattr(landing, "SOURCES", {"made": landing.sensor})
    monkeypatch.setattr(landing, "TABLES", ("small",))
    few = {name: landing.METHODS[name] for name in ("GP", "HistGradientBoosting")}
    monkeypatch.setattr(landing, "METHODS", {**few, "none": few["GP"]._replace(max_rows=10)})
    main(["landing", "--data", str(tmp_path), "--splits", "2"])
    out = capsys.readouterr().out
    rows = [line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("|")]
    header, _, *rows = rows
    assert header == ["data set (rows)", "GP", "HistGradientBoosting", "none"]
    assert [row[0] for row in rows] == ["made", "small (60)"]

    def parts(cell):
        return re.fullmatch(r"(.*)&nbsp;/&nbsp;(.*)<br>(.*)&nbsp;s", cell).groups()

    for _, *cells, none in rows:
        errors, scores, seconds = zip(*map(parts, cells), strict=True)
        errors, scores = ([(float(c.strip("*")), "*" in c) for c in k] for k in (errors, scores))
        assert all(0.3 < error < 1.5 for error, _ in errors)
        assert min(errors)[1]
        assert max(scores)[1]
        assert all(float(second) >= 0 for second in seconds)
        assert none == "-"


def test_a_level_of_noise_is_that_of_errors_on_rows_held_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 1))
    y = X[:, 0] + 2 * rng.normal(size=len(X))
    one = tables_methods.HeldOutLevel(LinearRegression(), 0).fit(X, y)
    mean, std = one.predict(X[:3], return_std=True)
    np.testing.assert_allclose(mean, X[:3, 0], atol=0.1)
    np.testing.assert_allclose(std, 2, rtol=0.05)
    assert one.level_seconds_ > 0
    members = [(str(v), DummyRegressor(strategy="constant", constant=v)) for v in (-1.0, 1.0)]
    both = tables_methods.HeldOutLevel(VotingRegressor(members), 0).fit(X, y - X[:, 0])
    mean, std = both.predict(X[:3], return_std=True)
    np.testing.assert_array_equal(mean, 0)
    np.testing.assert_allclose(std, 2, rtol=0.05)  # a spread of 1 among members is part of it
    assert both.level_ == pytest.approx(np.sqrt(3), rel=0.05)


def test_ours_is_told_its_threads_if_it_takes_them():
    class Threaded:
        def __init__(self, n_jobs=None, random_state=None):
            self.n_jobs, self.random_state = n_jobs, random_state

    class Plain:
        def __init__(self, random_state=None):
            self.random_state = random_state

    assert vars(tables_methods.ours(Threaded, 3, 2)) == {"n_jobs": 2, "random_state": 3}
    assert vars(tables_methods.ours(Plain, 3, 2)) == {"random_state": 3}


@pytest.mark.parametrize(
    ("kind", "method"),
    [(kind, method) for kind, of_kind in tables_methods.METHODS.items()
     for method, about in of_kind.items() if about.package not in methods.NEEDED],
)  # fmt: skip
def test_methods_of_other_packages_say_a_mean_and_a_std_or_probabilities(kind, method):
    pytest.importorskip(tables_methods.METHODS[kind][method].package)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=len(X))
    model = tables_methods.make(kind, method, 0, 1, 2)
    if kind == "regression":
        mean, std = model.fit(X, y).predict(X, return_std=True)
        assert np.sqrt(np.mean((mean - y) ** 2)) < 0.5
        assert std.shape == y.shape
        assert ((std > 0) & (std < 1)).all()
    else:
        proba = model.fit(X, (y > 0).astype(int)).predict_proba(X)
        assert np.mean((proba[:, 1] > 0.5) == (y > 0)) > 0.9
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
