"""Columns of frames and arrays: numbers as they are, categories as numbers of levels."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Schema", "has_frame_columns", "read_columns"]

UNKNOWN = -1.0  # in the place of the number of a level
_TIMES = (
    datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64,
)  # fmt: skip
_TO_NUMBERS = (
    "Turn it into numbers that mean something for the target, such as the days since a date, "
    "the month or the day of the week."
)


class Schema(NamedTuple):
    """What the columns of a table hold: the levels of categories; None for numbers."""

    levels: list[list[str] | None]

    @property
    def has_categories(self) -> bool:
        """Whether some column is a category."""
        return any(levels is not None for levels in self.levels)


class _Column(NamedTuple):
    """One column as it was given."""

    values: np.ndarray  # (n,) float64: numbers, or those of levels; NaN if missing
    found: list[str] | None = None  # levels that the values number; None: they are numbers
    declared: list[str] = []  # levels that the type of the column names


def has_frame_columns(X: Any) -> bool:
    """Tell whether X is a frame: it has named columns with a type each."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or _is_polars(X))


def read_columns(
    X: Any, categorical_features: Any, schema: Schema | None
) -> tuple[np.ndarray, Schema] | None:
    """Return a table as float64 numbers, with those of levels for categories, and its schema.

    ``schema`` is that of an earlier table; None: these columns tell it. A level that it does not
    have is ``UNKNOWN``. Returns None for a table of numbers that scikit-learn can read itself.
    """
    is_frame = has_frame_columns(X)
    if type(X).__name__ == "LazyFrame":
        raise ValueError("X is a LazyFrame: collect it first, X.collect().")
    _refuse_dates(X)
    if schema is not None and not schema.has_categories and not _needs_reading(X, is_frame):
        return None
    if is_frame:
        names = [str(name) for name in X.columns]
    else:
        if schema is None and _is_from_dtype(categorical_features):
            return None
        if hasattr(X, "tocsr"):
            if schema is None:
                _chosen(categorical_features, [str(k) for k in range(X.shape[1])], None)
            raise ValueError(
                "categorical_features needs a dense X: a sparse one is a table of numbers."
            )
        X = np.asarray(X, dtype=object) if not isinstance(X, np.ndarray) else X
        if X.ndim != 2:
            return None  # refused elsewhere, with the reason
        names = [f"x{k}" for k in range(X.shape[1])]
    if schema is None:
        chosen = _chosen(categorical_features, names, X.columns if is_frame else None)
        if not _needs_reading(X, is_frame) and (chosen is None or not chosen.any()):
            return None
    elif len(names) != len(schema.levels):
        return None  # refused elsewhere, with the numbers of columns
    else:
        chosen = np.array([levels is not None for levels in schema.levels])
    if type(X).__module__.partition(".")[0] == "dask":
        raise ValueError("X is a frame of dask: use sktagi.dask.fit_shards, or X.compute().")
    columns = [
        _read(X, k, name, is_frame, None if chosen is None else bool(chosen[k]))
        for k, name in enumerate(names)
    ]
    if schema is None:
        schema = Schema([_levels_of(column) for column in columns])
    numbers = np.empty((X.shape[0], len(names)))
    for k, (column, levels) in enumerate(zip(columns, schema.levels, strict=True)):
        numbers[:, k] = column.values if levels is None else _numbers_of(column, levels)
    return numbers, schema


def _chosen(categorical_features: Any, names: list[str], given: Any) -> np.ndarray | None:
    """Return which columns are categories by the parameter; None: their types tell."""
    if _is_from_dtype(categorical_features):
        return None
    chosen = np.zeros(len(names), dtype=bool)
    if categorical_features is None:
        return chosen
    asked = np.asarray(categorical_features)
    if asked.dtype.kind == "U":  # numbers beside names stay numbers
        asked = np.asarray(categorical_features, dtype=object)
    if asked.dtype == bool:
        if asked.shape != chosen.shape:
            raise ValueError(
                f"categorical_features is a mask of shape {asked.shape}; X has {len(names)} "
                "columns."
            )
        return asked.copy()
    for item in np.atleast_1d(asked).tolist():
        if isinstance(item, str):
            if given is None:
                raise ValueError(
                    f"categorical_features names {item!r}, but X is no frame with column names."
                )
            if item not in names:
                raise ValueError(f"categorical_features names {item!r}, which X does not have.")
            chosen[names.index(item)] = True
        elif _is_integer(item) and -len(names) <= item < len(names):
            chosen[item] = True
        else:
            raise ValueError(
                "categorical_features must be 'from_dtype', None, a mask, or names or numbers of "
                f"columns (0 to {len(names) - 1}); got {item!r}."
            )
    return chosen


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_from_dtype(value: Any) -> bool:
    return isinstance(value, str) and value == "from_dtype"


def _is_polars(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "polars"


def _needs_reading(X: Any, is_frame: bool) -> bool:
    """Tell whether a frame has columns other than plain numbers."""
    if not is_frame:
        return False
    if _is_polars(X):
        return not all(dtype.is_numeric() for dtype in X.dtypes)
    if all(getattr(dtype, "fill_value", None) == 0 for dtype in X.dtypes):
        return False  # sparse columns: a sparse matrix
    return not all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in X.dtypes)


def _refuse_dates(X: Any) -> None:
    if getattr(getattr(X, "dtype", None), "kind", "O") in "mM":
        raise ValueError(f"X holds dates or times. {_TO_NUMBERS}")


def _read(X: Any, k: int, name: str, is_frame: bool, chosen: bool | None) -> _Column:
    """Read a column; ``chosen`` says whether it is a category, None that its type does."""
    if is_frame:
        return (_read_polars if _is_polars(X) else _read_pandas)(X, k, name, chosen)
    column = X[:, k]
    is_narrow = column.dtype.kind == "f" and column.dtype.itemsize < 8
    values = list(column) if is_narrow else column.tolist()
    return _numbered(values, name) if chosen else _Column(_as_numbers(values, name))


def _read_pandas(X: Any, k: int, name: str, chosen: bool | None) -> _Column:
    series = X.iloc[:, k]
    kind, text = getattr(series.dtype, "kind", "O"), str(series.dtype)
    if kind in "mM" or text.startswith("period"):
        raise ValueError(f"Column {name!r} of X holds dates or times ({text}). {_TO_NUMBERS}")
    if text == "category" and chosen is not False:
        codes = series.cat.codes.to_numpy()
        levels = _texts(_pandas_values(series.cat.categories), name)
        return _Column(np.where(codes < 0, np.nan, codes), levels, list(dict.fromkeys(levels)))
    if kind in "iufb" and not chosen:
        return _Column(series.to_numpy(dtype=np.float64, na_value=np.nan))
    is_text = text.startswith(("str", "string"))
    return _read_values(
        _pandas_values(series), name, True if is_text and chosen is None else chosen
    )


def _pandas_values(values: Any) -> list[Any]:
    """Return the values of a series or an index; narrow floats keep their type."""
    dtype = values.dtype
    if getattr(dtype, "kind", "O") == "f" and dtype.itemsize < 8:
        return list(values.to_numpy(dtype=f"f{dtype.itemsize}", na_value=np.nan))
    return list(values.tolist())


def _read_polars(X: Any, k: int, name: str, chosen: bool | None) -> _Column:
    import polars as pl

    series = X.to_series(k)
    dtype = series.dtype
    if dtype.is_temporal():
        raise ValueError(f"Column {name!r} of X holds dates or times ({dtype}). {_TO_NUMBERS}")
    if (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)) and not chosen:
        return _Column(np.array(series.cast(pl.Float64).to_numpy(), dtype=np.float64))
    is_text = dtype in (pl.String, pl.Categorical, pl.Enum)
    is_narrow = dtype.is_float() and dtype != pl.Float64
    values = list(series.to_numpy()) if is_narrow else series.to_list()
    column = _read_values(values, name, True if is_text and chosen is None else chosen)
    if isinstance(dtype, pl.Enum):
        return column._replace(declared=_texts(dtype.categories.to_list(), name))
    return column


def _read_values(values: list[Any], name: str, chosen: bool | None) -> _Column:
    """Read Python values: numbers if all are, and nothing says that they are categories."""
    if chosen is None:
        kinds = {type(value) for value in values if not _is_missing(value)}
        numbers = (issubclass(kind, (Real, Decimal, np.bool_)) for kind in kinds)
        if all(numbers) and np.timedelta64 not in kinds:  # that NumPy takes for an integer
            chosen = False
    return _Column(_as_numbers(values, name)) if chosen is False else _numbered(values, name)


def _numbered(values: list[Any], name: str) -> _Column:
    """Return a category whose levels are numbered as they come; values are looked at once."""
    try:
        distinct = list(dict.fromkeys(zip(map(type, values), values, strict=True)))
    except TypeError:  # some cannot be looked up, and are refused
        distinct = list(zip(map(type, values), values, strict=True))
    texts = dict(zip(distinct, _texts([value for _, value in distinct], name), strict=True))
    found = [text for text in dict.fromkeys(texts.values()) if text is not None]
    number = {text: float(k) for k, text in enumerate(found)}
    place = {key: np.nan if text is None else number[text] for key, text in texts.items()}
    numbers = [place[key] for key in zip(map(type, values), values, strict=True)]
    return _Column(np.array(numbers, dtype=np.float64), found)


def _as_numbers(values: Sequence[Any], name: str) -> np.ndarray:
    try:
        return np.array([np.nan if _is_missing(v) else float(v) for v in values], dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        if any(_is_time(value) for value in values if not _is_missing(value)):
            raise _holds_times(name) from None
        raise ValueError(
            f"Column {name!r} of X must be numbers: {error}. If it holds categories, name it in "
            "categorical_features."
        ) from None


def _texts(values: Sequence[Any], name: str) -> list[Any]:
    """Return levels as texts, None if missing."""
    result: list[str | None] = []
    for value in values:
        if _is_missing(value):
            result.append(None)
        elif _is_time(value):
            raise _holds_times(name)
        elif isinstance(value, (dict, list, set, np.ndarray, complex)) or _has_no_text(value):
            raise ValueError(
                f"Column {name!r} of X holds a {type(value).__name__}: each value must be a "
                "number, a text or missing."
            )
        else:
            result.append(_level(value))
    return result


def _is_time(value: Any) -> bool:
    return isinstance(value, _TIMES) or type(value).__name__ == "Period"


def _holds_times(name: str) -> ValueError:
    return ValueError(f"Column {name!r} of X holds dates or times. {_TO_NUMBERS}")


def _has_no_text(value: Any) -> bool:
    """Tell whether the text of an object is its address."""
    return type(value).__str__ is object.__str__ and type(value).__repr__ is object.__repr__


def _level(value: Any) -> str:
    """Return the text that stands for a level: 1, 1.0 and "1" are the same."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        # The shortest text tells 0.1 of single precision from its neighbours, and is 0.1.
        number = float(str(value)) if isinstance(value, np.floating) else float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def _levels_of(column: _Column) -> list[str] | None:
    """Return the levels of a category, those that its type declares first."""
    if column.found is None:
        return None
    return column.declared + sorted(set(column.found).difference(column.declared))


def _numbers_of(column: _Column, levels: list[str]) -> np.ndarray:
    """Return numbers of levels, NaN if missing, for the values of a column."""
    if column.found is None:  # a category whose column holds numbers now
        column = _numbered(column.values.tolist(), "")
    number = {level: float(k) for k, level in enumerate(levels)}
    places = np.array([number.get(level, UNKNOWN) for level in column.found or []] + [np.nan])
    return places[np.where(np.isnan(column.values), -1, column.values).astype(int)]
