"""BLAS threads of a process of its own: what fits in threads, searches and interrupts leave."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SCRIPT = """
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

from sktagi import TAGIRegressor

warnings.simplefilter("ignore")
threadpool_limits(2, user_api="blas")  # for good


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def interrupt(number, frame):
    raise KeyboardInterrupt


rng = np.random.default_rng(0)
X = rng.normal(size=(80, 3))
y = X[:, 0] + 0.1 * rng.normal(size=80)
model = TAGIRegressor((5,), n_members=2, max_iter=3, random_state=0)
before = blas_threads()
assert 2 in before

with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda seed: clone(model).set_params(random_state=seed).fit(X, y), range(12)))
assert blas_threads() == before, "threads"

with joblib.parallel_config(backend="threading", n_jobs=4):
    GridSearchCV(model, {"sigma_v": [0.1, 0.3]}, cv=2).fit(X, y)
assert blas_threads() == before, "search"

signal.signal(signal.SIGALRM, interrupt)
model.partial_fit(X, y)
for _ in range(40):
    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 3e-3))
    try:
        while True:
            model.partial_fit(X, y)
    except KeyboardInterrupt:
        pass
    assert blas_threads() == before, "interrupts"
"""

FORKS = """
import os
import sys
from threading import Event, Thread

from threadpoolctl import threadpool_info, threadpool_limits

from sktagi.engine.fast import _OneThread

threadpool_limits(2, user_api="blas")  # for good


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


before, inside, over = blas_threads(), Event(), Event()


def learn():
    with _OneThread(), _OneThread._lock:
        inside.set()
        over.wait()


thread = Thread(target=learn)
thread.start()
inside.wait()
child = os.fork()
if not child:
    with _OneThread():
        if not os.fork():  # by the thread that is inside: its context goes on
            os._exit(blas_threads() == before)
        failed = os.wait()[1]
    os._exit(bool(failed) or blas_threads() != before)
failed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
over.set()
thread.join()
assert blas_threads() == before
sys.exit(failed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_process_forked_while_another_thread_learns_has_all_threads_and_no_lock():
    done = subprocess.run(
        [sys.executable, "-c", FORKS], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_fits_in_threads_searches_and_interrupts_give_blas_threads_back():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
