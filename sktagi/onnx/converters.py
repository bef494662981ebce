"""What skl2onnx calls: parsers say which outputs there are, converters compute them."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto
from skl2onnx._parse import _parse_sklearn_classifier
from skl2onnx.common.data_types import (
    DoubleTensorType,
    Int64TensorType,
    StringTensorType,
    guess_tensor_type,
)
from skl2onnx.common.utils_classifier import get_label_classes
from sklearn.utils.validation import check_is_fitted

from .._base import BaseTAGI
from .classes import class_probabilities
from .graph import Graph
from .network import clipped, moments_of_outputs, noise_ratio, standardised

__all__ = [
    "classifier_shapes",
    "convert_classifier",
    "convert_regressor",
    "parse_classifier",
    "parse_regressor",
    "regressor_shapes",
]

ALIASES = {"regressor": "SktagiTAGIRegressor", "classifier": "SktagiTAGIClassifier"}


# Regressors


def parse_regressor(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> list[Any]:
    """Declare the mean, and the standard deviation if it is asked for."""
    _refuse_what_is_not_exported(model)
    operator = scope.declare_local_operator(ALIASES["regressor"], model)
    operator.inputs = list(inputs)
    with_std = scope.get_options(model, {"return_std": False})["return_std"]
    for name in ("mean", "std") if with_std else ("mean",):
        kind = guess_tensor_type(inputs[0].type)
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def regressor_shapes(operator: Any) -> None:
    """Set the shapes of the outputs: a column for each target."""
    n_rows = operator.inputs[0].get_first_dimension()
    for output in operator.outputs:
        output.type.shape = [n_rows, operator.raw_operator.n_outputs_]


def convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    """Write the graph of a regressor's mean and standard deviation, (rows, targets)."""
    model = operator.raw_operator
    g = _graph(scope, container, operator.outputs[0])
    x = _inputs(g, operator, model)
    net, scale_y = model._net.reported(), model._scaling.y
    mu_z, var_z = moments_of_outputs(g, net, x)
    mean = g.reduce("ReduceMean", mu_z, 0, keepdims=False)
    outputs = operator.outputs
    g.write(outputs[0].full_name, "Add", g("Mul", mean, scale_y.scale), scale_y.mean)
    if len(outputs) == 1:
        return
    calibration = model._net.calibration
    spread = 1.0 if calibration is None else calibration.spread
    # Law of total variance over the members, and the noise of the row.
    between = g("Mul", g.variance(mu_z, 0), spread)
    var = g.reduce("ReduceMean", g("Add", var_z, between), 0, keepdims=False)
    noise_var = model._net.reported_noise.mean(axis=0)[:, 0]
    noise: Any = noise_var
    if model._net.noise_net is not None and model._net.noise_net.varies:
        noise = g("Mul", noise_ratio(g, model._net.noise_net, x), noise_var)
    g.write(outputs[1].full_name, "Mul", g("Sqrt", g("Add", var, noise)), scale_y.scale)


# Classifiers


def parse_classifier(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> list[Any]:
    """Declare label and probabilities as skl2onnx does, and their std if it is asked for."""
    _refuse_what_is_not_exported(model)
    is_text = all(isinstance(label, str) for label in model.classes_)
    if not (_are_integers(model.classes_) or is_text):
        raise ValueError(f"classes must be integers or text in ONNX; got {list(model.classes_)}.")
    if len(model.classes_) < 2 and not model._is_multilabel:
        raise ValueError("A classifier that has seen one class only cannot be exported to ONNX.")
    kind, options = guess_tensor_type(inputs[0].type), {"zipmap": True, "return_std": False}
    options = scope.get_options(model, options)
    if options["zipmap"] is True and isinstance(kind, DoubleTensorType):
        raise ValueError(
            "ONNX has maps of probabilities in single precision only: pass the option "
            "zipmap=False, for an array of them, or inputs of float32."
        )
    outputs = list(_parse_sklearn_classifier(scope, model, inputs, custom_parsers))
    if options["return_std"]:
        std = scope.declare_local_variable("std", kind)
        found = [op for op in scope.operators.values() if op.type == ALIASES["classifier"]]
        next(op for op in found if op.raw_operator is model).outputs.append(std)
        outputs.append(std)
    return outputs


def classifier_shapes(operator: Any) -> None:
    """Set the shapes of label, probabilities and standard deviations."""
    model = operator.raw_operator
    n_rows = operator.inputs[0].get_first_dimension()
    label, *others = operator.outputs
    are_integers = _are_integers(get_label_classes(operator.scope_inst, model))
    kind = Int64TensorType if are_integers else StringTensorType
    label.type = kind([n_rows, len(model.classes_)] if model._is_multilabel else [n_rows])
    for output in others:
        output.type.shape = [n_rows, len(model.classes_)]


def convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    """Write the graph of a classifier's labels, probabilities and their standard deviations."""
    model = operator.raw_operator
    label, proba, *std = operator.outputs
    g = _graph(scope, container, proba)
    p, var = class_probabilities(g, model, _inputs(g, operator, model), with_std=bool(std))
    g.write(proba.full_name, "Identity", p)
    if std:
        g.write(std[0].full_name, "Sqrt", var)
    if model._is_multilabel:
        g.write(label.full_name, "Cast", g("Greater", p, 0.5), to=TensorProto.INT64)
        return
    classes = get_label_classes(scope, model)  # or their numbers
    proto = TensorProto.INT64 if _are_integers(classes) else TensorProto.STRING
    place = g("ArgMax", p, axis=1, keepdims=0)
    g.write(label.full_name, "Gather", g.constant(classes, proto), place)


def _are_integers(classes: Any) -> bool:
    return classes.dtype.kind in "biu"


# Both


def _refuse_what_is_not_exported(model: BaseTAGI) -> None:
    check_is_fitted(model)
    name = type(model).__name__
    if model._net.is_full:
        raise ValueError(f"{name} with covariance_type='full' cannot be exported to ONNX.")
    if getattr(model, "target_transform", None) is not None:
        raise ValueError(
            f"{name} with a target_transform cannot be exported to ONNX: transform y yourself, and "
            "what the graph predicts back."
        )
    table = model._table
    if table.has_categories:
        raise ValueError(
            f"{name} with categorical_features cannot be exported to ONNX: encode categories in a "
            "Pipeline, with OneHotEncoder, and export that."
        )
    if len(table.missing_columns) or table.is_empty.any():
        raise ValueError(
            f"{name} that was fitted to missing values in X cannot be exported to ONNX: impute "
            "them in a Pipeline, with SimpleImputer, and export that."
        )


def _graph(scope: Any, container: Any, output: Any) -> Graph:
    is_double = isinstance(output.type, DoubleTensorType)
    return Graph(scope, container, TensorProto.DOUBLE if is_double else TensorProto.FLOAT)


def _inputs(g: Graph, operator: Any, model: BaseTAGI) -> str:
    """Return standardised inputs; columns of a frame come one by one."""
    double = Graph(g._scope, g._container, TensorProto.DOUBLE)  # as long as they have units
    columns = [double.cast(variable.full_name) for variable in operator.inputs]
    x = columns[0] if len(columns) == 1 else double("Concat", *columns, axis=1)
    return g.cast(standardised(double, clipped(double, x, model._table), model._scaling.x))
