"""How ``python -m sphinx -W --keep-going -b html doc doc/_build/html`` builds these pages."""

import inspect
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # examples are many small products

import sktagi

project = "sktagi"
author = "The sktagi developers"
copyright = author
version = release = sktagi.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "sktagi"
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "header_links_before_dropdown": 9,
}

# The internet is needed for external links only; a reader's browser fetches MathJax.
linkcheck_timeout = 10
linkcheck_retries = 1

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/(plot_|quick_start)",
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
    "download_all_examples": False,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def _own_members(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds to every class: its documentation is scikit-learn's."""
    if name.startswith("set_") and name.endswith("_request"):
        return True
    if what == "class" and inspect.isfunction(obj) and obj.__module__.startswith("sklearn"):
        return True
    return skip


def setup(app):
    app.connect("autodoc-skip-member", _own_members)
