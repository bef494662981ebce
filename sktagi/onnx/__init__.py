"""Fitted estimators as ONNX graphs, by skl2onnx: importing this module registers converters.

A graph gives the same means and standard deviations, or class probabilities, without Python. It
needs the extra ``onnx``.

Examples
--------
>>> import numpy as np
>>> import sktagi.onnx  # registers the converters
>>> from skl2onnx import to_onnx
>>> from sktagi import TAGIRegressor
>>> X = np.linspace(-1, 1, 40)[:, None]
>>> model = TAGIRegressor((10,), max_iter=5, random_state=0).fit(X, X[:, 0])
>>> graph = to_onnx(model, X[:1], options={TAGIRegressor: {"return_std": True}})
>>> [output.name for output in graph.graph.output]
['mean', 'std']
"""

from .._classifier import TAGIClassifier
from .._regressor import TAGIRegressor

try:
    from skl2onnx import update_registered_converter
except ImportError as error:
    raise ImportError('sktagi.onnx needs skl2onnx: pip install "sktagi[onnx]"') from error

from .converters import (
    classifier_shapes,
    convert_classifier,
    convert_regressor,
    parse_classifier,
    parse_regressor,
    regressor_shapes,
)

__all__ = ["register"]


def register(regressor: type = TAGIRegressor, classifier: type = TAGIClassifier) -> None:
    """Tell skl2onnx how to convert estimators; importing `sktagi.onnx` does it for ours.

    Parameters
    ----------
    regressor : type, default=TAGIRegressor
        A subclass of `TAGIRegressor`, which predicts as that does.

    classifier : type, default=TAGIClassifier
        A subclass of `TAGIClassifier`, likewise.
    """
    update_registered_converter(
        regressor, "SktagiTAGIRegressor", regressor_shapes, convert_regressor,
        parser=parse_regressor, options={"return_std": [False, True]},
    )  # fmt: skip
    update_registered_converter(
        classifier, "SktagiTAGIClassifier", classifier_shapes, convert_classifier,
        parser=parse_classifier,
        options={
            "zipmap": [True, False, "columns"],
            "nocl": [False, True],
            "output_class_labels": [False, True],
            "return_std": [False, True],
        },
    )  # fmt: skip


register()
