"""The tests on every Python, scikit-learn and dask that is supported: ``nox``; a list: ``nox -l``.

Interpreters that the machine does not have are skipped. What follows ``--`` goes to pytest.
"""

import nox

nox.needs_version = ">=2024.4.15"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "tests", "dask", "clients"]

PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.15"]
SCIKIT_LEARNS = {"oldest": "scikit-learn==1.6.*", "newest": "scikit-learn"}
DASKS = {"oldest": ["dask==2025.1.0", "distributed==2025.1.0", "pandas<3"], "newest": []}
ON_CLUSTERS = [
    "tests/test_dask.py",
    "tests/test_dask_tables.py",
    "tests/test_dask_faults.py",
    "tests/test_executors.py",
]
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
    session.run("python", "-m", "pytest", "tests/test_clients.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and format of the code."""
    session.install(pinned("ruff"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Type annotations."""
    session.install(".", pinned("mypy"))
    session.run("mypy")


def pinned(tool: str) -> str:
    """The version of a tool that the dev extra asks for."""
    extras = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]
    return next(requirement for requirement in extras["dev"] if requirement.startswith(tool))
