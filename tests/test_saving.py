"""Estimators as bytes and as files: the same to the last bit, or one clear error."""

import hashlib
import json
import os
import pickle
import re
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

from sktagi import TAGIClassifier, TAGIRegressor, _bytes, _saving
from sktagi._bytes import pack, unpack
from sktagi.merging import fork

ROOT = Path(__file__).parents[1]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(130, 3))
X[::7, 1] = np.nan
Y = X[:, 0] + 0.1 * RNG.normal(size=130)
THREE = np.digitize(Y, [-0.5, 0.5])
TABLE = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 2] > 0, "yes", "nö")})
MIXED = np.empty(130, dtype=object)
MIXED[:] = [("a", 1) if value > 0 else "b" for value in Y]
SMALL = {"n_members": 2, "max_iter": 2, "random_state": 0}

# name: estimator, rows it learns, rows it goes on with
MODELS = {
    "not fitted": (TAGIRegressor(half_life=3), None),
    "not fitted classes": (TAGIClassifier(class_weight={"a": 1, ("b",): 2.5}), None),
    "kinds": (TAGIRegressor(**SMALL), (X, Y)),
    "kinds of classes": (TAGIClassifier(**SMALL), (X, THREE)),
    "targets": (TAGIRegressor((4,), **SMALL), (X, np.column_stack([Y, -Y]))),
    "full": (TAGIRegressor((3,), covariance_type="full", **SMALL), (X, Y)),
    "float32": (TAGIRegressor((4,), **SMALL), (X.astype(np.float32), Y)),
    "sparse": (TAGIRegressor((4,), **SMALL), (sparse.csr_array(np.nan_to_num(X)), Y)),
    "table": (TAGIRegressor(**SMALL), (TABLE, Y)),
    "log": (TAGIRegressor((4,), target_transform="log", **SMALL), (X, np.exp(Y))),
    "power": (TAGIRegressor((4,), target_transform="power", **SMALL), (X, np.exp(Y))),
    "tree": (TAGIClassifier((4,), class_coding="tree", **SMALL), (X, THREE)),
    "labels": (TAGIClassifier((4,), **SMALL), (X, np.column_stack([Y > 0, X[:, 2] > 0]) * 1)),
    "texts": (TAGIClassifier((4,), **SMALL), (X, np.array(["low", "mid", "high"])[THREE])),
    "mixed labels": (TAGIClassifier((4,), **SMALL), (X, MIXED)),
}  # fmt: skip


def fitted(name):
    model, rows = MODELS[name]
    model = clone(model)
    return model if rows is None else model.fit(rows[0][:100], rows[1][:100])


def predictions(model, X):
    if hasattr(model, "classes_"):
        return np.array(model.predict_proba(X, return_std=True))
    return np.array(model.predict(X, return_std=True))


def assert_same(first, second):
    """Parameters and state are equal, and of equal types."""
    one, two = first.__getstate__(), second.__getstate__()
    assert one.keys() == two.keys()
    assert pack(one, "") == pack(two, "")


@pytest.mark.parametrize("name", MODELS)
def test_a_round_trip_is_equal_to_the_last_bit_and_goes_on(name):
    model = fitted(name)
    data = model.to_bytes()
    again = type(model).from_bytes(data)
    assert again.to_bytes() == data
    assert_same(again, model)
    assert repr(again) == repr(model)
    if MODELS[name][1] is None:
        assert not again.__sklearn_is_fitted__()
        return
    X, y = MODELS[name][1]
    np.testing.assert_array_equal(predictions(again, X[100:]), predictions(model, X[100:]))
    for estimator in (again, model):
        estimator.partial_fit(X[100:115], y[100:115]).partial_fit(X[115:], y[115:])
    assert_same(again, model)
    np.testing.assert_array_equal(predictions(again, X[:9]), predictions(model, X[:9]))


def test_a_stream_of_rows_is_saved_after_each():
    model = TAGIRegressor(n_members=2, random_state=0)
    saved = clone(model)
    for row in range(30):
        chunk = X[row : row + 1], Y[row : row + 1]
        saved = TAGIRegressor.from_bytes(saved.to_bytes()).partial_fit(*chunk)
        model.partial_fit(*chunk)
    assert_same(saved, model)
    assert saved.prequential_log_likelihood_ == model.prequential_log_likelihood_


def test_size_does_not_grow_with_rows():
    model = TAGIRegressor((4,), n_members=2, random_state=0).partial_fit(X, Y)
    sizes = [len(model.partial_fit(X, Y).to_bytes()) for _ in range(20)]
    assert max(sizes[5:]) - min(sizes[5:]) < 100  # digits of counts


def test_what_is_read_does_not_hold_the_bytes_and_may_be_written_to():
    data = bytearray(fitted("texts").to_bytes())
    model = TAGIClassifier.from_bytes(data)
    before = predictions(model, X[:3])
    data[:] = bytes(len(data))
    np.testing.assert_array_equal(predictions(model, X[:3]), before)
    assert model.coefs_[0].flags.writeable
    assert model._net.layers[0].mu.flags.owndata


def test_a_subclass_reads_what_it_wrote_with_its_own_parameters():
    class Named(TAGIRegressor):
        def __init__(self, label="x", half_life=None, max_iter=2):
            super().__init__((4,), half_life=half_life, max_iter=max_iter)
            self.label = label

    model = Named("line 3").fit(X, Y)
    again = Named.from_bytes(model.to_bytes())
    assert (type(again), again.label) == (Named, "line 3")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="saved state of a Named, not of a TAGIRegressor"):
        TAGIRegressor.from_bytes(model.to_bytes())


def test_a_forked_estimator_can_be_merged_after_a_round_trip():
    from sktagi.merging import merge

    start = fork(TAGIRegressor((4,), **SMALL).fit(X[:80], Y[:80]))
    parts = slice(80, 100), slice(100, 130)
    shards = [TAGIRegressor.from_bytes(start.to_bytes()).partial_fit(X[p], Y[p]) for p in parts]
    expected = merge([deepcopy(start).partial_fit(X[p], Y[p]) for p in parts])
    np.testing.assert_array_equal(merge(shards).predict(X), expected.predict(X))


# Parameters


PLAIN = [
    {"random_state": np.random.RandomState(7)},
    {"random_state": np.random.RandomState(np.random.PCG64(3))},
    {"random_state": np.int64(3)},
    {"hidden_layer_sizes": np.array([4, 5])},
    {"hidden_layer_sizes": range(3, 5)},
    {"half_life": Fraction(7, 2)},
    {"tol": np.float32(0.25)},
    {"categorical_features": np.array([True, False])},
    {"categorical_features": ["a", "b"]},
    {"cv": [(np.arange(3), np.arange(3, 5))]},
    {"cv": KFold(3, shuffle=True, random_state=1)},
    {"cv": PredefinedSplit([0, 1, -1])},
    {"cv": RepeatedKFold(n_splits=3, n_repeats=2, random_state=1)},
    {"cv": GroupKFold(2)},
    {"cv": StratifiedKFold(2)},
    {"cv": ShuffleSplit(4, test_size=0.25)},
    {"cv": TimeSeriesSplit(3, gap=1)},
    {"target_transform": FunctionTransformer(np.log1p, np.expm1)},
    {"target_transform": make_pipeline(StandardScaler(), PowerTransformer())},
    {"target_transform": QuantileTransformer(n_quantiles=20)},
]  # fmt: skip


def without_address(params):
    return re.sub(r" at 0x\w+", "", repr(params))[:60]


@pytest.mark.parametrize("params", PLAIN, ids=without_address)
def test_known_parameters_are_saved(params):
    model = TAGIRegressor(**params)
    again = TAGIRegressor.from_bytes(model.to_bytes())
    (found,), (expected,) = [
        [m.get_params(deep=False)[name] for name in params] for m in (again, model)
    ]
    assert type(found) is type(expected)
    if isinstance(expected, np.random.RandomState):
        assert found.randint(1000, size=9).tolist() == expected.randint(1000, size=9).tolist()
    else:
        assert repr(found) == repr(expected)


def test_generators_go_on_where_they_were():
    model = TAGIRegressor(random_state=np.random.RandomState(3))
    model.random_state.normal(size=3)  # the next one is kept inside
    again = TAGIRegressor.from_bytes(model.to_bytes())
    assert again.random_state.normal() == model.random_state.normal()


def test_a_fitted_transformer_of_targets_is_saved():
    for transform in (
        QuantileTransformer(n_quantiles=20, output_distribution="normal"),
        make_pipeline(FunctionTransformer(np.sqrt, np.square), StandardScaler()),
    ):
        model = TAGIRegressor((4,), target_transform=transform, **SMALL).fit(X, np.exp(Y))
        again = TAGIRegressor.from_bytes(model.to_bytes())
        np.testing.assert_array_equal(predictions(again, X), predictions(model, X))
        again.partial_fit(X[:5], np.exp(Y[:5]))


def _double(y):
    return 2 * y


class OwnSplitter:
    def split(self, X, y=None, groups=None):
        yield np.arange(50), np.arange(50, 60)

    def get_n_splits(self, *args):
        return 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cv": OwnSplitter()}, "cv holds a OwnSplitter"),
        ({"cv": (pair for pair in [])}, "cv holds a generator"),
        ({"random_state": np.random}, "random_state holds <module"),
        ({"random_state": np.random.default_rng(0)}, "random_state holds a Generator"),
        ({"target_transform": FunctionTransformer(_double)}, "target_transform holds <function"),
        ({"target_transform": TAGIRegressor()}, "target_transform holds a TAGIRegressor"),
        ({"categorical_features": {"a"}}, "categorical_features holds a set"),
        ({"hidden_layer_sizes": np.zeros(2, "V2")}, "hidden_layer_sizes holds an array"),
    ],
)  # fmt: skip
def test_other_parameters_are_refused_by_name(params, message):
    with pytest.raises(ValueError, match=message):
        TAGIRegressor(**params).to_bytes()


def test_labels_that_are_no_plain_values_are_refused():
    y = np.empty(130, dtype=object)
    y[:] = [frozenset({int(value > 0)}) for value in Y]
    model = TAGIClassifier((4,), **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="classes_ holds a frozenset"):
        model.to_bytes()


def test_requests_of_metadata_are_saved():
    with sklearn.config_context(enable_metadata_routing=True):
        model = TAGIRegressor().set_fit_request(sample_weight=True, X_std="errors")
        again = TAGIRegressor.from_bytes(model.to_bytes())
        requests = again.get_metadata_routing().fit.requests
        assert requests == model.get_metadata_routing().fit.requests
        assert requests["sample_weight"] is True
        assert again.to_bytes() == model.to_bytes()
        header = json.loads(parts_of(model.to_bytes())[1])
        for wrong in (3, {"learn": {"a": True}}, {"fit": 3}, {"fit": {"sample_weight": 3}}):
            header["state"]["_metadata_request"] = wrong
            with pytest.raises(ValueError, match="TAGIRegressor is damaged"):
                TAGIRegressor.from_bytes(forged(model.to_bytes(), json.dumps(header).encode()))


def test_callbacks_are_refused():
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    model = TAGIRegressor().set_callbacks(callback.ProgressBar())
    with pytest.raises(ValueError, match="set_callbacks"):
        model.to_bytes()


# Damage


def parts_of(data):
    """Head, text and arrays of what to_bytes wrote."""
    length = _bytes._HEAD.unpack_from(data)[3]
    size = _bytes._HEAD.size
    return data[:size], data[size : size + length], data[size + length : -32]


def forged(data, text, version=1, arrays=None):
    """Bytes with another text, and with a length and a digest that fit."""
    arrays = parts_of(data)[2] if arrays is None else arrays
    length = _bytes._HEAD.size + len(text) + len(arrays) + 32
    body = _bytes._HEAD.pack(_bytes.MAGIC, version, length, len(text)) + text + arrays
    return body + hashlib.sha256(body).digest()


DATA = TAGIRegressor((2,), n_members=1, random_state=0).partial_fit(X[:20], Y[:20]).to_bytes()


def test_what_is_cut_off_is_refused():
    for length in [*range(0, 120), *range(120, len(DATA), 997), len(DATA) - 1]:
        with pytest.raises(ValueError, match="saved state of this TAGIRegressor is damaged"):
            TAGIRegressor.from_bytes(DATA[:length])
    with pytest.raises(ValueError, match="is damaged"):
        TAGIRegressor.from_bytes(DATA + b"\0")


def test_altered_states_with_a_right_digest_are_refused():
    logged = TAGIRegressor((2,), n_members=1, target_transform="log", random_state=0)
    logged.partial_fit(X[:20], np.exp(Y[:20] / 10))
    for data, old, new in [
        (DATA, b'"<f8"', b'","'),  # the name of a type, which NumPy parses
        (logged.to_bytes(), b'"log"', b'"log2"'),  # a transform that needs a range
    ]:
        text = parts_of(data)[1]
        assert old in text
        with pytest.raises(ValueError, match="saved state of this TAGIRegressor is damaged"):
            TAGIRegressor.from_bytes(forged(data, text.replace(old, new)))


def test_each_flipped_bit_is_refused():
    rng = np.random.default_rng(0)
    places = [*range(60), *rng.integers(60, len(DATA), 400), *range(len(DATA) - 32, len(DATA))]
    for place in places:
        data = bytearray(DATA)
        data[place] ^= 1 << rng.integers(8)
        with pytest.raises(ValueError, match="saved state of this TAGIRegressor is damaged"):
            TAGIRegressor.from_bytes(data)


@pytest.mark.parametrize(
    "data", [b"", b"text", bytes(1000), pickle.dumps({"a": 1}), b"\x93NUMPY" + bytes(100), DATA[1:]]
)
def test_other_files_are_refused(data):
    with pytest.raises(ValueError, match="saved state of this TAGIRegressor is damaged"):
        TAGIRegressor.from_bytes(data)


@pytest.mark.parametrize("data", [None, "text", 3, [1, 2]])
def test_what_is_no_bytes_is_refused(data):
    with pytest.raises(ValueError, match="data must be bytes"):
        TAGIRegressor.from_bytes(data)


def test_a_later_version_is_refused_by_name():
    with pytest.raises(ValueError, match=r"version 2 of the format; sktagi .* Upgrade sktagi"):
        TAGIRegressor.from_bytes(forged(DATA, b"whatever it holds", version=2))
    header = json.loads(parts_of(DATA)[1])
    header["state"]["_state_version"] = 99
    with pytest.raises(ValueError, match=r"state version 99; .* Upgrade sktagi"):
        TAGIRegressor.from_bytes(forged(DATA, json.dumps(header).encode()))


@pytest.mark.parametrize(("field", "value"), [("var", -1.0), ("var", np.nan), ("mu", np.inf)])
def test_numbers_that_cannot_be_are_refused(field, value):
    model = TAGIRegressor.from_bytes(DATA)
    getattr(model._net.layers[0], field)[0, 0, 0] = value
    with pytest.raises(ValueError, match=r"is damaged: .* not (finite|positive)"):
        TAGIRegressor.from_bytes(model.to_bytes())


def arrays_in(value):
    """Arrays of floats in a state, however deep."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
        yield value
    items = value.values() if isinstance(value, dict) else value
    if isinstance(value, (dict, list, tuple)):
        for item in items:
            yield from arrays_in(item)


@pytest.mark.parametrize("name", ["kinds", "kinds of classes", "table", "full", "power", "tree"])
def test_a_number_that_cannot_be_is_refused_or_does_no_harm_wherever_it_is(name):
    model, (X, y) = fitted(name), MODELS[name][1]
    model.partial_fit(X[100:110], y[100:110])
    state, n_refused = model.__getstate__(), 0
    arrays = list(arrays_in(state))
    for array in arrays:
        for wrong in (np.nan, np.inf, -1.0):
            right, array.flat[-1] = array.flat[-1].copy(), wrong
            data = pack(state, type(model).__name__)
            array.flat[-1] = right
            try:
                again = type(model).from_bytes(data)
            except ValueError as error:
                n_refused += "is damaged" in str(error)
                continue
            assert np.isfinite(predictions(again, X[110:])).all()
    assert n_refused > len(arrays)


def places_in(value):
    """Where the values of a text are, down to the last one."""
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, item in list(items):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from places_in(item)


def test_a_text_that_was_changed_is_refused_or_does_no_harm():
    text = parts_of(DATA)[1]
    n_refused = n_sound = 0
    n_places = len(list(places_in(json.loads(text))))
    wrongs = None, -3, "text", [], {"$array": 10**6}, {"$object": {}}, {"$new": 1}
    for place in range(n_places):
        for wrong in (wrongs[place % 7], wrongs[(place + 3) % 7]):
            header = json.loads(text)
            container, key = list(places_in(header))[place]
            container[key] = wrong
            try:
                model = TAGIRegressor.from_bytes(forged(DATA, json.dumps(header).encode()))
            except ValueError as error:
                n_refused += "of this TAGIRegressor" in str(error) or "of a" in str(error)
                continue
            n_sound += 1
            if model.__sklearn_is_fitted__():
                assert np.isfinite(predictions(model, X[:2])).all(), (container, key, wrong)
    assert n_refused + n_sound == 2 * n_places
    assert n_refused > n_sound > 0


def test_texts_that_are_no_state_are_refused():
    for text in (b"", b"{", b"[]", b"3", b"null", b"{}", b'{"arrays":[],"kind":3,"state":{}}',
                 b"[" * 100_000, b"\xff\xfe"):  # fmt: skip
        with pytest.raises(ValueError, match="TAGIRegressor"):
            TAGIRegressor.from_bytes(forged(DATA, text))


def test_a_state_names_no_code():
    for content in (
        {"function": "load", "module": "numpy"},
        {"transformer": "TAGIRegressor", "state": {}},
        {"splitter": "GridSearchCV", "parameters": {}},
        {"RandomState": {"bit_generator": "Generator"}},
    ):
        text = {"kind": "", "arrays": [], "state": {"a": {"$object": content}}}
        with pytest.raises(ValueError, match="is damaged"):
            unpack(forged(DATA, json.dumps(text).encode(), arrays=b""), "")


@pytest.mark.parametrize(
    "value",
    [
        np.float64(0.1), np.array(3.0), np.zeros((0, 3)), np.zeros(3, "U0"), np.array(["a", "öä"]),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(6.0).reshape(2, 3)[:, ::2],
        np.array([1, 2], dtype=">i4"), np.array(["2020-01-01"], "M8[D]"), np.array([True, False]),
        np.array([[("a", 1), None], [1.5, "b"]], dtype=object)[:, :1], float("inf"), 2**80, -0.0,
        {"$array": 0}, {"a": {"$b": 1}}, {1: "a", None: (), False: []}, "\ud800", (1, ()),
        {}, [[]], np.str_("a"), np.bool_(True), np.datetime64("2020-01-01"),
    ],
    ids=repr,
)  # fmt: skip
def test_plain_values_come_back_as_they_were(value):
    found = unpack(pack({"value": value}, "k"), "k")["value"]
    assert type(found) is type(value)
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype.newbyteorder("=")
        assert found.shape == value.shape
        assert found.flags.fnc == value.flags.fnc
        assert found.tolist() == value.tolist()
    else:
        assert repr(found) == repr(value)


# Files


def test_a_file_is_written_and_read(tmp_path):
    model = fitted("texts")
    for path in (tmp_path / "a.tagi", str(tmp_path / "b.tagi")):
        model.save(path)
        assert_same(TAGIClassifier.load(path), model)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tagi", "b.tagi"]


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "model.tagi"
    path.write_bytes(DATA[:-5])
    with pytest.raises(ValueError, match=r"model\.tagi: The saved state .* is damaged"):
        TAGIRegressor.load(path)
    with pytest.raises(FileNotFoundError):
        TAGIRegressor.load(tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        TAGIRegressor().save(tmp_path / "no folder" / "model")


@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, moment):
    path = tmp_path / "model.tagi"
    TAGIRegressor(half_life=1).save(path)

    def fails(*args):
        raise KeyboardInterrupt if moment == "replace" else OSError("no space left")

    if moment == "write":
        monkeypatch.setattr(_saving, "_BINARY", 1 << 60)  # no such flag: opening fails
    else:
        monkeypatch.setattr(os, moment, fails)
    with pytest.raises((OSError, KeyboardInterrupt, OverflowError)):
        TAGIRegressor(half_life=2).save(path)
    monkeypatch.undo()
    assert TAGIRegressor.load(path).half_life == 1
    assert [p.name for p in tmp_path.iterdir()] == ["model.tagi"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions_and_links_are_kept(tmp_path):
    path, link = tmp_path / "model.tagi", tmp_path / "link"
    before = os.umask(0o027)
    try:
        TAGIRegressor().save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        link.symlink_to(path)
        TAGIRegressor(half_life=5).save(link)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert link.is_symlink()
    assert TAGIRegressor.load(path).half_life == 5


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path, monkeypatch):
    ours = [f".{name}.0123.sktagi-unfinished" for name in ("model.tagi", "other", "recent")]
    theirs = ["model.tagi.old", ".hidden", "0.sktagi-unfinished"]
    long_ago = time.time() - 2 * _saving.LEFTOVER_SECONDS
    for name in (*ours, *theirs):
        (tmp_path / name).write_bytes(b"part")
        if name != ours[2]:
            os.utime(tmp_path / name, (long_ago, long_ago))
    TAGIRegressor().save(tmp_path / "model.tagi")
    left = {"model.tagi", ours[2], *theirs}
    assert {p.name for p in tmp_path.iterdir()} == left
    os.utime(tmp_path / ours[2], (long_ago, long_ago))
    TAGIRegressor().save(tmp_path / "model.tagi")  # not looked for again before an hour is over
    assert {p.name for p in tmp_path.iterdir()} == left
    monkeypatch.setitem(_saving._swept, tmp_path.resolve(), long_ago)
    TAGIRegressor().save(tmp_path / "model.tagi")
    assert {p.name for p in tmp_path.iterdir()} == left - {ours[2]}


def test_threads_that_save_to_one_file_leave_one_of_theirs(tmp_path):
    path = tmp_path / "model.tagi"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: TAGIRegressor(half_life=k).save(path), range(1, 41)))
    assert TAGIRegressor.load(path).half_life in range(1, 41)
    assert [p.name for p in tmp_path.iterdir()] == ["model.tagi"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="part of a checkout only")
def test_kills_while_a_file_is_written_lose_nothing(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "kills", "--kills", "12", "--folder", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("| save |"))
    kills, _, lost, unreadable = (int(cell) for cell in row.split("|")[2:6])
    assert (kills, lost, unreadable) == (12, 0, 0)


def test_documented_version_of_the_state_is_that_of_the_code():
    from sktagi._state import STATE_VERSION

    page = (ROOT / "doc" / "state.md").read_text()
    assert f"`_state_version`, now {STATE_VERSION}" in page
    assert f"format {_bytes.FORMAT_VERSION}" in page
