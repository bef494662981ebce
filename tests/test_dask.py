"""On a local dask cluster of two worker processes: searches, streams of chunks, shards."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from copy import deepcopy
from itertools import product
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from helpers import calibrate
from sklearn.model_selection import GridSearchCV, KFold
from test_progress import Terminal

from sktagi import TAGIClassifier, TAGIRegressor, _cluster, _progress, _shards
from sktagi._workers import DaskWorkers
from sktagi.engine.calibration import HeldOutHere, set_calibration
from sktagi.engine.class_calibration import calibrate_classes
from sktagi.engine.held_out import predict_held_out
from sktagi.engine.learning import Learner
from sktagi.merging import merge
from sktagi.metrics import log_likelihood_scorer

pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
clusters = pytest.importorskip("clusters")
PARAMS, PATIENCE = clusters.PARAMS, clusters.PATIENCE
chunked, make_rows = clusters.chunked, clusters.make_rows


@pytest.fixture(scope="module")
def client():
    with clusters.cluster(as_default=True) as client:
        yield client


def kill_one_worker(client):
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    return set(pids.values())


def in_thread(function):
    """Start a function; returns a function that waits for its result."""
    result = {}

    def run():
        try:
            result["value"] = function()
        except BaseException as error:
            result["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait():
        thread.join(PATIENCE)
        assert not thread.is_alive(), "no result in time"
        if "error" in result:
            raise result["error"]
        return result["value"]

    return wait


def search(X, y, cv=3, **params):
    grid = {"sigma_v": [0.1, 0.3, 0.9], "batch_size": [10, 20]}
    model = TAGIRegressor(**{**PARAMS, "max_iter": 5, "early_stopping": False, **params})
    return GridSearchCV(model, grid, cv=cv, scoring=log_likelihood_scorer, refit=False).fit(X, y)


def test_grid_search_on_the_cluster_equals_the_local_one(client):
    X, y = make_rows(200)
    local = search(X, y)
    with joblib.parallel_config(backend="dask", scatter=[X, y]):
        remote = search(X, y)
    np.testing.assert_allclose(
        remote.cv_results_["mean_test_score"], local.cv_results_["mean_test_score"], rtol=1e-9
    )
    assert remote.best_params_ == local.best_params_


def test_grid_search_in_processes_equals_the_local_one():
    X, y = make_rows(200)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        remote = search(X, y)
    np.testing.assert_allclose(
        remote.cv_results_["mean_test_score"], search(X, y).cv_results_["mean_test_score"],
        rtol=1e-9,
    )  # fmt: skip


def test_grid_search_survives_a_killed_worker(client):
    X, y = make_rows(300)
    local = search(X, y, max_iter=10)
    # By default joblib puts the row numbers of a fold on one worker only; these are on all.
    folds = list(KFold(3).split(X))
    everywhere = [X, y, *(rows for fold in folds for rows in fold)]

    def run():
        with joblib.parallel_config(backend="dask", client=client, scatter=everywhere):
            return search(X, y, cv=folds, max_iter=10)

    wait = in_thread(run)
    deadline = time.monotonic() + PATIENCE
    while not any(client.processing().values()):
        assert time.monotonic() < deadline, "the search did not begin"
        time.sleep(0.01)
    before = kill_one_worker(client)
    remote = wait()
    np.testing.assert_allclose(
        remote.cv_results_["mean_test_score"], local.cv_results_["mean_test_score"], rtol=1e-9
    )
    client.wait_for_workers(2, timeout=PATIENCE)
    assert set(client.run(os.getpid).values()) != before


def test_incremental_over_chunks_equals_partial_fit_over_them(client):
    wrappers = pytest.importorskip("dask_ml.wrappers")
    X, y = make_rows()
    dX, dy = chunked(X, y, 10)
    streamed = TAGIRegressor(**PARAMS)
    for k in range(0, 1000, 100):
        streamed.partial_fit(X[k : k + 100], y[k : k + 100])
    incremental = wrappers.Incremental(TAGIRegressor(**PARAMS), shuffle_blocks=False)
    incremental.fit(dX, dy)
    np.testing.assert_array_equal(incremental.estimator_.predict(X), streamed.predict(X))


def test_predictions_of_chunks_mean_and_std(client):
    wrappers = pytest.importorskip("dask_ml.wrappers")
    X, y = make_rows()
    dX, _ = chunked(X, y, 5)
    model = TAGIRegressor(**PARAMS, max_iter=3).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    post = wrappers.ParallelPostFit(model)
    np.testing.assert_allclose(post.predict(dX).compute(), mean, rtol=1e-12)
    both = dX.map_blocks(
        lambda rows: np.column_stack(model.predict(rows, return_std=True)),
        chunks=(dX.chunks[0], 2),
        meta=np.empty((0, 2)),
    )
    np.testing.assert_allclose(both.compute(), np.column_stack([mean, std]), rtol=1e-12)


def test_frames_are_learned_and_predicted_as_their_rows(client):
    wrappers = pytest.importorskip("dask_ml.wrappers")
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = make_rows(400)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    parts = dd.from_pandas(frame.assign(target=y), npartitions=4)
    dX, dy = parts[["a", "b", "c"]], parts["target"]
    incremental = wrappers.Incremental(TAGIRegressor(**PARAMS), shuffle_blocks=False).fit(dX, dy)
    model = TAGIRegressor(**PARAMS)
    for rows, target in zip(dX.partitions, dy.partitions, strict=True):
        model.partial_fit(rows.compute(), target.compute())
    mean, std = model.predict(frame, return_std=True)
    np.testing.assert_allclose(incremental.estimator_.predict(frame), mean, rtol=1e-9)
    np.testing.assert_allclose(
        np.asarray(wrappers.ParallelPostFit(model).predict(dX).compute()), mean, rtol=1e-12
    )

    def both(rows):
        values = np.column_stack(model.predict(rows, return_std=True))
        return pd.DataFrame(values, index=rows.index, columns=["mean", "std"])

    predicted = dX.map_partitions(both, meta={"mean": float, "std": float}).compute()
    np.testing.assert_allclose(predicted, np.column_stack([mean, std]), rtol=1e-12)


def test_shards_together_learn_much_more_than_one_of_them(client):
    from sktagi.dask import fit_shards

    X, y = make_rows(800)
    X_test, y_test = make_rows(1000, seed=1)
    model = TAGIRegressor(**{**PARAMS, "n_members": 3}, batch_size=20, max_iter=40)
    whole = model.fit(X, y).log_likelihood(X_test, y_test)
    alone = model.fit(X[:200], y[:200]).log_likelihood(X_test, y_test)
    # Four small shards: as many steps as the fit has made, with as much patience.
    model.set_params(max_iter=160, n_iter_no_change=80)
    sharded = fit_shards(model, *chunked(X, y, 4)).log_likelihood(X_test, y_test)
    assert sharded > whole - 0.1
    assert sharded > alone + 0.3


def test_one_shard_learns_as_fit(client):
    from sktagi.dask import fit_shards

    X, y = make_rows(300)
    model = TAGIRegressor(**PARAMS, sigma_v="constant", max_iter=10, shuffle=False)
    sharded = fit_shards(model, *chunked(X, y, 1))
    fitted = model.fit(X, y)
    np.testing.assert_allclose(sharded.train_scores_, fitted.train_scores_, rtol=1e-9)
    np.testing.assert_allclose(sharded.validation_scores_, fitted.validation_scores_, atol=0.01)
    (mean, std), (mean_fit, std_fit) = (m.predict(X, return_std=True) for m in (sharded, fitted))
    np.testing.assert_allclose(mean, mean_fit, rtol=1e-9)
    np.testing.assert_allclose(std, std_fit, rtol=0.02)
    assert sharded.sigma_v_ == pytest.approx(fitted.sigma_v_, rel=0.02)
    assert sharded.n_samples_seen_ == 300
    assert sharded.best_iter_ == fitted.best_iter_


def test_shards_are_calibrated_as_all_their_rows_together(client):

    X, y = make_rows(300)
    model = TAGIRegressor(**{**PARAMS, "n_members": 2}, max_iter=3, early_stopping=False).fit(X, y)
    given = [model._validate_rows(X, y, w, None, None, first=False) for w in (None, 1 + y**2)]
    for data, start in product(given, (None, model._draw_noise_network(model._net))):
        rows = model._prepare(data, model._net.dtype)
        # Which rows each member holds out: of the first shard, of the second, of all.
        first, second = ([np.arange(m, n, 3) for m in range(2)] for n in (100, 200))
        everything = [np.append(a, 100 + b) for a, b in zip(first, second, strict=True)]
        cuts = (slice(0, 100), first), (slice(100, 300), second)
        shards = [_shards.Shard(None, rows.take(cut), None, held) for cut, held in cuts]
        shards.append(shards[0]._replace(validation=None))
        net, expected = model._net.copy(), model._net.copy()
        summary = _shards.Summary(None, None, 100, 100.0, np.array([100]), 67, 33, np.array([33]))
        cluster = _cluster.Cluster(DaskWorkers(client, None), model, net, shards, [summary] * 3, [])
        set_calibration(net, cluster.held_out(net), start)
        calibrate(expected, rows, everything, start)
        if start is not None:  # folds of few sets are drawn in each place
            ratios = [noisy.noise_net.log_ratio(rows.x)[0] for noisy in (net, expected)]
            assert np.corrcoef(*ratios)[0, 1] > 0.9
            continue
        found, expected = net.calibration, expected.calibration
        assert expected.temperature != 1
        assert found.temperature == expected.temperature
        np.testing.assert_allclose(found.noise_scale, expected.noise_scale, rtol=1e-9)
        np.testing.assert_allclose(found.shape.weight, expected.shape.weight, rtol=1e-6)


def test_shards_learn_noise_that_varies(client):
    from sktagi.dask import fit_shards

    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(1200, 2))
    std = 0.1 * np.exp(0.7 * X[:, 0])
    y = np.sin(X[:, 0]) + std * rng.normal(size=1200)
    params = {**PARAMS, "n_members": 3, "max_iter": 20}
    auto, constant = (
        fit_shards(TAGIRegressor(sigma_v=sigma_v, **params), *chunked(X, y, 2))
        for sigma_v in ("auto", "constant")
    )
    assert auto.log_likelihood(X, y) > constant.log_likelihood(X, y) + 0.2
    assert np.corrcoef(np.log(auto.predict_noise_std(X)), np.log(std))[0, 1] > 0.9


def test_statistics_of_shards_are_those_of_all_training_rows(client):
    from sktagi.dask import fit_shards

    X, y = make_rows(300)
    weight = np.random.default_rng(0).uniform(0.5, 2, 300)
    model = TAGIRegressor(**PARAMS, max_iter=0, early_stopping=False)
    dX, dy = chunked(X, y, 3)
    sharded = fit_shards(model, dX, dy, sample_weight=da.from_array(weight, chunks=100))
    fitted = model.fit(X, y, sample_weight=weight)
    for mine, theirs in zip(sharded._scaling, fitted._scaling, strict=True):
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-12)
        np.testing.assert_allclose(mine.scale, theirs.scale, rtol=1e-12)
    np.testing.assert_allclose(sharded.predict(X), fitted.predict(X), rtol=1e-9)


def test_a_fit_of_shards_survives_a_killed_worker(client, monkeypatch):
    import sktagi.dask

    X, y = make_rows(600)
    model = TAGIRegressor(**PARAMS, max_iter=8, verbose=1)
    dX, dy = chunked(X, y, 4)
    expected = sktagi.dask.fit_shards(model, dX, dy)
    third_epoch = threading.Event()

    class Watch(sktagi.dask.Progress):
        def __call__(self, history):
            if history.n_iter == 3:
                kill_one_worker(client)
                third_epoch.set()
            return super().__call__(history)

    monkeypatch.setattr(sktagi.dask, "Progress", Watch)
    fitted = in_thread(lambda: sktagi.dask.fit_shards(model, dX, dy, client=client))()
    assert third_epoch.is_set()
    assert fitted.n_iter_ == 8
    np.testing.assert_allclose(
        fitted.predict(X, return_std=True), expected.predict(X, return_std=True), rtol=1e-9
    )
    client.wait_for_workers(2, timeout=PATIENCE)


def test_shards_of_a_frame_with_classes_some_shards_lack(client):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    from sktagi.dask import fit_shards

    X, y = make_rows(400)
    order = np.argsort(y)
    frame = pd.DataFrame(X[order], columns=["a", "b", "c"])
    frame["label"] = np.array(["low", "middle", "high"])[np.digitize(y[order], [1.0, 2.0])]
    parts = dd.from_pandas(frame, npartitions=3)
    model = TAGIClassifier(**PARAMS, max_iter=30)
    model = fit_shards(model, parts[["a", "b", "c"]], parts["label"])
    assert list(model.classes_) == ["high", "low", "middle"]
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.score(frame[["a", "b", "c"]], frame["label"]) > 0.6  # a third by chance


def test_shards_of_classes_are_calibrated_as_all_their_rows_together(client):

    X, y = make_rows(300)
    y = np.digitize(y, [1.0, 2.0])
    model = TAGIClassifier(**{**PARAMS, "n_members": 2}, max_iter=3, early_stopping=False).fit(X, y)
    rows = model._prepare(
        model._validate_rows(X, y, None, None, None, first=False), model._net.dtype
    )
    first, second = ([np.arange(m, n, 3) for m in range(2)] for n in (100, 200))
    everything = [np.append(a, 100 + b) for a, b in zip(first, second, strict=True)]
    cuts = (slice(0, 100), first), (slice(100, 300), second)
    shards = [_shards.Shard(None, rows.take(cut), None, held) for cut, held in cuts]
    net, expected = model._net.copy(), model._net.copy()
    summary = _shards.Summary(None, None, 100, 100.0, np.array([100]), 67, 33, np.array([33]))
    cluster = _cluster.Cluster(DaskWorkers(client, None), model, net, shards, [summary] * 2, [])
    calibrate_classes(net, cluster.held_out(net), 0.1, 100)
    held = predict_held_out(expected, rows, everything, np.ones(1))
    calibrate_classes(expected, HeldOutHere(held), 0.1, 100)
    for name in ("slope", "usual_var", "unknown"):
        found = getattr(net.calibration, name)
        assert found == pytest.approx(getattr(expected.calibration, name), rel=1e-9)


def test_shards_of_several_labels(client):
    from sktagi.dask import fit_shards

    X, y = make_rows(400)
    Y = np.stack([y > 1, y > 2, X[:, 2] > 5], axis=1).astype(int)
    parts = da.from_array(X, chunks=(200, -1)), da.from_array(Y, chunks=(200, -1))
    model = fit_shards(TAGIClassifier(**PARAMS, max_iter=30), *parts)
    assert model.predict_proba(X).shape == (400, 3)
    assert np.mean(model.predict(X) == Y) > 0.8


def test_balanced_classes_are_refused_where_no_shard_knows_all_rows(client):
    from sktagi.dask import fit_shards

    X, y = make_rows(100)
    with pytest.raises(ValueError, match="class_weight='balanced'"):
        fit_shards(TAGIClassifier(**PARAMS, class_weight="balanced"), *chunked(X, 1 * (y > 1), 2))
    weighted = TAGIClassifier(**PARAMS, class_weight={1: 5.0}, max_iter=5)
    model = fit_shards(weighted, *chunked(X, 1 * (y > 1), 2))
    plain = fit_shards(TAGIClassifier(**PARAMS, max_iter=5), *chunked(X, 1 * (y > 1), 2))
    assert model.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()


@pytest.mark.parametrize("size", [100.0, 1e-3])
def test_the_common_size_of_weights_does_not_matter_to_shards(client, size):
    """Nor do partitions whose weights differ: the scale is that of all of them."""
    from sktagi.dask import fit_shards

    X, y = make_rows(300)
    weight = np.repeat([1.0, 2.0, 4.0], 100)
    scaled = weight if size > 1 else weight / weight.mean()
    model = TAGIRegressor(**PARAMS, max_iter=3)
    dX, dy = chunked(X, y, 3)
    models = [
        fit_shards(model, dX, dy, sample_weight=da.from_array(w, chunks=100))
        for w in (scaled, size * weight)
    ]
    mean, std = models[0].predict(X, return_std=True)
    other, other_std = models[1].predict(X, return_std=True)
    np.testing.assert_allclose(other, mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(other_std, std, rtol=1e-7)


def test_a_splitter_is_refused_as_no_worker_has_all_rows(client):
    from sktagi.dask import fit_shards

    with pytest.raises(ValueError, match=r"fit_shards takes no cv\b"):
        fit_shards(TAGIRegressor(cv=5), *chunked(*make_rows(30), 3))


def test_shards_without_rows_or_without_weight_are_left_out(client):
    from sktagi.dask import fit_shards

    X, y = make_rows(300)
    dX, dy = chunked(X, y, 3)
    weight = np.repeat([1.0, 0.0, 1.0], 100)
    model = TAGIRegressor(**PARAMS, max_iter=2)
    weighted = fit_shards(model, dX, dy, sample_weight=da.from_array(weight, chunks=100))
    assert weighted.n_samples_seen_ == 200
    half = dX[dX[:, 0] > X[99, 0]], dy[dX[:, 0] > X[99, 0]]  # chunks of unknown size
    assert fit_shards(model, *half).n_samples_seen_ == (X[:, 0] > X[99, 0]).sum()
    for some in (dX[:, 0] > 1e9, dX[:, 0] < 0 * dX[:, 0] - 1e9):
        with pytest.raises(ValueError, match="no rows"):
            fit_shards(model, dX[some], dy[some])
    first = np.arange(300) < 100
    some = da.from_array(first, chunks=100)
    assert fit_shards(model, dX[some], dy[some]).n_samples_seen_ == 100


def test_progress_of_shards_is_shown(client, capsys):
    from sktagi.dask import fit_shards

    X, y = make_rows(200)
    model = fit_shards(TAGIRegressor(**PARAMS, max_iter=3, verbose=1), *chunked(X, y, 2))
    lines = capsys.readouterr().out.splitlines()
    assert all("on 2 shards" in line for line in lines)
    assert "epoch 1/3" in lines[0]
    assert "all epochs done after 3 epochs" in lines[-1]
    assert len(model.train_scores_) == len(model.validation_scores_) == model.n_iter_ == 3


def test_what_cannot_be_sharded_is_refused(client):
    from sktagi.dask import fit_shards

    X, y = make_rows(100)
    dX, dy = chunked(X, y, 2)
    with pytest.raises(ValueError, match="X must be a dask array or frame, or a list of"):
        fit_shards(TAGIRegressor(), X, y)
    with pytest.raises(ValueError, match="y has 50 rows, X has 100"):
        fit_shards(TAGIRegressor(), dX, dy[:50])
    with pytest.raises(ValueError, match="max_iter"):
        fit_shards(TAGIRegressor(max_iter=-1), dX, dy)


def test_copies_of_merged_shards_count_their_rows_once(client):
    from sktagi.dask import fit_shards

    X, y = make_rows(200)
    model = fit_shards(TAGIRegressor(**PARAMS, max_iter=2), *chunked(X[:100], y[:100], 2))
    assert model.n_samples_seen_ == 100
    assert model._origin.n_samples_seen == 100  # as of what was merged
    parts = [deepcopy(model).partial_fit(X[k : k + 50], y[k : k + 50]) for k in (100, 150)]
    merged = merge(parts)
    assert merged.n_samples_seen_ == 200
    held_out = 10  # in two shards, five of fifty
    np.testing.assert_allclose(merged._scaling.y.weight, 200 - held_out)


def test_shards_may_be_fitted_again_in_memory(client):
    """What ``fit`` leaves behind for a warm start is there."""
    from sktagi.dask import fit_shards

    X, y = make_rows(200)
    model = TAGIRegressor(**PARAMS, max_iter=2, warm_start=True)
    model = fit_shards(model, *chunked(X, y, 2)).fit(X, y)
    assert model.n_samples_seen_ == 400
    assert set(vars(model)) == set(vars(TAGIRegressor(**PARAMS, max_iter=2).fit(X, y)))


@pytest.fixture(scope="module")
def threads():
    """A cluster of one thread of this process: what its worker does can be watched."""
    with clusters.cluster(1, processes=False) as client:
        yield client


def test_workers_learn_and_predict_with_the_blas_threads_that_pay(threads, monkeypatch):
    import sktagi.dask

    limits, seen = [], []

    @contextmanager
    def limited(layers, n_rows):
        limits.append((len(layers), n_rows))
        yield
        limits.pop()

    def watched(name, function):
        def called(*given):
            seen.append((name, tuple(limits[-1:])))
            return function(*given)

        return called

    monkeypatch.setattr(_shards, "threads_for_layers", limited)
    monkeypatch.setattr(Learner, "learn", watched("learn", Learner.learn))
    for name in ("predict_moments", "predict_held_out"):
        monkeypatch.setattr(_shards, name, watched(name, getattr(_shards, name)))
    X, y = make_rows(300)
    model = TAGIRegressor(**PARAMS, sigma_v="constant", max_iter=2, batch_size=20)
    sktagi.dask.fit_shards(model, *chunked(X, y, 2), client=threads)
    # Two epochs of two shards: each is learned, and validated afterwards.
    of_batches = ((2, 20),)  # in the calibration too, as in fit
    expected = [("learn", of_batches), ("predict_moments", of_batches)] * 4
    assert sorted(seen) == sorted([*expected, *[("predict_held_out", of_batches)] * 2])


def test_an_error_closes_the_line_of_progress(threads, monkeypatch):
    import sktagi.dask

    calls, merge_networks = [], _cluster.merge_networks

    def fails(*given):
        calls.append(1)
        if len(calls) == 3:
            raise MemoryError
        return merge_networks(*given)

    monkeypatch.setattr(_cluster, "merge_networks", fails)
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_UPDATES", 0.0)
    monkeypatch.setenv("COLUMNS", "200")
    terminal = Terminal()
    monkeypatch.setattr(_progress, "sys", SimpleNamespace(stdout=terminal))
    model = TAGIRegressor(**PARAMS, max_iter=5, verbose=1)
    with pytest.raises(MemoryError):
        sktagi.dask.fit_shards(model, *chunked(*make_rows(200), 2), client=threads)
    assert "epoch 2/5" in terminal.getvalue()
    assert terminal.getvalue().endswith("left\n")


# Targets that are not observed


def incomplete_rows(n=400, seed=0):
    X, y = make_rows(n, seed)
    rng = np.random.default_rng([seed, 1])
    Y = np.column_stack([y, 100 + 20 * y, X[:, 2]]) + 0.1 * rng.normal(size=(n, 3))
    missing = rng.random(Y.shape) < 0.4
    missing[np.arange(n), rng.integers(3, size=n)] = False
    Y[missing] = np.nan
    return X, Y


def chunked_targets(X, Y, n_chunks):
    size = -(-len(X) // n_chunks)
    return tuple(da.from_array(values, chunks=(size, -1)) for values in (X, Y))


@pytest.mark.parametrize("seldom", [False, True])
def test_one_shard_of_incomplete_targets_learns_as_fit(client, seldom):
    """Of a target that few held-out rows observe the noise is the one that was learned."""
    from sktagi.dask import fit_shards

    X, Y = incomplete_rows(300)
    if seldom:
        Y[25:, 1] = np.nan
        Y[np.isnan(Y).all(axis=1), 0] = 2.5
    model = TAGIRegressor(**PARAMS, sigma_v="constant", max_iter=10, shuffle=False)
    sharded, fitted = fit_shards(model, *chunked_targets(X, Y, 1)), model.fit(X, Y)
    np.testing.assert_allclose(sharded.train_scores_, fitted.train_scores_, rtol=1e-9)
    np.testing.assert_allclose(sharded.validation_scores_, fitted.validation_scores_, atol=0.03)
    (mean, std), (mean_fit, std_fit) = (m.predict(X, return_std=True) for m in (sharded, fitted))
    np.testing.assert_allclose(mean, mean_fit, rtol=1e-9)
    np.testing.assert_allclose(std, std_fit, rtol=0.02)
    np.testing.assert_allclose(sharded.sigma_v_, fitted.sigma_v_, rtol=0.02)
    assert sharded.best_iter_ == fitted.best_iter_


def test_shards_of_incomplete_targets_learn_them_all(client):
    """One of the shards does not observe a target at all."""
    from sktagi.dask import fit_shards

    X, Y = incomplete_rows(600)
    Y[:200, 1] = np.nan
    Y[np.isnan(Y).all(axis=1), 0] = 2.5
    weight = np.random.default_rng(0).uniform(0.5, 2, 600)
    model = TAGIRegressor(**{**PARAMS, "n_members": 2}, max_iter=40, early_stopping=False)
    weights = da.from_array(weight, chunks=200)
    sharded = fit_shards(model, *chunked_targets(X, Y, 3), sample_weight=weights)
    fitted = model.fit(X, Y, sample_weight=weight)
    for mine, theirs in zip(sharded._scaling, fitted._scaling, strict=True):
        np.testing.assert_allclose(mine.weight, theirs.weight, rtol=1e-12)
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-10)
        np.testing.assert_allclose(mine.scale, theirs.scale, rtol=1e-10)
    # Scores are in the units of the targets, each as often as it is observed.
    thousandths = chunked_targets(X, Y * [1, 1000, 1], 3)
    other = fit_shards(model, *thousandths, sample_weight=weights).train_scores_
    share = np.average(~np.isnan(Y[:, 1]), weights=weight)
    offset = np.subtract(other, sharded.train_scores_)
    np.testing.assert_allclose(offset, -share * np.log(1000), rtol=1e-6)
    X_test, Y_test = incomplete_rows(500, seed=1)
    mean, std = sharded.predict(X_test, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    for truth, predicted in zip(Y_test.T, mean.T, strict=True):
        known = ~np.isnan(truth)
        error = np.mean((truth - predicted)[known] ** 2) / np.var(truth[known])
        assert error < 0.3
    held = TAGIRegressor(**{**PARAMS, "n_members": 2}, max_iter=5)
    assert fit_shards(held, *chunked_targets(X, Y, 3)).score(X, Y) > 0


def test_shards_refuse_rows_without_any_target(client):
    from sktagi.dask import fit_shards

    X, Y = incomplete_rows(200)
    Y[150] = np.nan
    with pytest.raises(ValueError, match="rows with no observed target"):
        fit_shards(TAGIRegressor(**PARAMS), *chunked_targets(X, Y, 2))


def test_logarithms_of_targets_are_learned_on_shards(client):
    from sktagi.dask import fit_shards

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 2))
    y = np.exp(X @ [1.0, -1.0] + 0.3 * rng.normal(size=400))
    params = {"max_iter": 10, "n_members": 2, "random_state": 0}
    model = TAGIRegressor((5,), target_transform="log", **params)
    sharded, whole = fit_shards(model, *chunked(X, y, 2)), model.fit(X, y)
    assert (sharded.predict_interval(X, 0.999) > 0).all()
    assert sharded.log_likelihood(X, y) == pytest.approx(whole.log_likelihood(X, y), abs=0.2)
    assert sharded.validation_scores_[-1] == pytest.approx(whole.validation_scores_[-1], abs=0.3)
    with pytest.raises(ValueError, match="positive"):
        fit_shards(model, *chunked(X, y - 1, 2))
