"""
Quick start
===========

Fit :class:`~sktagi.TAGIRegressor` to a bundled data set and compare it with scikit-learn's
``MLPRegressor``: the same network, but every prediction says how sure it is.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIRegressor
from sktagi.metrics import gaussian_log_likelihood

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

# MLPRegressor has no standard deviation of its own. The fairest constant one is the spread of its
# errors on rows that it has not seen.
mlp = make_pipeline(
    StandardScaler(),
    MLPRegressor(hidden_layer_sizes=(50,), early_stopping=True, max_iter=2000, random_state=0),
)
fit_rows, spread_rows, y_fit, y_spread = train_test_split(
    X_train, y_train, test_size=0.1, random_state=0
)
mlp.fit(fit_rows, y_fit)
mlp_std = np.full(len(y_test), np.std(y_spread - mlp.predict(spread_rows)))
mlp_mean = mlp.predict(X_test)

inside = np.mean(np.abs(y_test - mean) < 1.645 * std)
print()
print("On the test set        TAGIRegressor   MLPRegressor")
print(
    f"  RMSE                 {root_mean_squared_error(y_test, mean):13.2f}"
    f"  {root_mean_squared_error(y_test, mlp_mean):13.2f}"
)
print(
    f"  log-likelihood       {gaussian_log_likelihood(y_test, mean, std):13.3f}"
    f"  {gaussian_log_likelihood(y_test, mlp_mean, mlp_std):13.3f}"
)
print(f"  inside 90 % interval {inside:13.0%}")
