"""Shards of tables with categories and missing values: beside fits of all rows at once."""

import warnings

import numpy as np
import pytest
from sklearn.base import is_classifier

from sktagi import TAGIClassifier, TAGIRegressor

pytest.importorskip("distributed")
clusters = pytest.importorskip("clusters")
dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
da = pytest.importorskip("dask.array")

ESTIMATORS = [TAGIRegressor, TAGIClassifier]
ONE = {"hidden_layer_sizes": (10,), "n_members": 2, "max_iter": 30, "random_state": 0}
THREE = {**ONE, "max_iter": 90, "n_iter_no_change": 60}  # three shards: a third of the steps each


@pytest.fixture(scope="module")
def client():
    with clusters.cluster(as_default=True) as client:
        yield client


def make_table(n=900, seed=0, missing=True):
    """A frame of texts, a category with a declared level that never occurs, and numbers."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c", "d"], size=n, p=[0.5, 0.3, 0.15, 0.05])
    size = rng.choice(["small", "big"], size=n)
    x, w = rng.normal(size=(2, n))
    y = 2.0 * (kind == "a") - 1.5 * (kind == "c") + np.sin(2 * x) + 0.5 * w * (size == "big")
    y += 0.2 * rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "kind": kind,
            "size": pd.Categorical(size, categories=["small", "medium", "big"]),
            "x": x,
            "near": x + 0.3 * rng.normal(size=n),
            "w": w,
        }
    )
    if missing:
        for name, share in (("kind", 0.1), ("size", 0.05), ("x", 0.2), ("w", 0.1)):
            frame.loc[rng.random(n) < share, name] = None
    return frame, y


def targets(model, y):
    return np.where(y > 0.5, "high", "low") if is_classifier(model) else y


def in_partitions(frame, y, n=3):
    both = dd.from_pandas(frame.assign(target=y), npartitions=n)
    return both[list(frame)], both["target"]


def predictions(model, X):
    if is_classifier(model):
        return model.predict_proba(X)
    return np.stack(model.predict(X, return_std=True))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_shards_of_a_table_learn_nearly_what_fit_does(client, estimator):
    from sktagi.dask import fit_shards

    frame, y = make_table()
    model = estimator(**ONE)
    y = targets(model, y)
    whole = model.fit(frame, y)
    sharded = fit_shards(estimator(**THREE), *in_partitions(frame, y))
    assert list(sharded.encoded_feature_names_) == list(whole.encoded_feature_names_)
    assert list(sharded.feature_names_in_) == list(frame)
    new, new_y = make_table(3000, seed=1)
    new_y = targets(model, new_y)
    assert sharded.score(new, new_y) > whole.score(new, new_y) - 0.02
    assert sharded.log_likelihood(new, new_y) > whole.log_likelihood(new, new_y) - 0.05
    np.testing.assert_allclose(sharded.feature_importances_, whole.feature_importances_, atol=0.1)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_columns_and_statistics_of_shards_are_those_of_all_rows(client, estimator):
    """With nothing held out and no epochs, even predictions are the same to rounding."""
    from sktagi.dask import fit_shards

    frame, y = make_table()
    model = estimator(**{**ONE, "max_iter": 0}, early_stopping=False)
    y = targets(model, y)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    X, labels = in_partitions(frame, y)
    weights = dd.from_pandas(pd.Series(weight), npartitions=3)
    sharded, whole = fit_shards(model, X, labels, sample_weight=weights), model
    whole.fit(frame, y, sample_weight=weight)
    for name in ("floor", "mean", "n_missing", "missing_columns", "center", "width"):
        mine, theirs = (getattr(a._columns, name) for a in (sharded, whole))
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, err_msg=name)
    for mine, theirs in zip(sharded._columns.shares, whole._columns.shares, strict=True):
        if theirs is not None:
            np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    np.testing.assert_allclose(sharded._scaling.x.mean, whole._scaling.x.mean, atol=1e-12)
    np.testing.assert_allclose(sharded._scaling.x.scale, whole._scaling.x.scale, rtol=1e-12)
    new, _ = make_table(200, seed=1)
    np.testing.assert_allclose(predictions(sharded, new), predictions(whole, new), rtol=1e-9)


def test_levels_are_those_of_all_partitions(client):
    """Levels that one partition alone has, and categories of which dask knows no levels."""
    from sktagi.dask import fit_shards

    frame, y = make_table(missing=False)
    frame, y = frame.sort_values("kind"), y[frame["kind"].argsort(kind="stable")]
    X, labels = in_partitions(frame, y)
    model = TAGIRegressor(**{**ONE, "max_iter": 1})
    texts = list(fit_shards(model, X, labels).encoded_feature_names_)
    assert texts == list(model.fit(frame, y).encoded_feature_names_)
    unknown = X.assign(kind=X["kind"].astype("category"))
    assert not unknown["kind"].cat.known
    assert list(fit_shards(model, unknown, labels).encoded_feature_names_) == texts
    known = X.categorize("kind")  # whose levels have an order of their own
    found = list(fit_shards(model, known, labels).encoded_feature_names_)
    assert found == list(model.fit(known.compute(), y).encoded_feature_names_)


def test_rare_levels_are_counted_over_all_partitions(client):
    """Two rows in each of three partitions are six, enough for a column of their own."""
    from sktagi.dask import fit_shards

    frame, y = make_table(300, missing=False)
    frame.iloc[[0, 1, 120, 121, 220, 221], 0] = "rare"
    frame.iloc[[50, 150], 0] = "rarer"
    frame.iloc[[250], 0] = "rarest"
    model = TAGIRegressor(**{**ONE, "max_iter": 1})
    sharded = fit_shards(model, *in_partitions(frame, y))
    names = list(sharded.encoded_feature_names_)
    assert "kind_rare" in names
    assert "kind_infrequent" in names
    assert names == list(model.fit(frame, y).encoded_feature_names_)


def test_a_column_of_numbers_and_texts_is_a_category_everywhere(client):
    """In a partition of numbers alone too: "1" and 1 are one level."""
    from sktagi.dask import fit_shards

    X, y = clusters.make_rows(300)
    code = np.array([1, 2] * 150, dtype=object)
    code[200:] = np.array(["1", "2", "x", "2"] * 25, dtype=object)
    frame = pd.DataFrame({"number": X[:, 0], "code": pd.Series(code, dtype=object)})
    parts = [frame[:100], frame[100:200], frame[200:]]
    model = fit_shards(TAGIRegressor(**{**ONE, "max_iter": 1}), parts, np.split(y, 3))
    names = list(model.encoded_feature_names_)
    assert names == ["number", "code_1", "code_2", "code_x"]
    assert names == list(model.fit(frame, y).encoded_feature_names_)


def test_categorical_features_of_arrays(client):
    from sktagi.dask import fit_shards

    X, y = clusters.make_rows(300)
    X[:, 2] = np.arange(300) // 100 + np.arange(300) % 2
    model = TAGIRegressor(**{**ONE, "max_iter": 1}, categorical_features=[2])
    sharded = fit_shards(model, *clusters.chunked(X, y, 3))
    assert list(sharded.encoded_feature_names_) == ["x0", "x1", "x2_0", "x2_1", "x2_2", "x2_3"]
    assert list(model.fit(X, y).encoded_feature_names_) == list(sharded.encoded_feature_names_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_shards_of_arrays_with_missing_values(client, estimator):
    """Of one column a partition has no value at all, of another no partition has."""
    from sktagi.dask import fit_shards

    X, y = clusters.make_rows(600)
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[200:400, 1] = np.nan
    X = np.column_stack([X, np.full(600, np.nan)])
    model = estimator(**ONE)
    y = targets(model, y - y.mean() + 0.5)
    sharded, whole = fit_shards(model, *clusters.chunked(X, y, 3)), model.fit(X, y)
    assert list(sharded.encoded_feature_names_) == list(whole.encoded_feature_names_)
    assert np.isfinite(predictions(sharded, X)).all()
    assert sharded.score(X, y) > (0.6 if is_classifier(model) else 0.3)  # by chance: 0.5 and 0
    np.testing.assert_array_equal(sharded._columns.is_empty, [False, False, False, True])


def test_a_sparse_matrix_in_chunks_may_have_missing_values(client):
    from scipy import sparse

    from sktagi.dask import fit_shards

    rng = np.random.default_rng(0)
    X = sparse.random_array((600, 300), density=0.05, random_state=rng, format="csr")
    y = X[:, :20].sum(axis=1) + 0.1 * rng.normal(size=600)
    X.data[rng.random(len(X.data)) < 0.1] = np.nan
    model = TAGIRegressor(**{**ONE, "max_iter": 5})
    parts = [X[:200], X[200:400], X[400:]]
    sharded, whole = fit_shards(model, parts, np.split(y, 3)), model.fit(X, y)
    assert list(sharded.encoded_feature_names_) == list(whole.encoded_feature_names_)
    np.testing.assert_allclose(sharded._columns.mean, whole._columns.mean, rtol=1e-12)
    assert np.isfinite(predictions(sharded, X)).all()
    with pytest.raises(ValueError, match="sparse"):
        fit_shards(model, [X[:300], X[300:].toarray()], np.split(y, 2))


def test_many_levels_are_learned_as_a_sparse_matrix(client):
    from sktagi.dask import fit_shards

    rng = np.random.default_rng(0)
    level = rng.integers(300, size=3000)
    frame = pd.DataFrame({"level": level.astype(str), "x": rng.normal(size=3000)})
    y = rng.normal(size=300)[level] + 0.1 * rng.normal(size=3000)
    model = TAGIRegressor(hidden_layer_sizes=(), n_members=1, max_iter=10, random_state=0)
    sharded, whole = fit_shards(model, *in_partitions(frame, y, 2)), model.fit(frame, y)
    assert list(sharded.encoded_feature_names_) == list(whole.encoded_feature_names_)
    assert sharded.score(frame, y) > 0.9


def test_heavy_tails_and_rare_flags_are_found_over_all_partitions(client):
    from sktagi.dask import fit_shards

    X, y = clusters.make_rows(600)
    X = np.column_stack([X, np.arange(600) % 200 == 0])  # one row of each partition
    X[17, 2] = -9999
    model = TAGIRegressor(**{**ONE, "max_iter": 1})
    sharded, whole = fit_shards(model, *clusters.chunked(X, y, 3)), model.fit(X, y)
    assert whole._columns.width[2] > 0
    np.testing.assert_allclose(sharded._columns.width, whole._columns.width, rtol=1e-12)
    np.testing.assert_allclose(sharded._columns.floor, whole._columns.floor, rtol=1e-12)
    assert sharded._scaling.x.scale[3] == pytest.approx(0.1)


def test_partitions_that_differ_in_their_columns_are_named(client):
    from sktagi.dask import fit_shards

    X, y = clusters.make_rows(200)
    parts = [X[:100], X[100:, :2]]
    with pytest.raises(ValueError, match=r"Partitions differ in n_features_in: [23] and [23]"):
        fit_shards(TAGIRegressor(**ONE), parts, np.split(y, 2))
    frame, _ = make_table(200)
    parts = [frame[:100], frame[100:].rename(columns={"x": "z"})]
    with pytest.raises(ValueError, match="Partitions differ in feature_names_in"):
        fit_shards(TAGIRegressor(**ONE), parts, np.split(y, 2))
    dates = frame.assign(day=pd.Timestamp("2024-02-29"))
    with pytest.raises(ValueError, match=r"'day' of X holds dates"):
        fit_shards(TAGIRegressor(**ONE), [dates[:100], dates[100:]], np.split(y, 2))


def test_tables_go_on_in_memory_after_shards(client):
    from sktagi.dask import fit_shards

    frame, y = make_table()
    model = fit_shards(TAGIRegressor(**{**ONE, "max_iter": 5}), *in_partitions(frame, y))
    before = model.log_likelihood(frame, y)
    model.partial_fit(frame, y)
    assert model.log_likelihood(frame, y) > before - 0.1
    assert model.n_samples_seen_ == 2 * len(y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_partitions_of_a_table_are_predicted_as_its_rows(client, estimator):
    """By dask-ml's wrapper and by ``map_partitions``, with levels that were never seen."""
    wrappers = pytest.importorskip("dask_ml.wrappers")
    frame, y = make_table(400)
    model = estimator(**{**ONE, "max_iter": 3})
    y = targets(model, y)
    model.fit(frame, y)
    new, _ = make_table(300, seed=1)
    new.iloc[:20, 0] = "new"
    X = dd.from_pandas(new, npartitions=3)
    expected = predictions(model, new)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dask-ml, on frames
        post = wrappers.ParallelPostFit(model)
        if is_classifier(model):
            np.testing.assert_array_equal(np.asarray(post.predict(X).compute()), model.predict(new))
            found = np.asarray(post.predict_proba(X).compute())
        else:
            np.testing.assert_allclose(np.asarray(post.predict(X).compute()), expected[0])
            meta = {"mean": float, "std": float}

            def both(rows):
                return pd.DataFrame(predictions(model, rows).T, rows.index, columns=list(meta))

            found = X.map_partitions(both, meta=meta).compute().to_numpy().T
    np.testing.assert_allclose(found, expected, rtol=1e-12)
