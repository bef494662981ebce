"""How ``python -m sphinx -W --keep-going -b html doc doc/_build/html`` builds these pages."""

import inspect
import os
import re
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # examples are many small products

from sphinx_gallery.sorting import ExplicitOrder

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
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # brings MathJax with the pages: no reader's browser fetches it
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
toc_object_entries_show_parents = "hide"  # predict_dist(), not TAGIRegressor.predict_dist()

html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme = "pydata_sphinx_theme"
html_title = f"sktagi {release}"
html_copy_source = html_show_sourcelink = True
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc", "sourcelink"],
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
}
html_sidebars = {"index": []}

linkcheck_timeout = 10  # the internet is needed for external links only
linkcheck_retries = 1

# Galleries show examples in the order of their index.
_EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_ORDER = re.findall(r"\.\./examples/(\w+\.py)", (_EXAMPLES / "index.rst").read_text())

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("sktagi",),
    "filename_pattern": r"/(plot_|quick_start)",
    "copyfile_regex": r"index\.rst",
    "minigallery_sort_order": ExplicitOrder([str(_EXAMPLES / name) for name in _ORDER]),
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "thumbnail_size": (800, 440),
    "show_memory": False,
    "min_reported_time": float("inf"),  # seconds of the machine that built the pages say little
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
    "download_all_examples": False,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def _own_members(app, what, name, obj, skip, options):
    """Leave out what other packages add to a class, and attributes, which its docstring lists."""
    if name.startswith("set_") and name.endswith("_request"):
        return True
    if isinstance(obj, property) and name.endswith("_"):
        return True
    function = obj.fget if isinstance(obj, property) else getattr(obj, "__func__", obj)
    if what == "class" and inspect.isfunction(function):
        return skip or not function.__module__.startswith("sktagi")
    return skip


def setup(app):
    app.connect("autodoc-skip-member", _own_members)
