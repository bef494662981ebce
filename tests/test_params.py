"""Every constructor parameter: what is refused, by name, and what is accepted."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from helpers import of_layers
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import Binarizer, PowerTransformer

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.engine import memory

NAN, INF = float("nan"), float("inf")
NOT_INT = [True, np.True_, 2.0, 2.5, NAN, INF, "3", None, -1, [2]]
NOT_POSITIVE = [True, 0, 0.0, -1.0, NAN, INF, -INF, "1", [1.0], 1j]
NOT_BOOL = [0, 1, "True", None, NAN, []]

WRONG = {
    "hidden_layer_sizes": [
        0, -3, True, 2.0, NAN, None, "50", "Auto", (0,), (5, -1), (5, 2.5), (5, True), (NAN,),
        [[3, 4]], np.array([3.0]), {"a": 1}, (5, "5"), (5, None), {5}, {5: 5},
    ],
    "activation": ["sigmoid", "", None, 1, True, np.tanh, ["relu"], "ReLU"],
    "sigma_v": [*NOT_POSITIVE, None, "Auto", "learned", [0.1, 0.2]],
    "batch_size": [*NOT_INT, 0, "all"],
    "batch_inference": ["sum", "", None, True, 0, ["joint"]],
    "covariance_type": ["tied", "Full", "", None, True, 0, ["full"]],
    "categorical_features": ["auto", "a", [2], [-3], [0.5], [True], ["a"], 1.5, {"a": 1}],
    "max_iter": [*NOT_INT, "all"],
    "half_life": [*NOT_POSITIVE, "never", False],
    "early_stopping": [*NOT_BOOL, "auto"],
    "validation_fraction": [True, False, 0, 1, 0.0, 1.0, -0.1, 1.1, NAN, INF, "0.1", None],
    "cv": [True, 0, 1, -3, 2.0, NAN, "5", "GroupKFold", GroupKFold, ...],
    "n_iter_no_change": [*NOT_INT, 0],
    "tol": [True, -1e-9, NAN, INF, "0", None],
    "n_members": [*NOT_INT, 0],
    "n_jobs": [0, True, 2.0, 2.5, NAN, INF, "3", "all", [2]],
    "standardize": NOT_BOOL,
    "weight_gain": [*NOT_POSITIVE, None],
    "bias_variance": [*NOT_POSITIVE, None],
    "shuffle": NOT_BOOL,
    "random_state": ["seed", -1, 1.5, NAN, [[1, 2]]],
    "warm_start": NOT_BOOL,
    "verbose": [-1, 1.5, "yes", None, NAN],
}  # fmt: skip
WRONG_CLASSIFIER = {
    "probit_scale": [*NOT_POSITIVE, None],
    "class_coding": ["Tree", "one_vs_rest", "", None, True, 0, ["tree"]],
    "class_weight": ["auto", "Balanced", 1, True, [1, 2], {0: -1.0}, {0: NAN}, {0: "1"}, {0: None}],
}
WRONG_REGRESSOR = {
    "target_transform": [
        "Log",
        "sqrt",
        1,
        True,
        np.log,
        (np.log, np.exp),
        PowerTransformer,
        Binarizer(),
    ]
}

X = np.random.default_rng(0).normal(size=(24, 2))
Y = (X[:, 0] > 0).astype(int)


def cases(wrong):
    return [
        pytest.param(name, value, id=f"{name}-{value!r}")
        for name, values in wrong.items()
        for value in values
    ]


def assert_refused(model, name, **first):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        model.partial_fit(X, Y, **first)
    assert not hasattr(model, "n_features_in_")


def test_every_parameter_is_tested():
    assert set(WRONG) | set(WRONG_REGRESSOR) == set(TAGIRegressor().get_params())
    assert set(WRONG) | set(WRONG_CLASSIFIER) == set(TAGIClassifier().get_params())


def test_units_that_can_be_read_only_once_are_refused():
    """A second reading would find a linear model."""
    assert_refused(TAGIRegressor(hidden_layer_sizes=map(int, [5])), "hidden_layer_sizes")


HUGE = 10**400
BEYOND_FLOATS = [
    {"max_iter": HUGE}, {"n_members": HUGE}, {"batch_size": HUGE}, {"n_iter_no_change": HUGE},
    {"hidden_layer_sizes": HUGE}, {"half_life": HUGE}, {"tol": HUGE}, {"n_jobs": HUGE},
    {"half_life": Fraction(HUGE, 3)}, {"half_life": Fraction(1, HUGE)}, {"n_jobs": 10**12},
]  # fmt: skip


@pytest.mark.parametrize("params", BEYOND_FLOATS, ids=lambda p: next(iter(p)))
def test_numbers_beyond_those_of_the_machine_are_refused(params):
    with pytest.raises(ValueError, match=rf"\b{next(iter(params))}\b"):
        TAGIRegressor(**params).fit(X, Y)


@pytest.mark.parametrize("half_life", [Fraction(7, 2), np.float32(3.5), 3.5])
def test_every_kind_of_number_is_a_half_life(half_life):
    params = {"hidden_layer_sizes": (3,), "max_iter": 2, "n_members": 1, "random_state": 0}
    expected = TAGIRegressor(half_life=3.5, **params).fit(X, Y).partial_fit(X, Y)
    found = TAGIRegressor(half_life=half_life, **params).fit(X, Y).partial_fit(X, Y)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
@pytest.mark.parametrize("sizes", [(), (5,), "auto"])
@pytest.mark.parametrize("n_members", [10**9, 10**18])
def test_more_members_than_fit_into_memory_are_refused_at_once(estimator, sizes, n_members):
    model = estimator(sizes, n_members=n_members)
    first = {} if estimator is TAGIRegressor else {"classes": [0, 1]}
    assert_refused(model, "n_members", **first)
    assert_refused(model, "memory", **first)


def test_more_units_than_fit_into_memory_are_refused_at_once():
    assert_refused(TAGIRegressor((10**6, 10**6), n_members=1), "hidden_layer_sizes")


def test_what_fits_into_memory_is_counted_in_its_bytes(monkeypatch):
    n_params = (4 + 1) * 10 + 10 + 1
    needed = 3 * (memory.GENERATOR + memory.COPIES * 8 * n_params)
    monkeypatch.setattr(memory, "memory_of_machine", lambda: needed)
    memory.check_memory((4, 10, 1), 3, 8)
    monkeypatch.setattr(memory, "memory_of_machine", lambda: needed - 1)
    with pytest.raises(ValueError, match="n_members"):
        memory.check_memory((4, 10, 1), 3, 8)
    memory.check_memory((4, 10, 1), 3, 4)


def test_the_memory_of_this_machine_is_known():
    assert 1e8 < memory.memory_of_machine() < 1e15


@pytest.mark.parametrize(("name", "value"), cases(WRONG | WRONG_REGRESSOR))
def test_regressor_refuses_and_names(name, value):
    assert_refused(TAGIRegressor(**{name: value}), name)


@pytest.mark.parametrize(("name", "value"), cases(WRONG | WRONG_CLASSIFIER))
def test_classifier_refuses_and_names(name, value):
    assert_refused(TAGIClassifier(**{name: value}), name, classes=[0, 1])


def test_nothing_is_checked_before_fit():
    assert TAGIRegressor(sigma_v=-1).sigma_v == -1


def test_the_message_shows_what_was_given_and_what_is_accepted():
    with pytest.raises(ValueError, match=r"max_iter .*integer >= 0.*'ten'"):
        TAGIRegressor(max_iter="ten").fit(X, Y)
    with pytest.raises(ValueError, match=r"activation .*'relu'.*'tanh'.*'sigmoid'"):
        TAGIRegressor(activation="sigmoid").fit(X, Y)


GOOD = [
    {"hidden_layer_sizes": 3}, {"hidden_layer_sizes": [3, 2]}, {"hidden_layer_sizes": ()},
    {"hidden_layer_sizes": []}, {"hidden_layer_sizes": np.array([3, 2])},
    {"hidden_layer_sizes": np.int32(3)}, {"hidden_layer_sizes": (np.int64(3), 1)},
    {"hidden_layer_sizes": range(1, 3)}, {"hidden_layer_sizes": "auto"}, {"max_iter": "auto"},
    {"n_jobs": None}, {"n_jobs": 1}, {"n_jobs": np.int64(1)}, {"sigma_v": 1},
    {"sigma_v": np.float32(0.5)},
    {"sigma_v": np.int64(1)}, {"batch_size": 1}, {"batch_size": 10**9},
    {"batch_size": np.int64(5)}, {"batch_inference": "independent"}, {"covariance_type": "full"},
    {"max_iter": 0},
    {"max_iter": np.uint8(1)}, {"half_life": None}, {"half_life": 1e-3}, {"half_life": 1e300},
    {"half_life": 5}, {"early_stopping": np.False_}, {"validation_fraction": 1e-9},
    {"validation_fraction": 0.999}, {"validation_fraction": np.float32(0.25)},
    {"n_iter_no_change": 1}, {"tol": 0}, {"tol": 1e9}, {"n_members": np.int64(2)},
    {"weight_gain": 2}, {"bias_variance": np.float32(1)}, {"shuffle": np.True_},
    {"random_state": np.random.RandomState(0)}, {"random_state": np.int64(3)},
    {"random_state": None}, {"verbose": False}, {"verbose": np.int64(0)},
]  # fmt: skip
QUICK = {"hidden_layer_sizes": (3,), "max_iter": 2, "n_members": 1, "random_state": 0}


@pytest.mark.parametrize("params", GOOD, ids=lambda p: repr(p).partition(" at 0x")[0])
@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
def test_accepts_at_the_edge(estimator, params):
    model = estimator(**{**QUICK, **params}).fit(X, Y)
    assert np.isfinite(model.log_likelihood(X, Y))
    assert all((v > 0).all() for v in of_layers(model.coef_vars_))


@pytest.mark.parametrize(
    "activation",
    ["identity", "relu", "leaky_relu", "tanh", "logistic", "softplus", "relu_exact"],
)
def test_every_activation_of_the_contract_is_accepted(activation):
    model = TAGIRegressor(**{**QUICK, "activation": activation}).fit(X, Y)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("sizes", [4, [4], (np.int64(4),), np.array([4])])
def test_one_hidden_layer_can_be_written_in_several_ways(sizes):
    expected = TAGIRegressor(**{**QUICK, "hidden_layer_sizes": (4,)}).fit(X, Y)
    model = TAGIRegressor(**{**QUICK, "hidden_layer_sizes": sizes}).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_no_hidden_layer_is_a_linear_model():
    model = TAGIRegressor(**{**QUICK, "hidden_layer_sizes": ()}).fit(X, Y)
    assert [a.shape for a in model.coefs_] == [(2, 1)]
    a, b = X[:1], X[1:2]
    midpoint = (model.predict(a) + model.predict(b)) / 2
    np.testing.assert_allclose(model.predict((a + b) / 2), midpoint, rtol=1e-12)


def test_batch_larger_than_the_data_is_one_batch_of_all_rows():
    params = {**QUICK, "early_stopping": False}
    exact = TAGIRegressor(**params, batch_size=len(X)).fit(X, Y)
    larger = TAGIRegressor(**params, batch_size=10 * len(X)).fit(X, Y)
    np.testing.assert_array_equal(exact.predict(X), larger.predict(X))


def test_max_iter_zero_has_learned_nothing():
    model = TAGIRegressor(max_iter=0, random_state=0).fit(X, Y)
    assert model.n_iter_ == 0
    assert model.train_scores_ == []
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


@pytest.mark.parametrize("scale", [0.25, 4.0])
def test_weight_gain_and_bias_variance_scale_the_prior(scale):
    model = TAGIRegressor(hidden_layer_sizes=(7,), max_iter=0, weight_gain=scale,
                          bias_variance=0.01 * scale, n_members=1).fit(X, Y)  # fmt: skip
    np.testing.assert_allclose(model.coef_vars_[0], scale * 2 / (2 + 7))
    np.testing.assert_allclose(model.coef_vars_[1], scale * 2 / (7 + 1))
    np.testing.assert_allclose(model.intercept_vars_[0], 0.01 * scale)


def test_a_subclass_may_take_fewer_parameters():
    class Quick(TAGIRegressor):
        def __init__(self, max_iter=3):
            super().__init__(max_iter=max_iter, hidden_layer_sizes=(3,), n_members=1)

    X = np.linspace(0, 1, 20)[:, None]
    assert Quick().fit(X, X[:, 0]).n_iter_ <= 3
    with pytest.raises(ValueError, match="max_iter"):
        Quick(max_iter=-1).fit(X, X[:, 0])


class Named(TAGIRegressor):
    """A subclass that cannot be made without an argument."""

    def __init__(self, name):
        super().__init__(hidden_layer_sizes=(3,), n_members=1, max_iter=2, random_state=0)
        self.name = name


def test_a_subclass_that_needs_an_argument_is_saved_and_read():
    model = Named("mine").fit(X, Y)
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.name == "mine"
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        loaded.partial_fit(X, Y).predict(X), model.partial_fit(X, Y).predict(X)
    )


def test_parameters_of_a_stream_are_checked_whenever_one_changes():
    model = TAGIRegressor((4,), n_members=1, verbose=0).partial_fit(X, Y).partial_fit(X, Y)
    for name, wrong in (("n_members", True), ("n_members", 1.0), ("hidden_layer_sizes", (4.0,)),
                        ("standardize", 1), ("half_life", np.float64("nan"))):  # fmt: skip
        right = getattr(model, name)
        setattr(model, name, wrong)
        with pytest.raises(ValueError, match=f"^{name} must be"):
            model.partial_fit(X, Y)
        model.set_params(**{name: right}).partial_fit(X, Y)


def test_a_parameter_that_is_changed_in_place_is_checked_again():
    sizes = [4]
    model = TAGIRegressor(sizes, n_members=1).partial_fit(X, Y)
    sizes[0] = "four"
    with pytest.raises(ValueError, match=r"^hidden_layer_sizes must be"):
        model.partial_fit(X, Y)
    labels, weights = Y > 0, {False: 1.0, True: 2.0}
    classifier = TAGIClassifier((4,), n_members=1, class_weight=weights)
    classifier.partial_fit(X, labels, classes=[False, True])
    weights[True] = "two"
    with pytest.raises(ValueError, match=r"^class_weight must be"):
        classifier.partial_fit(X, labels)
