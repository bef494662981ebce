"""The tests on every Python, scikit-learn and dask that is supported: ``nox``; a list: ``nox -l``.

Interpreters that the machine does not have are skipped. What follows ``--`` goes to pytest.
"""

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "docs", "tests", "dask", "clients", "wheel"]

PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.15"]
SCIKIT_LEARNS = {"oldest": "scikit-learn==1.6.*", "newest": "scikit-learn"}
OLDEST = [
    "numpy==1.24.*",
    "scipy==1.12.*",
    "scikit-learn==1.6.0",
    "joblib==1.3.*",
    "threadpoolctl==3.1.*",
]
DASKS = {"oldest": ["dask==2025.1.0", "distributed==2025.1.0", "pandas<3"], "newest": []}
ON_CLUSTERS = [
    "tests/test_dask.py",
    "tests/test_dask_tables.py",
    "tests/test_dask_faults.py",
    "tests/test_executors.py",
]
OF_CLIENTS = ["tests/test_clients.py", "tests/test_river.py", "tests/test_skpro.py"]
NEWEST_PYTHON_OF_OLDEST = (3, 13)  # there are no wheels of scikit-learn 1.6 for later ones


@nox.session(python=PYTHONS)
@nox.parametrize("sklearn", list(SCIKIT_LEARNS))
def tests(session: nox.Session, sklearn: str) -> None:
    """The test suite, doctests included."""
    version = tuple(map(int, str(session.python).split(".")))
    if sklearn == "oldest" and version > NEWEST_PYTHON_OF_OLDEST:
        session.skip("scikit-learn 1.6 has no wheels for this Python")
    session.install(".[test]", SCIKIT_LEARNS[sklearn])
    session.run("python", "-m", "pip", "list", "--format=freeze")
    # Products are small: threads of BLAS would cost more than they bring.
    session.run("python", "-m", "pytest", *session.posargs, env={"OPENBLAS_NUM_THREADS": "1"})


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """The oldest version of every dependency, without packages that would need newer ones."""
    session.install(".", *OLDEST, "pytest>=8", "pytest-xdist>=3", "pandas<3", "polars", "pyarrow")
    session.run("python", "-m", "pip", "list", "--format=freeze")
    one_thread = {"OPENBLAS_NUM_THREADS": "1"}
    session.run("python", "-m", "pytest", *session.posargs, env=one_thread)


@nox.session
@nox.parametrize("dask", list(DASKS))
def dask(session: nox.Session, dask: str) -> None:
    """What runs on clusters and on processes, with both ends of the versions of dask."""
    session.install(".[test,dask]", *DASKS[dask])
    session.run("python", "-m", "pip", "list", "--format=freeze")
    one_thread = {"OPENBLAS_NUM_THREADS": "1"}
    session.run("python", "-m", "pytest", *ON_CLUSTERS, *session.posargs, env=one_thread)


@nox.session
def ray(session: nox.Session) -> None:
    """The same results on Ray as on other executors."""
    session.install(".[test]", "ray")
    one_thread = {"OPENBLAS_NUM_THREADS": "1"}
    session.run("python", "-m", "pytest", ON_CLUSTERS[-1], *session.posargs, env=one_thread)


@nox.session
def clients(session: nox.Session) -> None:
    """The packages that use these estimators, or are used with them."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", *OF_CLIENTS, *session.posargs)


@nox.session
def engines(session: nox.Session) -> None:
    """Recipes with the states of Quix Streams and of Spark, which needs Java."""
    session.install(".[test]", "quixstreams>=3.28", "pyspark>=4,<5", "pandas<3")
    session.run("python", "-m", "pytest", "tests/test_stream_pages.py", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """The share of lines and branches that the tests run; worker processes count, too."""
    session.install("-e", ".[test,dask]", "pytest-cov>=7")
    one_thread = {"OPENBLAS_NUM_THREADS": "1"}
    report = ["--cov", "--cov-report=term-missing:skip-covered"]
    # These interrupt processes anywhere, in what measures, too, which then waits for itself.
    ignored = [f"--ignore=tests/{name}.py" for name in ("test_faults", "test_blas_threads")]
    options = ["-n", "2", *ignored, *report]
    session.run("python", "-m", "pytest", *options, *session.posargs, env=one_thread)


@nox.session
def wheel(session: nox.Session) -> None:
    """A wheel and an sdist in dist/, checked; the tests against the installed wheel."""
    session.install("build", "twine")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build")
    built = sorted(map(str, Path("dist").iterdir()))
    session.run("python", "-m", "twine", "check", "--strict", *built)
    wheel = next(path for path in built if path.endswith(".whl"))
    session.install(f"{wheel}[test]")
    # From an unpacked sdist without the package itself, so that only the installed one is there.
    folder = Path(session.create_tmp())
    shutil.unpack_archive(next(path for path in built if path.endswith(".tar.gz")), folder)
    source = next(path for path in folder.iterdir() if (path / "PKG-INFO").exists())
    shutil.rmtree(source / "sktagi")
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ""}
    with session.chdir(source):
        session.run(
            "python",
            "-c",
            "import sktagi; assert 'site-packages' in sktagi.__file__",
            env=one_thread,
        )
        session.run("python", "-m", "pytest", "-n", "2", "tests", *session.posargs, env=one_thread)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, with warnings as errors; every link between pages leads somewhere."""
    session.install(".[doc]")
    options = ["-W", "--keep-going", "-b", "html"]
    session.run("python", "-m", "sphinx", *options, *session.posargs, "doc", "doc/_build/html")
    session.run("python", "doc/check_links.py", "doc/_build/html")


@nox.session
def lint(session: nox.Session) -> None:
    """Style and format of the code, spelling."""
    session.install(pinned("ruff"), pinned("codespell"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")


@nox.session
def types(session: nox.Session) -> None:
    """Type annotations."""
    session.install(".", pinned("mypy"))
    session.run("mypy")


def pinned(tool: str) -> str:
    """The version of a tool that the dev extra asks for."""
    extras = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]
    return next(requirement for requirement in extras["dev"] if requirement.startswith(tool))
