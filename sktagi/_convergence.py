"""A warning where training ended before it had converged."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .engine.runs import Plan
from .engine.training import History

__all__ = ["warn_if_still_gaining"]

# In mean log-likelihood: about what a standard deviation that is 10 % smaller is worth.
CLEAR_GAIN = 0.1


def warn_if_still_gaining(history: History, plan: Plan, stacklevel: int) -> None:
    """Warn if ``max_iter`` ended training while validation rows were predicted better and better.

    That is so if the best mean score of the members has risen clearly in the last
    ``n_iter_no_change`` epochs, the patience of early stopping. Where ``max_iter`` is no more than
    that, nothing but ``max_iter`` could have ended training: so many epochs were asked for. Without
    validation rows there is no warning either, as the likelihood of rows that are learned again and
    again rises as long as they are.
    """
    window = plan.n_iter_no_change
    ended_by_plan = history.n_iter == plan.max_iter > window
    if not ended_by_plan or history.interrupted or history.stopped or not history.validation_scores:
        return
    best = np.maximum.accumulate(history.validation_scores[history.comparable_from :])
    gain = best[-1] - best[max(0, len(best) - 1 - window)]
    if gain > max(CLEAR_GAIN, window * plan.tol):
        warnings.warn(
            f"Training ended after max_iter={plan.max_iter} epochs while the log-likelihood of the "
            f"validation rows was still rising, by {gain:.2g} in the last {window} epochs: "
            "increase max_iter.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
