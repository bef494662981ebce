"""What random configurations have found: numbers near the ends of the range, and rare ways in."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import r2_score

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.tables.completion import fit_gaussian

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
BOTH = pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
QUICK = {"hidden_layer_sizes": (4,), "n_members": 2, "max_iter": 3, "random_state": 0}
AUTO = {**QUICK, "hidden_layer_sizes": "auto"}


@pytest.fixture(autouse=True)
def _runtime_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def targets(estimator):
    return Y if estimator is TAGIRegressor else Y > 0


@BOTH
@pytest.mark.parametrize("scale", [1e20, 1e37])
def test_a_row_far_beyond_single_precision_is_predicted_in_double(estimator, scale):
    rows = X.astype(np.float32)
    model = estimator(**QUICK).fit(rows, targets(estimator))
    far = np.full((1, 3), scale, dtype=np.float32)
    if estimator is TAGIClassifier:
        proba, std = model.predict_proba(far, return_std=True)
        assert proba.dtype == np.float32
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
        assert np.isfinite(std).all()
        return
    mean, std = model.predict(far, return_std=True)
    assert mean.dtype == std.dtype == np.float32
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > model.predict(rows, return_std=True)[1].max()).all()


@pytest.mark.parametrize("sizes", [(4,), "auto"])
@pytest.mark.parametrize("seed", range(4))
def test_classes_are_sound_if_the_row_held_out_is_beyond_single_precision(sizes, seed):
    """One row is learned, and gives the columns no unit."""
    rows = np.array([[0, 0], [0, -1e29]], dtype=np.float32)
    model = TAGIClassifier(sizes, n_members=1, max_iter=1, random_state=seed).fit(rows, [0, 1])
    assert np.isfinite(model.validation_scores_).all()
    for some in (rows, np.ones((1, 2), np.float32)):
        proba, std = model.predict_proba(some, return_std=True)
        assert np.isfinite(proba).all()
        assert np.isfinite(std).all()


@BOTH
def test_a_row_beyond_double_precision_is_refused(estimator):
    model = estimator(**{**QUICK, "standardize": False}).fit(X, targets(estimator))
    with pytest.raises(ValueError, match=r"X, X_std .* values that are too large"):
        model.predict(np.full((2, 3), 1e200))


@BOTH
@pytest.mark.parametrize("scale", [1e30, 1e150, 1e300])
@pytest.mark.parametrize("params", [QUICK, AUTO, {**QUICK, "covariance_type": "full"}])
def test_features_beyond_the_range_are_refused_without_a_warning(estimator, scale, params):
    model = estimator(**{**params, "standardize": False})
    for method in ("fit", "partial_fit"):
        classes = {"classes": [False, True]} if estimator is TAGIClassifier else {}
        given = classes if method == "partial_fit" else {}
        message = ""
        try:
            getattr(model, method)(X * scale, targets(estimator), **given)
            found = model.predict(X * scale)
        except ValueError as error:
            message, found = str(error), np.zeros(1)
        assert not message or "X" in message
        assert np.isfinite(np.asarray(found, dtype=float)).all()


def test_targets_without_squares_are_refused():
    for scale, message in ((1e-200, "y has values too small"), (1e200, "y has values too large")):
        for target_transform in (None, "power"):
            model = TAGIRegressor(**QUICK, target_transform=target_transform)
            with pytest.raises(
                ValueError, match=rf"{message}|{message.replace('values', 'values that are')}"
            ):
                model.fit(X, Y * scale)


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
@pytest.mark.parametrize("sizes", [(), "auto"])
def test_targets_without_squares_are_refused_where_nothing_gives_them_units(way, sizes):
    """Otherwise scores of the noise would be NaN, and the state could not be saved."""
    model = TAGIRegressor(sizes, n_members=1, max_iter=1, standardize=False, random_state=0)
    with pytest.raises(ValueError, match="y has values too large to learn"):
        getattr(model, way)([[0.1], [-0.1]], [-1e299, -2e299])
    assert not hasattr(model, "n_features_in_")


def test_the_score_has_no_units():
    model = TAGIRegressor(**QUICK).fit(X, Y)
    expected = model.score(X, Y)
    assert expected == r2_score(Y, model.predict(X))
    for scale in (2.0**-480, 2.0**480):
        model = TAGIRegressor(**QUICK).fit(X, Y * scale)
        np.testing.assert_allclose(model.score(X, Y * scale), expected, rtol=1e-6)
    model = TAGIRegressor(**QUICK).fit(X, Y)
    assert model.score(X, Y * 1e-300) <= 0
    assert np.isfinite(model.score(X, Y * 1e300))


@pytest.mark.parametrize("size", [1.7e18, 1.3e30, 1.7e30])
def test_a_large_constant_column_tells_nothing_of_missing_values(size):
    """Its rounding errors are large numbers."""
    values = np.column_stack([X, np.full(60, size)])
    values[::7, 0] = np.nan
    weight = RNG.uniform(0.5, 2, 60)
    found = fit_gaussian(values, weight)
    assert found is not None
    without = fit_gaussian(values[:, :3], weight)
    np.testing.assert_allclose(found.correlation[:3, :3], without.correlation, atol=1e-12)
    np.testing.assert_array_equal(found.correlation[3, :3], 0)
    model = TAGIRegressor(**QUICK).fit(values, Y)
    assert model.score(values, Y) > 0.3


@BOTH
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("params", [QUICK, AUTO])
def test_sparse_rows_of_few_columns_are_dense_in_later_calls_too(estimator, standardize, params):
    some = np.where(RNG.random(X.shape) < 0.5, X, 0)
    y, params = targets(estimator), {**params, "standardize": standardize, "warm_start": True}

    def learned(make):
        model = estimator(**params).fit(make(some), y).fit(make(some), y)
        model.partial_fit(make(some[:20]), y[:20])
        if estimator is TAGIClassifier:
            return model.predict_proba(make(some), return_std=True)
        return model.predict(make(some), return_std=True)

    for found, expected in zip(learned(sparse.csr_array), learned(np.asarray), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_integers_as_sparse_rows_are_seen_in_pieces():
    counts = RNG.poisson(2, size=(60, 2))
    model = TAGIRegressor(**AUTO, standardize=False).fit(counts, Y)
    found = model.predict(sparse.csc_matrix(counts))
    np.testing.assert_allclose(found, model.predict(counts), rtol=1e-10)


def test_sparse_rows_are_seen_in_pieces_together_too():
    counts = np.random.default_rng(0).poisson(2, size=(60, 2))
    model = TAGIRegressor(**{**AUTO, "max_iter": 0}, standardize=False).fit(counts, Y)
    assert model.kinds_["pieces"]
    rows = sparse.csc_matrix(counts)
    covs = [model.predict(x, return_cov=True)[1] for x in (rows, counts)]
    np.testing.assert_allclose(covs[0], covs[1], rtol=1e-10)
    draws = [model.sample_functions(2, random_state=0)(x) for x in (rows, counts)]
    np.testing.assert_allclose(draws[0], draws[1], rtol=1e-10)


@pytest.mark.parametrize("scale", [1e19, 1e25, 1e37])
@pytest.mark.parametrize("n", [4, 60])
def test_scores_are_finite_where_the_numbers_of_some_networks_overflow(scale, n):
    """Without units, in single precision: networks that see pieces of the inputs still learn."""
    rows = (X[:n] * scale).astype(np.float32)
    model = TAGIRegressor(**{**AUTO, "standardize": False}).fit(rows, Y[:n])
    assert np.isfinite(model.train_scores_).all()
    assert np.isfinite(model.validation_scores_).all()
