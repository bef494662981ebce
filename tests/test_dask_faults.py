"""Shards while workers are killed, leave, or never come, and while somebody presses Ctrl-C.

Every trial ends in a time that is known, with a model or with an error that says what happened.
"""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import sktagi.dask
from sktagi import TAGIRegressor, _workers
from sktagi._workers import DaskWorkers
from sktagi.dask import fit_shards

distributed = pytest.importorskip("distributed")
clusters = pytest.importorskip("clusters")

PARAMS = {"hidden_layer_sizes": (10,), "n_members": 2, "max_iter": 8, "random_state": 0}
AUTO = {"n_members": 2, "max_iter": 8, "random_state": 0}  # networks of several kinds
NOT_LONG = 60  # seconds, of what takes two on a machine that has nothing else to do


@pytest.fixture
def threads():
    """A cluster that is quickly there: its worker is a thread."""
    with clusters.cluster(1, processes=False) as client:
        yield client


def rows():
    X, y = clusters.make_rows(600)
    return X, y, clusters.chunked(X, y, 4)


def after_three_epochs(monkeypatch, act):
    """Let something happen once, after the third epoch."""

    class Watch(sktagi.dask.Progress):
        done = False

        def __call__(self, history):
            if history.n_iter == 3 and not self.done:
                self.done = True
                act()
            return super().__call__(history)

    monkeypatch.setattr(sktagi.dask, "Progress", Watch)


def all_leave(client):
    client.cluster.scale(0)
    deadline = time.monotonic() + NOT_LONG
    while client.nthreads():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def check_kept(model, X, y, n_iter=3):
    assert model.n_iter_ == len(model.train_scores_) == n_iter
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert model.score(X, y) > 0.3
    model.partial_fit(X, y)


def test_without_workers_it_is_said_and_ends_with_the_timeout(monkeypatch):
    monkeypatch.setattr(_workers, "SILENT_SECONDS", 0.5)
    _, _, parts = rows()
    with clusters.cluster(0, processes=False) as client:
        start = time.monotonic()
        with (
            pytest.warns(UserWarning, match="waits for workers for 2 s: the cluster has none"),
            pytest.raises(TimeoutError, match="no workers for 2 s"),
        ):
            fit_shards(TAGIRegressor(**PARAMS), *parts, client=client, timeout=2)
        assert 2 <= time.monotonic() - start < NOT_LONG


def test_workers_that_come_late_are_waited_for(monkeypatch):
    monkeypatch.setattr(_workers, "SILENT_SECONDS", 0.2)
    X, y, parts = rows()
    with clusters.cluster(0, processes=False) as client:
        threading.Timer(1.5, client.cluster.scale, [1]).start()
        with pytest.warns(UserWarning, match="waits for workers without end"):
            model = fit_shards(TAGIRegressor(**PARAMS), *parts, client=client)
    assert model.n_iter_ == 8
    assert model.score(X, y) > 0.5


def test_the_executor_of_a_client_is_refused():
    """Its tasks do not tell whether anybody runs them."""
    with clusters.cluster(0, processes=False) as client:
        executor, parts = client.get_executor(), rows()[2]
        with pytest.raises(ValueError, match="client itself, not its executor"):
            fit_shards(TAGIRegressor(**PARAMS), *parts, client=executor, timeout=2)


@pytest.mark.parametrize("timeout", [-1, float("nan"), "10"])
def test_a_timeout_is_a_number_of_seconds(threads, timeout):
    with pytest.raises(ValueError, match="timeout must be None or a number of seconds >= 0"):
        fit_shards(TAGIRegressor(**PARAMS), *rows()[2], client=threads, timeout=timeout)


@pytest.mark.parametrize("params", [PARAMS, AUTO])
def test_epochs_are_kept_when_all_workers_leave(threads, monkeypatch, params):
    X, y, parts = rows()
    after_three_epochs(monkeypatch, lambda: all_leave(threads))
    start = time.monotonic()
    with pytest.warns(UserWarning, match=r"no workers for 1 s.*epoch 4.*not calibrated"):
        model = fit_shards(TAGIRegressor(**params), *parts, client=threads, timeout=1)
    assert time.monotonic() - start < NOT_LONG
    check_kept(model, X, y)


def test_epochs_are_kept_when_the_cluster_is_closed(threads, monkeypatch):
    X, y, parts = rows()
    after_three_epochs(monkeypatch, threads.cluster.close)
    with pytest.warns(UserWarning, match=r"connection to the cluster is lost.*epoch 4"):
        model = fit_shards(TAGIRegressor(**PARAMS), *parts, client=threads)
    check_kept(model, X, y)


def test_all_workers_are_killed_and_start_again(monkeypatch):
    """dask computes again what they held, and the result is as if nothing had happened."""
    X, _, parts = rows()
    model = TAGIRegressor(**PARAMS)
    with clusters.cluster(2) as client:
        expected = fit_shards(model, *parts, client=client)

        def kill_all():
            for pid in client.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)

        after_three_epochs(monkeypatch, kill_all)
        fitted = fit_shards(model, *parts, client=client, timeout=clusters.PATIENCE)
    assert fitted.n_iter_ == 8
    np.testing.assert_array_equal(
        fitted.predict(X, return_std=True), expected.predict(X, return_std=True)
    )


def test_epochs_are_kept_if_rows_kill_every_worker_that_learns_them(threads, monkeypatch):
    """dask gives up a task that has lost several workers: so it is if memory is too short."""
    X, y, parts = rows()
    gather = DaskWorkers.gather
    calls = []

    class Worker:
        address = "tcp://127.0.0.1:1"

    def killed(self, started):
        if calls:
            monkeypatch.setattr(DaskWorkers, "gather", gather)

            async def raises(*args, **kwargs):
                raise distributed.KilledWorker("learn_shard", Worker, 3)

            monkeypatch.setattr(self.client, "gather", raises)
        return gather(self, started)

    monkeypatch.setattr(DaskWorkers, "gather", killed)
    after_three_epochs(monkeypatch, lambda: calls.append(1))
    with pytest.warns(UserWarning, match=r"Training ended \(.*learn_shard"):
        model = fit_shards(TAGIRegressor(**PARAMS), *parts, client=threads)
    check_kept(model, X, y)


def raise_interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("params", [PARAMS, AUTO])
def test_ctrl_c_gives_back_what_was_learned_and_calibrates_it(threads, monkeypatch, params):
    X, y, parts = rows()
    after_three_epochs(monkeypatch, raise_interrupt)
    with pytest.warns(UserWarning, match=r"Training interrupted in epoch 4.* so far\.$"):
        model = fit_shards(TAGIRegressor(**params), *parts, client=threads)
    assert model._net.calibration is not None
    check_kept(model, X, y)


def test_ctrl_c_ends_waiting_for_workers_and_does_not_wait_again(threads, monkeypatch):
    """The calibration has nobody to ask either."""
    X, y, parts = rows()
    looks = []

    def look(self, n_workers):
        looks.append(n_workers)
        if len(looks) == 3:
            raise KeyboardInterrupt
        return original(self, n_workers)

    original = DaskWorkers._look
    after_three_epochs(monkeypatch, lambda: (all_leave(threads), looks.clear()))
    monkeypatch.setattr(DaskWorkers, "_look", look)
    start = time.monotonic()
    with pytest.warns(UserWarning, match=r"Training interrupted in epoch 4.*not calibrated"):
        model = fit_shards(TAGIRegressor(**AUTO), *parts, client=threads)
    assert time.monotonic() - start < NOT_LONG
    assert len(looks) < 10
    check_kept(model, X, y)


def test_ctrl_c_in_the_calibration_gives_back_what_was_learned(threads, monkeypatch):
    X, y, parts = rows()
    monkeypatch.setattr(sktagi.dask.Cluster, "held_out", lambda *args: raise_interrupt())
    model = TAGIRegressor(**{**PARAMS, "sigma_v": "constant"})
    with pytest.warns(UserWarning, match=r"interrupted.*not calibrated"):
        fitted = fit_shards(model, *parts, client=threads)
    assert fitted._net.calibration is None
    check_kept(fitted, X, y, n_iter=8)


def test_a_second_ctrl_c_gives_back_what_was_learned_at_once(threads, monkeypatch):
    X, y, parts = rows()
    after_three_epochs(monkeypatch, raise_interrupt)
    monkeypatch.setattr(sktagi.dask.Cluster, "weights", lambda *args: raise_interrupt())
    asked = []
    monkeypatch.setattr(sktagi.dask.Cluster, "held_out", lambda *args: asked.append(1))
    with pytest.warns(UserWarning, match=r"interrupted in epoch 4.*not calibrated"):
        model = fit_shards(TAGIRegressor(**AUTO), *parts, client=threads)
    assert not asked
    check_kept(model, X, y)


SCRIPT = """
import signal, sys, warnings
import numpy as np
import clusters
from sktagi import TAGIRegressor
from sktagi.dask import fit_shards

X, y = clusters.make_rows(600)
model = TAGIRegressor(n_members=2, max_iter=40, random_state=0)
signal.signal(signal.SIGINT, signal.SIG_IGN)
with clusters.cluster(1, processes=False) as client:
    parts = clusters.chunked(X, y, 4)
    fit_shards(model.set_params(max_iter=1), *parts, client=client)
    model.set_params(max_iter=40)
    for line in sys.stdin:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            print("begins", flush=True)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fitted = fit_shards(model, *parts, client=client)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            told = any("interrupted in epoch" in str(one.message) for one in caught)
            mean, std = fitted.predict(X, return_std=True)
            sound = np.isfinite(mean).all() and (std > 0).all()
            print("kept", fitted.n_iter_, bool(sound), told, flush=True)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            print("raised", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_sigint_at_random_times_loses_no_epoch():
    """Before the first epoch it is raised; later there is a model, with a warning."""
    folder = os.path.dirname(__file__)
    path = os.pathsep.join([folder, os.path.dirname(folder), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path}, bufsize=1,
    )  # fmt: skip
    watchdog = threading.Timer(clusters.PATIENCE, process.kill)
    watchdog.start()
    try:
        rng, answers = np.random.default_rng(0), []
        for _ in range(8):
            process.stdin.write("go\n")
            assert process.stdout.readline() == "begins\n"
            time.sleep(rng.uniform(0.2, 4))
            process.send_signal(signal.SIGINT)
            answers.append(process.stdout.readline().split())
    finally:
        process.kill()
        process.wait()
        watchdog.cancel()
    assert all(answers), "no answer in time"
    kept = [answer for answer in answers if answer[0] == "kept"]
    assert len(kept) >= 4
    for _, n_iter, is_sound, told in kept:
        assert is_sound == "True"
        assert told == "True" or int(n_iter) == 40
