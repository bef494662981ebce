"""Rows held out as the caller of ``fit`` says: by a splitter, or rows given for validation."""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import check_consistent_length

from ._input import (
    RawRows,
    check_weight,
    known_frame,
    refuse_rows_without_targets,
    scaled_weight,
)
from ._split import fold_of, padded
from .engine.rows import n_observed

__all__ = ["UserSplit"]

# The rows that each member learns, (members, n) padded with -1, and those it holds out.
Split = tuple[np.ndarray, list[np.ndarray]]


class UserSplit(NamedTuple):
    """What ``fit`` is given beside the rows to learn and their weights."""

    X_val: Any = None
    y_val: Any = None
    sample_weight_val: Any = None
    groups: Any = None

    def refuse_conflicts(self, estimator: Any) -> None:
        """Refuse arguments that do not go together, or with the estimator's parameters."""
        if self.X_val is None or self.y_val is None:
            for name, other in (("X_val", "y_val"), ("y_val", "X_val")):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} is given, but {other} is not.")
            if self.sample_weight_val is not None:
                raise ValueError("sample_weight_val is given, but X_val and y_val are not.")
        elif estimator.cv is not None:
            raise ValueError("Give cv or X_val and y_val, not both: each says what is held out.")
        if not estimator.early_stopping:
            for name, given in (("cv", estimator.cv), ("X_val", self.X_val)):
                if given is not None:
                    raise ValueError(
                        f"{name} says which rows are held out, which early_stopping=False does "
                        "not do: use early_stopping=True."
                    )
        if self.groups is not None and estimator.cv is None:
            raise ValueError("groups are for a splitter of groups: set cv, as in cv=GroupKFold().")

    def with_validation_rows(self, estimator: Any, data: RawRows) -> RawRows:
        """Return rows to learn, validated, and after them those given for validation."""
        if self.X_val is None:
            return data
        if data.errors is not None and not data.errors.is_shared:
            name = "X_cov" if data.errors.are_covariances else "X_std"
            raise ValueError(
                f"{name} for each row does not say how uncertain the rows of X_val are: with X_val,"
                f" give {name} for all rows together."
            )
        try:
            X, y = estimator._validate_X_y(known_frame(self.X_val), self.y_val, reset=False)
            y = estimator._validate_targets(y, first=False, incremental=True, classes=None)
        except ValueError as error:
            raise ValueError(f"X_val and y_val do not fit X and y: {error}") from error
        X = estimator._table.encode(X)
        weight = check_weight(self.sample_weight_val, X.shape[0], "sample_weight_val")
        weight = estimator._times_class_weight(y, weight)
        if y.ndim == 2 and y.shape[1] > 1:
            refuse_rows_without_targets(y, "y_val", weight)
        X = X.astype(data.X.dtype)
        held = RawRows(X, y, scaled_weight(weight), None).positive()
        try:
            held = estimator._transform_targets(held, first=False)
        except ValueError as error:
            raise ValueError(f"y_val does not fit target_transform: {error}") from error
        return data._replace(
            X=_stacked(data.X, held.X),
            y=np.concatenate([data.y, held.y]),
            weight=np.concatenate([data.weight, held.weight]),
            kept=None,
            n_validation=len(held.weight),
        )

    def group_numbers(self, data: RawRows) -> np.ndarray | None:
        """Return the number of each row's group; None without groups."""
        if self.groups is None:
            return None
        groups = np.unique(np.asarray(self.groups), return_inverse=True)[1].reshape(-1)
        return groups if data.kept is None else groups[data.kept]

    def split(self, estimator: Any, X: Any, y: Any, data: RawRows) -> Split | None:
        """Return what each member learns and holds out; None if the caller does not say.

        ``X`` and ``y`` are as they were given: a splitter may look at the columns of a frame.
        """
        n_members = estimator._n_members
        if data.n_validation:
            learned, held = np.split(np.arange(len(data.weight)), [data.n_to_learn])
            return np.tile(learned, (n_members, 1)), [held] * n_members
        if estimator.cv is None or not estimator.early_stopping:
            return None
        if self.groups is not None:
            check_consistent_length(X, self.groups)
        try:
            cv = check_cv(estimator.cv, y, classifier=is_classifier(estimator))
            n_folds = fold_of(n_members - 1) + 1
            splits = list(islice(cv.split(known_frame(X), y, self.groups), n_folds))
        except (TypeError, ValueError) as error:
            raise ValueError(f"cv could not split the rows: {error}") from error
        if not splits:
            raise ValueError(
                "cv gives no splits: an iterator can be used once only, so give a list."
            )
        pairs = [_checked(split, number, data) for number, split in enumerate(splits)]
        of_members = [pairs[fold_of(member) % len(pairs)] for member in range(n_members)]
        order = padded([train for train, _ in of_members])
        learned = np.unique(order[order >= 0])
        if data.y.ndim == 2 and not n_observed(data.y[learned]).all():
            unseen = np.flatnonzero(n_observed(data.y[learned]) == 0).tolist()
            raise ValueError(f"cv leaves targets of y that no training row observes: {unseen}.")
        return order, [test for _, test in of_members]


def _stacked(X: Any, held: Any) -> Any:
    """Return rows and those after them, in the form of the first: dense or sparse."""
    if sparse.issparse(X):
        return sparse.vstack([X, sparse.csr_array(held)], format="csr")
    return np.concatenate([X, held.toarray() if sparse.issparse(held) else held])


def _checked(split: Any, number: int, data: RawRows) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and the test rows of a split, as numbers among those of ``data``."""
    try:
        train, test = split
    except (TypeError, ValueError):
        raise ValueError(
            f"cv must give pairs (train, test) of row numbers; got {split!r}."
        ) from None
    n_given = len(data.weight) if data.kept is None else len(data.kept)
    rows = {"training": _row_numbers(train, n_given), "test": _row_numbers(test, n_given)}
    if np.intersect1d(rows["training"], rows["test"]).size:
        raise ValueError(f"cv has rows that are training and test rows at once, in split {number}.")
    if data.kept is not None:  # rows without weight are not there
        place = np.where(data.kept, np.cumsum(data.kept) - 1, -1)
        rows = {name: place[numbers] for name, numbers in rows.items()}
        rows = {name: numbers[numbers >= 0] for name, numbers in rows.items()}
    for name, numbers in rows.items():
        if not len(numbers):
            raise ValueError(f"cv has no {name} rows of positive weight in split {number}.")
    return rows["training"], rows["test"]


def _row_numbers(rows: Any, n_rows: int) -> np.ndarray:
    numbers = np.asarray(rows)
    if numbers.dtype == bool and numbers.shape == (n_rows,):
        return np.flatnonzero(numbers)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and numbers.size):
        raise ValueError(f"cv must give row numbers (integers in one dimension); got {rows!r}.")
    if numbers.size and (numbers.min() < 0 or numbers.max() >= n_rows):
        raise ValueError(f"cv gives row numbers beyond those of X, 0 to {n_rows - 1}.")
    return numbers.astype(np.intp)
