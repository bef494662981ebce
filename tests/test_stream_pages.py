"""The code of the pages on streams runs, and does what they say."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from sktagi import TAGIRegressor

ROOT = Path(__file__).parents[1]
DOC = ROOT / "doc"
IMPORTS = {"np": np, "TAGIRegressor": TAGIRegressor}


def run_section(page, title, **names):
    """Run the code of a section of a page, without those below it, and return its names."""
    parts = re.split(r"^#+ ", (DOC / page).read_text(), flags=re.MULTILINE)
    text = next(part for part in parts if part.startswith(title))
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    names = {**IMPORTS, **names}
    for block in blocks:
        exec(block, names)
    return names


def readings(n=60):
    """Rows of two sensors, one after the other."""
    rng = np.random.default_rng(0)
    for time in range(n):
        load, outside = rng.normal(size=2)
        power = load * (1 if time % 2 else -2) + 0.1 * rng.normal()
        yield {"sensor": "ab"[time % 2], "time": time, "load": load, "outside": outside,
               "power": power}  # fmt: skip


def by_hand(rows):
    """Return predictions of one model for each sensor, which was never saved."""
    models, found = {}, []
    for row in rows:
        x, y = [[row["load"], row["outside"]]], [row["power"]]
        model = models.get(row["sensor"])
        if model is None:
            model = TAGIRegressor(n_members=2, half_life=1000, random_state=0)
            models[row["sensor"]] = model
            mean, std = [np.nan], [np.nan]
        else:
            mean, std = model.predict(x, return_std=True)
        found.append((mean[0], std[0]))
        model.partial_fit(x, y)
    return np.array(found)


def test_bytes_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_section("state.md", "Keep a stream's state")
    np.testing.assert_array_equal(
        names["same"].predict(names["X"]), names["model"].predict(names["X"])
    )


def test_models_in_plain_files(tmp_path):
    Models = run_section("state.md", "Plain files")["Models"]
    models, rng = Models(tmp_path / "models"), np.random.default_rng(0)
    for key in ("line 3", "../etc", 7):
        models.learn(key, rng.normal(size=(10, 2)), rng.normal(size=10), every=1)
    models.save()
    assert {path.name for path in (tmp_path / "models").iterdir()} == {
        "line%203.tagi", "..%2Fetc.tagi", "7.tagi"
    }  # fmt: skip
    again = Models(tmp_path / "models")
    assert again["../etc"].to_bytes() == models["../etc"].to_bytes()
    assert not again["new"].__sklearn_is_fitted__()


class DictState(dict):
    """Has the methods of a state of Quix Streams that the recipe uses."""

    get_bytes = dict.get
    set_bytes = dict.__setitem__


def check_reading():
    learn_row = run_section("state.md", "One model for each key")["learn_row"]
    return run_section("state.md", "Quix Streams", learn_row=learn_row)["check_reading"]


def test_one_model_for_each_key():
    check, states = check_reading(), {"a": DictState(), "b": DictState()}
    found = [check(row, states[row["sensor"]]) for row in readings()]
    expected = by_hand(readings())
    np.testing.assert_array_equal([(row["expected"], row["std"]) for row in found], expected)
    assert all(len(state["model"]) < 50_000 for state in states.values())


def test_states_of_quix_streams(tmp_path):
    pytest.importorskip("quixstreams")
    from quixstreams.state.rocksdb import RocksDBStorePartition

    check, found = check_reading(), []
    rows = list(readings())
    for part in (rows[:25], rows[25:]):  # closed in between
        partition = RocksDBStorePartition(str(tmp_path / "store"))
        for row in part:
            with partition.begin() as transaction:  # committed at its end
                state = transaction.as_state(prefix=row["sensor"].encode())
                found.append(check(row, state))
        partition.close()
    np.testing.assert_array_equal(
        [(row["expected"], row["std"]) for row in found], by_hand(rows)
    )  # fmt: skip


def test_states_of_spark(tmp_path, monkeypatch):
    pytest.importorskip("pyspark", minversion="4")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)  # of workers
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(tmp_path))
        .getOrCreate()
    )
    rows, source = list(readings()), tmp_path / "in"
    source.mkdir()
    learn_row = run_section("state.md", "One model for each key")["learn_row"]
    fields = "sensor string, time long, load double, outside double, power double"
    try:
        for number, part in enumerate((rows[:25], rows[25:])):  # stopped in between
            lines = "\n".join(map(json.dumps, part))
            (source / f"{number}.json").write_text(lines)
            frame = spark.readStream.schema(fields).json(str(source))
            names = run_section("state.md", "Spark", learn_row=learn_row, spark=spark,
                                readings=frame)  # fmt: skip
            query = names["checked"].writeStream.trigger(availableNow=True).format("parquet")
            query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
            query.start(str(tmp_path / "out")).awaitTermination()
        found = spark.read.parquet(str(tmp_path / "out")).orderBy("time").collect()
    finally:
        spark.stop()
    found = [(row["expected"], row["std"]) for row in found]
    np.testing.assert_array_equal(np.array(found, float), by_hand(rows))


def numbers_in(text):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


def shown(title):
    """Return the lines that a section says it prints."""
    parts = re.split(r"^#+ ", (DOC / "streams.md").read_text(), flags=re.MULTILINE)
    text = next(part for part in parts if part.startswith(title))
    # The language of each block decides; so blocks are taken one by one.
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line for language, block in blocks if not language for line in block.splitlines()]


def test_late_labels_and_both_scores(capsys):
    names = run_section("streams.md", "Labels that come late")
    printed = capsys.readouterr().out.splitlines()
    assert len(names["waiting"]) == 150
    assert names["model"].n_samples_seen_ == 1350
    for ours, theirs in zip(shown("Labels that come late"), printed, strict=True):
        assert numbers_in(ours) == pytest.approx(numbers_in(theirs), rel=0.2, abs=0.2)
    said, learned = (numbers_in(line)[-1] for line in printed)
    assert said < learned - 1


def test_replay_and_a_fit_to_a_buffer(capsys):
    names = run_section("streams.md", "Replay")
    printed = capsys.readouterr().out.splitlines()
    for ours, theirs in zip(shown("Replay"), printed, strict=True):
        assert ours.split()[0] == theirs.split()[0]
        assert numbers_in(ours)[0] == pytest.approx(numbers_in(theirs)[0], abs=0.06)
        assert numbers_in(ours)[1] == pytest.approx(numbers_in(theirs)[1], abs=4)
    once, replayed, fitted = (numbers_in(line)[0] for line in printed)
    assert fitted < replayed < once
    scores = [names[name].prequential_log_likelihood_ for name in ("once", "replayed")]
    assert scores[1] > scores[0] + 0.2  # of rows that it knows


def test_models_of_river_and_skpro():
    pytest.importorskip("river")
    pytest.importorskip("skpro")
    names = run_section("streams.md", "As models of river and skpro")
    assert set(names["spam"].predict_proba_one(dict.fromkeys("ab", 0))) == {False, True}
    assert 0 < names["dist"].cdf(40) < 0.5
    assert names["online"].estimator_.n_samples_seen_ == 300
    assert names["normal"].mean().shape == (5, 1)
