"""The regressor of skpro: its own checks, and updates that are partial_fit."""

import numpy as np
import pytest

pytest.importorskip("skpro")
import pandas as pd
from skpro.utils import check_estimator

from sktagi import TAGIRegressor
from sktagi.skpro import TAGIProbaRegressor


def test_checks_of_skpro():
    results = check_estimator(TAGIProbaRegressor, raise_exceptions=False, verbose=False)
    assert len(results) > 40
    assert {name: found for name, found in results.items() if found != "PASSED"} == {}


@pytest.mark.parametrize("inner_type", ["pd.DataFrame", "np.ndarray"])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_update_is_partial_fit(inner_type, n_targets):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(150, 2)), columns=["a", "b"])
    y = pd.DataFrame(X.to_numpy()[:, :n_targets] + 0.1, columns=["y", "z"][:n_targets])
    settings = {"hidden_layer_sizes": (5,), "n_members": 2, "max_iter": 3, "random_state": 0}
    given = TAGIRegressor(**settings)
    model = TAGIProbaRegressor(given, inner_type).fit(X[:100], y[:100])
    assert model.update(X[100:], y[100:]) is model
    assert not given.__sklearn_is_fitted__()
    X_inner = X if inner_type == "pd.DataFrame" else X.to_numpy()
    targets = y.to_numpy() if n_targets == 2 else y.to_numpy()[:, 0]
    by_hand = TAGIRegressor(**settings).fit(X_inner[:100], targets[:100])
    by_hand.partial_fit(X_inner[100:], targets[100:])
    mean, std = by_hand.predict(X_inner, return_std=True)
    found = model.predict_proba(X)
    assert found.columns.tolist() == y.columns.tolist()
    np.testing.assert_allclose(found.mean().to_numpy(), mean.reshape(150, -1), rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(found.var().to_numpy()), std.reshape(150, -1), rtol=1e-9)


def test_without_an_estimator_it_is_a_default_one():
    model = TAGIProbaRegressor()
    assert model.get_params() == {"estimator": None, "inner_type": "pd.DataFrame"}
    X = pd.DataFrame({"a": np.linspace(-1, 1, 40)})
    model.fit(X, X.rename(columns={"a": "y"}))
    assert repr(model.estimator_) == "TAGIRegressor()"
