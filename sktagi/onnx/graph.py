"""Graphs of ONNX operators, written as formulas."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype

__all__ = ["Graph", "Value"]

Value: TypeAlias = str | float | np.ndarray  # a tensor's name, or a constant
LEAST_OPSET = 18  # since when all reductions take their axes as an input


class Graph:
    """Operators that are added to a skl2onnx container; tensors are their names.

    Numbers are those of ``proto``, the type of the graph's floats.
    """

    def __init__(self, scope: Any, container: Any, proto: int):
        if container.target_opset < LEAST_OPSET:
            raise ValueError(
                f"target_opset must be at least {LEAST_OPSET}; got {container.target_opset}."
            )
        self._scope, self._container = scope, container
        self.proto = proto
        self.dtype = np.dtype(tensor_dtype_to_np_dtype(proto))

    def __call__(self, operator: str, *inputs: Value, **attributes: Any) -> str:
        """Add an operator and return its output."""
        output = self._scope.get_unique_variable_name(operator.lower())
        self.write(output, operator, *inputs, **attributes)
        return output

    def write(self, output: str, operator: str, *inputs: Value, **attributes: Any) -> None:
        """Add an operator whose output has this name."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        name = self._scope.get_unique_operator_name(operator)
        self._container.add_node(operator, names, [output], name=name, **attributes)

    def constant(self, value: Any, proto: int | None = None) -> str:
        """Return a constant tensor: floats, unless another type is asked for."""
        proto = self.proto if proto is None else proto
        name = self._scope.get_unique_variable_name("constant")
        if proto == TensorProto.STRING:
            content = [str(label).encode() for label in value]
            self._container.add_initializer(name, proto, [len(content)], content)
            return name
        array = np.asarray(value, dtype=tensor_dtype_to_np_dtype(proto))
        largest = np.finfo(array.dtype).max if array.dtype.kind == "f" else None
        if largest is not None:  # an infinite bound
            array = np.clip(array, -largest, largest)
        self._container.add_initializer(name, proto, list(array.shape), array.ravel().tolist())
        return name

    def cast(self, value: Value, proto: int | None = None) -> str:
        """Return a tensor of another type: floats, if none is given."""
        return self("Cast", value, to=self.proto if proto is None else proto)

    def with_last_axis(self, value: Value) -> str:
        """Return a tensor with one more axis, of length one."""
        return self("Unsqueeze", value, self.constant([-1], TensorProto.INT64))

    def reduce(self, operator: str, value: Value, axis: int, keepdims: bool = True) -> str:
        """Return the sum, the mean or the maximum along an axis."""
        axes = self.constant([axis], TensorProto.INT64)
        return self(operator, value, axes, keepdims=int(keepdims))

    def variance(self, value: Value, axis: int) -> str:
        """Return the variance along an axis, which it keeps."""
        centred = self("Sub", value, self.reduce("ReduceMean", value, axis))
        return self.reduce("ReduceMean", self("Mul", centred, centred), axis)

    def clip(self, value: Value, low: Any, high: Any) -> str:
        """Return values between bounds, which may be arrays."""
        return self("Min", self("Max", value, low), high)

    def normal_cdf(self, value: Value) -> str:
        """Return the normal distribution function; runtimes have it in single precision only."""
        scaled = self.cast(self("Div", value, np.sqrt(2)), TensorProto.FLOAT)
        return self("Mul", self("Add", self.cast(self("Erf", scaled)), 1.0), 0.5)
