"""
Quick start
===========

Fit :class:`~sktagi.TAGIRegressor` to a bundled data set and compare it with scikit-learn's
``MLPRegressor``, which has no standard deviations of its own.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIRegressor
from sktagi.metrics import gaussian_log_likelihood, interval_coverage

X, y = load_diabetes(return_X_y=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

tagi = TAGIRegressor(random_state=0).fit(X_train, y_train)
mean, std = tagi.predict(X_test, return_std=True)

print("Disease progression of five patients of the test set")
print("   true   predicted   90 % interval")
for target, m, (low, high) in zip(
    y_test[:5], mean, tagi.predict_interval(X_test, coverage=0.9), strict=False
):
    print(f"  {target:5.0f}   {m:5.0f}       {low:4.0f} to {high:3.0f}")

# One split says little. MLPRegressor has no standard deviation of its own: the fairest constant one
# is that of its errors on held-out rows.
scores = {"TAGIRegressor": [], "MLPRegressor": []}
for split in range(5):
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=split)
    tagi = TAGIRegressor(random_state=split).fit(X_train, y_train)
    dist = tagi.predict_dist(X_test)
    scores["TAGIRegressor"].append(
        (
            root_mean_squared_error(y_test, dist.mean()),
            tagi.log_likelihood(X_test, y_test),
            100 * interval_coverage(y_test, dist, coverage=0.9),
        )
    )
    mlp = make_pipeline(
        StandardScaler(),
        MLPRegressor(
            hidden_layer_sizes=(50,), early_stopping=True, max_iter=2000, random_state=split
        ),
    )
    X_fit, X_spread, y_fit, y_spread = train_test_split(
        X_train, y_train, test_size=0.1, random_state=split
    )
    mlp.fit(X_fit, y_fit)
    mean = mlp.predict(X_test)
    std = np.full(len(mean), np.std(y_spread - mlp.predict(X_spread)))
    scores["MLPRegressor"].append(
        (
            root_mean_squared_error(y_test, mean),
            gaussian_log_likelihood(y_test, mean, std),
            100 * interval_coverage(y_test, mean, std, coverage=0.9),
        )
    )

print()
print("Mean over the test sets of five splits")
print("                 RMSE   log-likelihood   inside 90 % interval")
for name, rows in scores.items():
    rmse, log_lik, inside = np.mean(rows, axis=0)
    print(f"  {name:13s} {rmse:6.2f}   {log_lik:10.3f}   {inside:13.0f} %")
