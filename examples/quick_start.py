"""
Quick start
===========

Fit :class:`~sktagi.TAGIRegressor` to a bundled data set, 442 patients, and predict how far their
diabetes will have gone in a year. Nothing is tuned, and nothing is scaled first.

**What to see.** Each patient has an interval of their own. Beside ``MLPRegressor``, whose errors on
held-out rows give it one standard deviation for all, the errors are smaller and the log-likelihood
is higher. And it knows which predictions to trust: errors are as large as the standard deviation
says, for the third of the patients of which it is surest and for the third of which it is least
sure. Of the latter, 90 % intervals of one width for all patients hold 81 % only.
"""

from importlib.util import find_spec

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

model = TAGIRegressor(random_state=0).fit(X_train, y_train)
mean, std = model.predict(X_test, return_std=True)
intervals = model.predict_interval(X_test, coverage=0.9)

print("Disease progression of five patients of the test set")
print("   true   predicted   90 % interval")
for target, m, (low, high) in zip(y_test[:5], mean, intervals, strict=False):
    print(f"  {target:5.0f}   {m:5.0f}       {low:4.0f} to {high:3.0f}")

# %%
# One split says little: here are five. ``MLPRegressor`` has no standard deviation of its own: the
# fairest constant one is that of its errors on held-out rows.

scores = {"TAGIRegressor": [], "MLPRegressor": []}
thirds = []
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
    low, high = dist.interval(0.9)
    inside = (low <= y_test) & (y_test <= high), abs(y_test - mean) <= 1.645 * std
    for third in np.array_split(np.argsort(dist.std()), 3):
        error = root_mean_squared_error(y_test[third], dist.mean()[third])
        covered = [100 * np.mean(one[third]) for one in inside]
        thirds.append((dist.std()[third].mean(), error, *covered))

print()
print("Mean over the test sets of five splits")
print("                 RMSE   log-likelihood   inside 90 % interval")
for name, rows in scores.items():
    rmse, log_lik, inside = np.mean(rows, axis=0)
    print(f"  {name:13s} {rmse:6.2f}   {log_lik:10.3f}   {inside:13.0f} %")

print()
print("By how sure TAGIRegressor is     std   RMSE   inside 90 %: TAGIRegressor   MLPRegressor")
names = ("surest third", "middle", "least sure third")
for name, row in zip(names, np.mean(np.reshape(thirds, (5, 3, 4)), axis=0), strict=True):
    print("  {:28s} {:5.0f} {:6.0f} {:26.0f} % {:12.0f} %".format(name, *row))

# %%
# The test set above, in ascending order of the predictions (if matplotlib is installed):

if find_spec("matplotlib"):
    import matplotlib.pyplot as plt

    from sktagi.plotting import PredictionIntervalDisplay

    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    fig, ax = plt.subplots(figsize=(7, 4.5), constrained_layout=True)
    PredictionIntervalDisplay.from_estimator(model, X_test, y_test, coverage=0.9, ax=ax)
    ax.set(title="90 % intervals of new patients", ylabel="disease progression")
    plt.show()
