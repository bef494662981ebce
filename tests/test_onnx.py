"""Graphs of ONNX give what estimators predict: to 1e-5, in double precision to 1e-7."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.engine.activations import ACTIVATIONS

skl2onnx = pytest.importorskip("skl2onnx")
runtime = pytest.importorskip("onnxruntime")

import sktagi.onnx  # noqa: E402

QUICK = {"max_iter": 8, "random_state": 0}
SMALL = {"hidden_layer_sizes": (12,), "n_members": 2, **QUICK}
# Runtimes have the error function in single precision only.
TOLERANCES = {np.float64: 1e-7, np.float32: 1e-5}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [1, 10, 0.1, 3] + [0, 100, 0, -5]
    noise = np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=300)
    return X, np.sin(2 * X[:, 0]) + 30 * X[:, 2] + noise


def run(model, X, dtype=np.float64, **options):
    """Return the outputs of the graph of an estimator."""
    X = np.asarray(X, dtype=dtype)
    graph = skl2onnx.to_onnx(model, X[:1], options={id(model): options} if options else None)
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"X": X})


def assert_same_regression(model, X, dtype=np.float64):
    X = X.astype(dtype)
    mean, std = model.predict(X, return_std=True)
    ours = run(model, X, dtype, return_std=True)
    for found, expected in zip(ours, (mean, std), strict=True):
        assert found.dtype == dtype
        assert found.shape == (len(X), model.n_outputs_)
        atol = TOLERANCES[dtype] * mean.std()
        np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=1e-5, atol=atol)


def assert_same_classes(model, X, dtype=np.float64):
    X = X.astype(dtype)
    proba, std = model.predict_proba(X, return_std=True)
    label, p, s = run(model, X, dtype, return_std=True, zipmap=False)
    np.testing.assert_allclose(p, proba, rtol=0, atol=TOLERANCES[dtype])
    np.testing.assert_allclose(s, std, rtol=0, atol=TOLERANCES[dtype])
    np.testing.assert_array_equal(label.astype(model.classes_.dtype), model.predict(X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_unlike_members_with_noise_that_varies(rows, dtype):
    X, y = rows
    model = TAGIRegressor(max_iter=20, random_state=0).fit(X, y)
    assert model._net.noise_net.varies
    assert len(model.kinds_) > 1
    assert_same_regression(model, X, dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_activations(rows, activation, dtype):
    X, y = rows
    model = TAGIRegressor((9, 7), activation, sigma_v="constant", n_members=2, **QUICK).fit(X, y)
    assert_same_regression(model, X, dtype)


@pytest.mark.parametrize(
    "settings",
    [
        {"hidden_layer_sizes": ()},
        {"n_members": 1, "early_stopping": False},
        {"sigma_v": 0.5},
        {"standardize": False},
        {"max_iter": 0},
    ],
    ids=str,
)
def test_settings(rows, settings):
    X, y = rows
    assert_same_regression(TAGIRegressor(**{**SMALL, **settings}).fit(X, y), X)


def test_several_targets_one_row_and_a_constant_column(rows):
    X, y = rows
    X = np.column_stack([X, np.full(len(X), 7.0)])
    model = TAGIRegressor(max_iter=8, random_state=0).fit(X, np.column_stack([y, X[:, 1], -y]))
    assert_same_regression(model, X)
    assert_same_regression(model, X[:1])


def test_streams_bound_far_values_and_fits_clip_wrong_readings(rows):
    X, y = rows
    stream = TAGIRegressor(**SMALL)
    for start in range(0, 300, 50):
        stream.partial_fit(X[start : start + 50], y[start : start + 50])
    far = X[:5] * [1, 1e6, 1, -1e4]
    assert_same_regression(stream, np.vstack([X, far]))
    wrong = X.copy()
    wrong[7, 1] = -1e6
    model = TAGIRegressor(**SMALL).fit(wrong, y)
    assert model._table.width.any()
    assert_same_regression(model, wrong)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("sizes", ["auto", (12,)], ids=str)
def test_class_probabilities(rows, n_classes, sizes, dtype):
    X, y = rows
    names = np.array(["ash", "birch", "cedar", "dogwood", "elm"])
    labels = names[np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))]
    model = TAGIClassifier(sizes, **QUICK).fit(X, labels)
    assert_same_classes(model, np.vstack([X, 100 * X[:5]]), dtype)


@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_bundled_classes_in_single_precision(load):
    X, y = load(return_X_y=True)
    X, y = X[:600], y[:600]
    model = TAGIClassifier(n_members=3, **QUICK).fit(X.astype(np.float32), y)
    assert_same_classes(model, X, np.float32)


def test_streamed_classes_and_their_maps(rows):
    X, y = rows
    labels = (y > 0) * 10
    model = TAGIClassifier(**SMALL)
    model.partial_fit(X[:100], labels[:100], classes=[0, 10, 20])
    model.partial_fit(X[100:], labels[100:])
    assert_same_classes(model, X)
    numbers = run(model, X, nocl=True, zipmap=False)[0]
    np.testing.assert_array_equal(model.classes_[numbers], model.predict(X))
    with pytest.raises(ValueError, match="zipmap=False"):
        run(model, X)
    label, maps = run(model, X[:3], np.float32)
    np.testing.assert_array_equal(label, model.predict(X[:3]))
    expected = [dict(zip([0, 10, 20], p, strict=True)) for p in model.predict_proba(X[:3])]
    for found, proba in zip(maps, expected, strict=True):
        assert found == pytest.approx(proba, abs=1e-5)


def test_several_labels_of_a_row(rows):
    X, y = rows
    labels = np.column_stack([y > 0, X[:, 0] > 0, X[:, 3] > -5]).astype(int)
    assert_same_classes(TAGIClassifier(**SMALL).fit(X, labels), X)


def test_a_pipeline_that_encodes_and_imputes(rows):
    pd = pytest.importorskip("pandas")
    X, y = rows
    X = X.astype(np.float32)  # runtimes impute in single precision only
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.where(X[:, 3] > -5, "u", "v")})
    frame.loc[::7, "b"] = np.nan
    columns = ColumnTransformer(
        [
            ("numbers", SimpleImputer(), ["a", "b"]),
            ("kinds", OneHotEncoder(sparse_output=False), ["kind"]),
        ]
    )
    pipe = make_pipeline(columns, StandardScaler(), TAGIRegressor(**SMALL)).fit(frame, y)
    options = {id(pipe[-1]): {"return_std": True}}
    graph = skl2onnx.to_onnx(pipe, frame[:1], options=options)
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {name: frame[[name]].to_numpy() for name in frame})
    for ours, expected in zip(found, pipe.predict(frame, return_std=True), strict=True):
        np.testing.assert_allclose(ours[:, 0], expected, rtol=1e-5, atol=1e-5)


def test_columns_of_a_frame_are_inputs_of_their_own(rows):
    pd = pytest.importorskip("pandas")
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = TAGIRegressor(**SMALL).fit(frame, y)
    graph = skl2onnx.to_onnx(model, frame[:1])
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (mean,) = session.run(None, {name: frame[[name]].to_numpy() for name in frame})
    np.testing.assert_allclose(mean[:, 0], model.predict(frame), rtol=1e-7)


def test_a_subclass_is_registered_by_its_name(rows):
    class Mine(TAGIRegressor):
        pass

    X, y = rows
    sktagi.onnx.register(Mine)
    assert_same_regression(Mine(**SMALL).fit(X, y), X)


def gaps(X):
    X = X.copy()
    X[:10, 0] = np.nan
    return X


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (TAGIRegressor((3,), covariance_type="full", **QUICK), None, "covariance_type='full'"),
        (TAGIRegressor((3,), target_transform="power", **QUICK), None, "target_transform"),
        (TAGIRegressor(**SMALL), gaps, "missing values in X"),
        (TAGIClassifier(class_coding="tree", **SMALL), None, "class_coding='one_of_k'"),
    ],
    ids=["full", "transform", "missing", "tree"],
)
def test_what_cannot_be_exported_is_refused(rows, model, change, message):
    X, y = rows
    X = X if change is None else change(X)
    target = y if isinstance(model, TAGIRegressor) else np.digitize(y, [-1, 0, 1])
    model.fit(X, target)
    with pytest.raises(ValueError, match=message):
        run(model, X, np.float32)


def test_categories_floating_classes_and_old_opsets_are_refused(rows):
    X, y = rows
    codes = np.column_stack([np.arange(300) % 3, X[:, 0]])
    model = TAGIRegressor(categorical_features=[0], **SMALL).fit(codes, y)
    with pytest.raises(ValueError, match="categorical_features"):
        run(model, codes)
    classifier = TAGIClassifier(**SMALL).fit(X, np.where(y > 0, 0.5, 1.5).astype(object))
    with pytest.raises(ValueError, match="integers or text"):
        run(classifier, X, np.float32)
    one_class = TAGIClassifier(**SMALL).fit(X, np.zeros(300, dtype=int))
    with pytest.raises(ValueError, match="one class only"):
        run(one_class, X, np.float32, zipmap=False)
    with pytest.raises(ValueError, match="target_opset must be at least 18"):
        skl2onnx.to_onnx(TAGIRegressor(**SMALL).fit(X, y), X[:1], target_opset=15)
