"""Reading tables: every container and type of column, and what is refused."""

import datetime

import numpy as np
import pytest
from scipy import sparse

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.tables.frames import UNKNOWN, Schema, read_columns

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

TEXTS = ["b", "a", None, "c", "a", "b"]
EXPECTED = [1.0, 0.0, np.nan, 2.0, 0.0, 1.0]
FRAMES = {
    "pandas object": pd.DataFrame({"k": pd.Series(TEXTS, dtype=object)}),
    "pandas string": pd.DataFrame({"k": pd.Series(TEXTS, dtype="string")}),
    "pandas category": pd.DataFrame({"k": pd.Categorical(TEXTS)}),
    "polars String": pl.DataFrame({"k": TEXTS}),
    "polars Categorical": pl.DataFrame({"k": TEXTS}, schema={"k": pl.Categorical}),
    "polars Enum": pl.DataFrame({"k": TEXTS}, schema={"k": pl.Enum(["a", "b", "c"])}),
}
both = pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])


def read(X, chosen="from_dtype", schema=None):
    return read_columns(X, chosen, schema)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=list(FRAMES))
def test_a_column_of_levels(frame):
    numbers, schema = read(frame)
    np.testing.assert_array_equal(numbers[:, 0], EXPECTED)
    assert schema.levels == [["a", "b", "c"]]


@pytest.mark.parametrize("kind", ["Int64", "Float64", "boolean", "float32", "int8"])
def test_numbers_of_pandas_are_numbers(kind):
    values = [1, 0, 1] if "8" in kind or kind == "float32" else [1, None, 0]
    result = read(pd.DataFrame({"k": pd.Series(values, dtype=kind), "t": ["a", "b", "c"]}))
    np.testing.assert_array_equal(
        result[0][:, 0], [np.nan if value is None else value for value in values]
    )
    assert result[1].levels[0] is None


def test_numbers_of_polars_with_nulls_are_numbers():
    frame = pl.DataFrame({"i": [1, None, 3], "f": [0.5, None, 2.0], "b": [True, None, False]})
    numbers, _ = read(frame)
    nan = np.nan
    np.testing.assert_array_equal(numbers, [[1, 0.5, 1], [nan, nan, nan], [3, 2, 0]])


def test_an_object_column_of_numbers_and_what_is_missing_is_numbers():
    frame = pd.DataFrame({"k": pd.Series([1, None, 2.5, pd.NA, np.nan, True], dtype=object)})
    numbers, schema = read(frame)
    np.testing.assert_array_equal(numbers[:, 0], [1, np.nan, 2.5, np.nan, np.nan, 1])
    assert schema.levels == [None]


@pytest.mark.parametrize("chosen", [[1], [-1], ["k"], [False, True], np.array([False, True])])
def test_columns_that_are_chosen(chosen):
    frame = pd.DataFrame({"x": [0.5, 1.5, 2.5], "k": [3, 1, 3]})
    numbers, schema = read(frame, chosen)
    assert schema.levels == [None, ["1", "3"]]
    np.testing.assert_array_equal(numbers, [[0.5, 1], [1.5, 0], [2.5, 1]])


def test_columns_of_an_array_that_are_chosen():
    X = np.array([[0.5, 3], [1.5, 1], [2.5, np.nan]])
    numbers, schema = read(X, [1])
    assert schema.levels == [None, ["1", "3"]]
    np.testing.assert_array_equal(numbers[:, 1], [1, 0, np.nan])


@pytest.mark.parametrize("chosen", [["k", 1], [2, "x"], ["k", np.int64(1)]])
def test_names_and_numbers_of_columns_may_be_mixed(chosen):
    frame = pd.DataFrame({"k": [3, 1], "x": [0.5, 1.5], "z": [1, 2]})
    _, schema = read(frame, chosen)
    assert [levels is not None for levels in schema.levels] == [
        "k" in chosen, True, 2 in chosen,
    ]  # fmt: skip


@pytest.mark.parametrize("chosen", [None, ["t"], [False, True]])
def test_categories_that_are_not_chosen_are_numbers(chosen):
    frame = pd.DataFrame({"v": pd.Categorical([20.0, 10.0, None, 20.0]), "t": list("abab")})
    if chosen is None:
        frame = frame.assign(t=1.0)
    numbers, schema = read(frame, chosen)
    np.testing.assert_array_equal(numbers[:, 0], [20, 10, np.nan, 20])
    assert schema.levels[0] is None
    with pytest.raises(ValueError, match="'v' of X must be numbers"):
        read(frame.assign(v=pd.Categorical(["a", "b", "a", "b"])), chosen)


@both
def test_a_category_of_numbers_is_these_where_numbers_were_learned(estimator):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"v": rng.choice([10.0, 20.0, 30.0], 60), "x": rng.normal(size=60)})
    y = (frame["v"] > 15).astype(int)
    as_category = frame.astype({"v": "category"})
    predicted = []
    for X in (frame, as_category):
        model = estimator((4,), n_members=1, max_iter=2, random_state=0).fit(frame, y)
        model.partial_fit(X, y)
        predicted += [model.predict(frame), model.predict(X)]
    for one in predicted[1:]:
        np.testing.assert_allclose(one, predicted[0])
    with pytest.raises(ValueError, match="'v' of X must be numbers"):
        model.predict(frame.assign(v=pd.Categorical(["a", "b"] * 30)))


NARROW = {
    "array": lambda x: x[:, None],
    "pandas": lambda x: pd.DataFrame({"x0": x}),
    "pandas nullable": lambda x: pd.DataFrame(
        {"x0": pd.Series(x, dtype=str(x.dtype).capitalize())}
    ),
    "pandas category": lambda x: pd.DataFrame({"x0": pd.Categorical(pd.Series(x))}),
    "polars": lambda x: pl.DataFrame({"x0": x}),
}


@pytest.mark.parametrize("make", NARROW.values(), ids=list(NARROW))
def test_levels_of_single_and_of_double_precision_are_the_same(make):
    x = np.array([0.1, 0.2, np.nan, 0.3, 1e20, 2.0])
    _, schema = read(make(x), [0])
    numbers, found = read(make(x.astype(np.float32)), [0])
    np.testing.assert_array_equal(numbers, read(make(x), [0], schema)[0])
    assert found.levels == schema.levels


def test_levels_that_are_not_known():
    _, schema = read(pd.DataFrame({"k": ["a", "b"]}))
    numbers, _ = read(pd.DataFrame({"k": ["z", "b", None]}), schema=schema)
    np.testing.assert_array_equal(numbers[:, 0], [UNKNOWN, 1, np.nan])


def test_declared_levels_keep_their_order_and_are_all_there():
    frame = pd.DataFrame({"k": pd.Categorical(["low", "high"], categories=["low", "mid", "high"])})
    assert read(frame)[1].levels == [["low", "mid", "high"]]


def test_a_table_of_numbers_is_left_to_scikit_learn():
    X = np.ones((3, 2))
    assert read(X) is None
    assert read(pd.DataFrame(X)) is None
    assert read(X, schema=Schema([None, None])) is None


DATES = {
    "pandas": pd.DataFrame({"d": pd.to_datetime(["2020-01-01", "2021-01-01"])}),
    "pandas zone": pd.DataFrame({"d": pd.to_datetime(["2020-01-01"] * 2, utc=True)}),
    "pandas difference": pd.DataFrame({"d": pd.to_timedelta([1, 2], unit="D")}),
    "pandas period": pd.DataFrame({"d": pd.period_range("2020", periods=2)}),
    "pandas periods": pd.DataFrame({"d": pd.period_range("2020", periods=2).astype(object)}),
    "pandas category": pd.DataFrame({"d": pd.Categorical(pd.period_range("2020", periods=2))}),
    "pyarrow": pd.DataFrame({"d": pd.Series(["2020-01-01"] * 2).astype("date32[pyarrow]")}),
    "object": pd.DataFrame({"d": [datetime.date(2020, 1, 1), None]}),
    "differences": pd.DataFrame({"d": pd.Series([np.timedelta64(3, "D")] * 2, dtype=object)}),
    "polars": pl.DataFrame({"d": [datetime.date(2020, 1, 1), None]}),
    "polars time": pl.DataFrame({"d": [datetime.datetime(2020, 1, 1), None]}),
    "numpy": np.array([["2020-01-01"], ["2021-01-01"]], dtype="M8[D]"),
}


@pytest.mark.parametrize("X", DATES.values(), ids=list(DATES))
@both
def test_dates_are_refused_with_what_to_do(estimator, X):
    with pytest.raises(ValueError, match=r"dates or times.*\n?.*days since"):
        estimator().fit(X, [0, 1])
    with pytest.raises(ValueError, match="dates or times"):
        estimator().partial_fit(
            X, [0, 1], **({} if estimator is TAGIRegressor else {"classes": [0, 1]})
        )


@pytest.mark.parametrize("dates", [pd.date_range("2020", periods=2), pd.to_timedelta([1, 2], "D")])
def test_a_category_of_dates_is_refused_where_it_is_no_category_either(dates):
    with pytest.raises(ValueError, match=r"'d' of X holds dates or times.*\n?.*days since"):
        TAGIRegressor(categorical_features=None).fit(
            pd.DataFrame({"d": pd.Categorical(dates)}), [0, 1]
        )


@pytest.mark.parametrize(
    ("X", "chosen", "message"),
    [
        (np.ones((3, 2)), ["k"], "categorical_features names 'k'"),
        (np.ones((3, 2)), [2], "categorical_features"),
        (np.ones((3, 2)), [True], "categorical_features is a mask"),
        (pd.DataFrame({"x": [1.0, 2, 3]}), ["k"], "categorical_features names 'k'"),
        (sparse.csr_array(np.ones((3, 2))), [0], "categorical_features needs a dense X"),
        (pd.DataFrame({"x": ["a", "b", "c"]}), None, "'x' of X must be numbers"),
        (pd.DataFrame({"x": [[1], [2], [3]]}), "from_dtype", "'x' of X holds a list"),
        (pd.DataFrame({"x": [object(), object(), 1]}), "from_dtype", "'x' of X holds a object"),
        (pd.DataFrame({"x": [10**400, 1, None]}, dtype=object), None, "'x' of X must be numbers"),
        (np.array([["a"], ["b"], ["c"]]), "from_dtype", "name them in categorical_features"),
        ([["a", 1], ["b", 2], ["c", 3]], "from_dtype", "name them in categorical_features"),
    ],
)
@both
def test_what_cannot_be_read_is_refused(estimator, X, chosen, message):
    with pytest.raises(ValueError, match=message):
        estimator(categorical_features=chosen).fit(X, [0, 1, 0])


def test_a_dask_frame_with_text_is_refused_with_what_to_do():
    dataframe = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"x": [1.0, 2, 3], "c": ["a", "b", "a"]})
    with pytest.raises(ValueError, match=r"fit_shards.*compute"):
        TAGIRegressor().fit(dataframe.from_pandas(frame, npartitions=1), [0, 1, 0])


def test_names_of_columns_are_looked_at_before_what_they_hold():
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4], "c": ["a", "b", "a", "b"]})
    model = TAGIRegressor((2,), max_iter=1, early_stopping=False).fit(frame, [0.0, 1, 2, 3])
    for X in (frame[["c", "x"]], pl.DataFrame({"c": ["a"], "x": [1.0]})):
        with pytest.raises(ValueError, match="same order"):
            model.predict(X)
    with pytest.raises(ValueError, match="'x' of X must be numbers"):
        model.predict(frame.assign(x="text"))


def test_intervals_are_levels():
    numbers, schema = read(pd.DataFrame({"k": pd.arrays.IntervalArray.from_breaks([0, 1, 2])}))
    assert schema.levels == [["(0, 1]", "(1, 2]"]]
    np.testing.assert_array_equal(numbers[:, 0], [0, 1])


def test_sparse_columns_that_store_zeros_are_numbers():
    columns = {k: pd.arrays.SparseArray([np.nan, 2.0, v]) for k, v in {"a": 1.0, "b": 0.0}.items()}
    numbers, _ = read(pd.DataFrame(columns))
    np.testing.assert_array_equal(numbers, [[np.nan, np.nan], [2, 2], [1, 0]])
