"""The tests on every Python and scikit-learn that is supported: ``nox``; one of them: ``nox -l``.

Interpreters that the machine does not have are skipped. What follows ``--`` goes to pytest.
"""

import nox

nox.needs_version = ">=2024.4.15"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "tests"]

PYTHONS = ["3.11", "3.12", "3.13", "3.14", "3.15"]
SCIKIT_LEARNS = {"oldest": "scikit-learn==1.6.*", "newest": "scikit-learn"}
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
