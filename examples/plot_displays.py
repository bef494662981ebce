"""
Looking at a fit
================

Six pictures that say whether to trust a regressor, and one for a classifier. All are Displays as
in scikit-learn: ``from_estimator`` predicts and draws, ``ax=`` says where.

**What to see.** 87 % of the targets of these test rows lie inside their 90 % intervals, somewhat
fewer where the prediction is small or large, but not fewer than chance explains. (Over five splits
it is 90 %: see ``quick_start.py``.) The standard deviation ranges from 30 to 87; errors are larger,
on average, where it is larger.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import train_test_split

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.metrics import interval_coverage
from sktagi.plotting import (
    ClassProbabilityDisplay,
    CoverageByGroupDisplay,
    ErrorDisplay,
    IntervalCalibrationDisplay,
    PredictionIntervalDisplay,
    TrainingCurveDisplay,
    VarianceDisplay,
)

X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = TAGIRegressor(random_state=0).fit(X_train, y_train)

# %%
# Predictions of held-out rows, in ascending order, with their 90 % intervals. Are about nine of ten
# targets inside? The second picture asks the same for every coverage at once.
mean, std = model.predict(X_test, return_std=True)
low, high = model.predict_interval(X_test, coverage=0.9).T
inside = interval_coverage(y_test, lower=low, upper=high)
print(f"{inside:.0%} inside the 90 % interval; std from {std.min():.0f} to {std.max():.0f}")
fig, axes = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
PredictionIntervalDisplay.from_estimator(model, X_test, y_test, ax=axes[0])
IntervalCalibrationDisplay.from_estimator(model, X_test, y_test, ax=axes[1])
plt.show()

# %%
# Do intervals cover small and large predictions alike? Points outside of the grey bars would speak
# against it. And are errors larger where the standard deviation is larger?
fig, axes = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
CoverageByGroupDisplay.from_estimator(model, X_test, y_test, ax=axes[0])
ErrorDisplay.from_estimator(model, X_test, y_test, ax=axes[1])
plt.show()

# %%
# Which part of the variance is the network's, which the noise's?
fig, ax = plt.subplots(figsize=(5, 4), constrained_layout=True)
VarianceDisplay.from_estimator(model, X_test, ax=ax)
plt.show()

# %%
# The course of training, of the kind of network that is best in each epoch: each member keeps the
# epoch at which its own validation rows are most likely. The step is where the second part of
# training begins: every member goes back to its best epoch, and rows then count as their noise
# says. And the probabilities of one flower, which might be one of two species.
X, y = load_iris(return_X_y=True)
classifier = TAGIClassifier(random_state=0).fit(X, y)
fig, axes = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
TrainingCurveDisplay.from_estimator(model, ax=axes[0])
ClassProbabilityDisplay.from_estimator(classifier, X[[70]], ax=axes[1])
plt.show()
