"""Shards on executors of ``concurrent.futures``, and on Ray: no dask is needed."""

import os
import signal
import threading
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import joblib
import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer

import sktagi.dask
from sktagi import TAGIClassifier, TAGIRegressor, _workers
from sktagi._workers import PoolWorkers
from sktagi.dask import fit_shards

PARAMS = {"hidden_layer_sizes": (10,), "n_members": 2, "max_iter": 6, "random_state": 0}


def make_rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = 5 + 2 * rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)


def in_parts(X, y, n=3):
    return np.array_split(X, n), np.array_split(y, n)


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        yield executor


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(1) as executor:
        yield executor


def predictions(model, X):
    if isinstance(model, TAGIClassifier):
        return model.predict_proba(X)
    return np.stack(model.predict(X, return_std=True))


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
def test_every_executor_gives_the_same_bits(processes, threads, estimator):
    X, y = make_rows()
    y = y if estimator is TAGIRegressor else np.digitize(y, [1.0, 2.0])
    model = estimator(max_iter=3, n_members=2, random_state=0)  # networks of several kinds
    # Of its own: joblib would take the reusable one for one that it has made itself.
    with joblib.externals.loky.ProcessPoolExecutor(2) as others:
        executors = [processes, threads, others]
        fitted = [fit_shards(model, *in_parts(X, y), client=one) for one in executors]
    for other in fitted[1:]:
        np.testing.assert_array_equal(predictions(other, X), predictions(fitted[0], X))
    assert fitted[0].n_samples_seen_ == 400
    assert fitted[0].score(X, y) > 0.5


def test_dask_gives_the_same_bits(threads):
    pytest.importorskip("distributed")
    clusters = pytest.importorskip("clusters")
    X, y = make_rows()
    model = TAGIRegressor(**PARAMS)
    with clusters.cluster(1, processes=False) as client:
        there = [
            fit_shards(model, *parts, client=client)
            for parts in (in_parts(X, y, 4), clusters.chunked(X, y, 4))
        ]
    here = fit_shards(model, *in_parts(X, y, 4), client=threads)
    for other in there:
        np.testing.assert_array_equal(predictions(other, X), predictions(here, X))


def test_ray_gives_the_same_bits(threads):
    ray = pytest.importorskip("ray")
    X, y = make_rows()
    model = TAGIRegressor(**PARAMS)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        there = fit_shards(model, *in_parts(X, y), client=ray)
    finally:
        ray.shutdown()
    here = fit_shards(model, *in_parts(X, y), client=threads)
    np.testing.assert_array_equal(predictions(there, X), predictions(here, X))


def test_partitions_are_loaded_where_they_are_learned(processes, tmp_path):
    X, y = make_rows()
    loaders = []
    for name, parts in zip("Xyw", (*in_parts(X, y), np.array_split(1 + y**2, 3)), strict=True):
        paths = [tmp_path / f"{name}{k}.npy" for k in range(3)]
        for path, part in zip(paths, parts, strict=True):
            np.save(path, part)
        loaders.append([partial(np.load, path) for path in paths])
    model = TAGIRegressor(**PARAMS)
    given = {"sample_weight": np.array_split(1 + y**2, 3), "client": processes}
    expected = fit_shards(model, *in_parts(X, y), **given)
    loaded = fit_shards(model, *loaders[:2], sample_weight=loaders[2], client=processes)
    np.testing.assert_array_equal(predictions(loaded, X), predictions(expected, X))


def test_nothing_is_left_on_disk(threads, monkeypatch):
    folders, files = [], []
    close = PoolWorkers.close

    def watched(self):
        folders.append(self.folder.name)
        files.append(len(os.listdir(self.folder.name)))
        close(self)

    monkeypatch.setattr(PoolWorkers, "close", watched)
    fit_shards(TAGIRegressor(**PARAMS), *in_parts(*make_rows()), client=threads)
    assert not os.path.exists(folders[0])
    assert files[0] <= 6  # three shards, and what they held out: others went before


@pytest.mark.parametrize("given", [[], [[1.0, 2.0], [3.0, 4.0]], np.zeros((4, 2))])
def test_what_is_no_list_of_partitions_is_refused(threads, given):
    with pytest.raises(ValueError, match="X must be a dask array or frame, or a list"):
        fit_shards(TAGIRegressor(**PARAMS), given, given, client=threads)


def test_lists_must_have_equal_partitions(threads):
    X, y = make_rows()
    with pytest.raises(ValueError, match="equal partitions; got 3, 2"):
        fit_shards(TAGIRegressor(**PARAMS), in_parts(X, y)[0], in_parts(X, y, 2)[1], client=threads)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"client": object()}, "client must be a distributed.Client, an executor"),
        ({"client": "tcp://127.0.0.1:8786"}, "client must be a distributed.Client, an executor"),
        ({"timeout": True}, "timeout must be None or a number of seconds >= 0"),
        ({"estimator": "a model"}, "estimator must be one of sktagi"),
        ({"estimator": TAGIRegressor(n_members=10**9)}, "n_members=.* of memory"),
    ],
)
def test_wrong_arguments_are_named(threads, given, what):
    if given.get("client") is not None:
        pytest.importorskip("distributed")
    given = {"estimator": TAGIRegressor(**PARAMS), "client": threads, **given}
    X_parts, y_parts = in_parts(*make_rows())
    with pytest.raises(ValueError, match=what):
        fit_shards(X=X_parts, y=y_parts, **given)


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_a_function_that_cannot_be_sent_is_named(processes, name):
    X_parts, y_parts = in_parts(*make_rows())
    given = {"X": X_parts, "y": y_parts, "sample_weight": y_parts}
    given[name] = [lambda part=part: part for part in given[name]]
    with pytest.raises(ValueError, match=f"^{name} has partitions that cannot be sent"):
        fit_shards(TAGIRegressor(**PARAMS), **given, client=processes)


def test_an_executor_that_is_busy_is_waited_for_until_the_timeout(monkeypatch):
    monkeypatch.setattr(_workers, "SILENT_SECONDS", 0.5)
    parts, free, given = in_parts(*make_rows()), threading.Event(), []
    with ThreadPoolExecutor(1) as executor:
        submit = executor.submit
        submit(free.wait)
        executor.submit = lambda *args: given.append(submit(*args)) or given[-1]
        with (
            pytest.warns(UserWarning, match="for 2 s: those of the executor are busy"),
            pytest.raises(TimeoutError, match="no workers for 2 s"),
        ):
            fit_shards(TAGIRegressor(**PARAMS), *parts, client=executor, timeout=2)
        free.set()
    assert given
    assert all(task.cancelled() for task in given)


class Watch(sktagi.dask.Progress):
    """Does something after three epochs."""

    def __call__(self, history):
        if history.n_iter == 3:
            self.act()
        return super().__call__(history)


def test_epochs_are_kept_if_a_process_is_killed(monkeypatch):
    X, y = make_rows()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        pid = executor.submit(os.getpid).result()
        monkeypatch.setattr(Watch, "act", lambda _: os.kill(pid, signal.SIGKILL), raising=False)
        monkeypatch.setattr(sktagi.dask, "Progress", Watch)
        with pytest.warns(UserWarning, match=r"Training ended \(.*not calibrated"):
            model = fit_shards(TAGIRegressor(**PARAMS), *in_parts(X, y), client=executor)
        assert 3 <= model.n_iter_ < 6
        assert model.score(X, y) > 0.5
        with pytest.raises(BrokenExecutor):  # nothing to give back
            fit_shards(TAGIRegressor(**PARAMS), *in_parts(X, y), client=executor)


def test_epochs_are_kept_if_the_executor_is_shut_down(monkeypatch):
    X, y = make_rows()
    with ThreadPoolExecutor(1) as executor:
        monkeypatch.setattr(Watch, "act", lambda _: executor.shutdown(False), raising=False)
        monkeypatch.setattr(sktagi.dask, "Progress", Watch)
        with pytest.warns(UserWarning, match=r"Training ended \(cannot schedule new futures"):
            model = fit_shards(TAGIRegressor(**PARAMS), *in_parts(X, y), client=executor)
        assert model.n_iter_ == 3
        with pytest.raises(RuntimeError, match="cannot schedule new futures"):
            fit_shards(TAGIRegressor(**PARAMS), *in_parts(X, y), client=executor)


def test_a_parameter_that_cannot_be_sent_is_named(processes):
    model = TAGIRegressor(**PARAMS, target_transform=FunctionTransformer(lambda y: y, lambda g: g))
    with pytest.raises(ValueError, match=r"target_transform=(.|\n)* cannot be sent to the"):
        fit_shards(model, *in_parts(*make_rows()), client=processes)


def test_callbacks_stay_where_the_call_is_made(processes):
    """They may hold what cannot be sent, see each epoch, and stop training."""
    pytest.importorskip("sklearn.callback")
    X, y = make_rows()
    X_parts, y_parts = in_parts(X, y)
    events = []

    class Recorder:
        def setup(self, estimator, context):
            events.append("setup")

        def on_fit_task_begin(self, estimator, context):
            events.append(f"begin {context.task_name}")

        def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
            events.append(f"end {context.task_name}")
            if context.task_name == "epoch":
                assert X is X_parts
                events.append(fitted_estimator.predict(X[0]))
                return context.task_id == 1

        def teardown(self, estimator, context):
            events.append("teardown")

    recorder = Recorder()
    recorder.lock = threading.Lock()
    model = TAGIRegressor(**PARAMS, half_life=None, sigma_v="constant").set_callbacks(recorder)
    fitted = fit_shards(model, X_parts, y_parts, client=processes)
    names = [event for event in events if isinstance(event, str)]
    assert names == [
        "setup", "begin fit", *["begin epoch", "end epoch"] * 2, "end fit", "teardown"
    ]  # fmt: skip
    assert fitted.n_iter_ == 2
    shown = [event for event in events if not isinstance(event, str)]
    np.testing.assert_array_equal(shown[-1], fitted.predict(X_parts[0]))
    assert not np.array_equal(shown[0], shown[1])
    assert fitted._skl_callbacks == model._skl_callbacks
    assert not [name for name in vars(fitted) if "callback" in name and name != "_skl_callbacks"]
