# SPDX-License-Identifier: Apache-2.0
"""numpy arrays to rnnserve.v1.Tensor (Encode) and back (Decode)."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from rnnserve.v1 import tensor_pb2

# Wire type, the dtype as it lies in `raw` (little-endian), and the typed list that may stand for it.
_TYPES: dict[np.dtype[Any], tuple[tensor_pb2.DataType, Any, str]] = {
    np.dtype(np.float32): (tensor_pb2.FLOAT, "<f4", "float_data"),
    np.dtype(np.float64): (tensor_pb2.DOUBLE, "<f8", "double_data"),
    np.dtype(np.float16): (tensor_pb2.FLOAT16, "<f2", "float_data"),
    np.dtype(ml_dtypes.bfloat16): (tensor_pb2.BFLOAT16, ml_dtypes.bfloat16, "float_data"),
    np.dtype(np.int32): (tensor_pb2.INT32, "<i4", "int32_data"),
    np.dtype(np.int64): (tensor_pb2.INT64, "<i8", "int64_data"),
}
_BY_WIRE = {wire: (dtype, np.dtype(raw), typed) for dtype, (wire, raw, typed) in _TYPES.items()}


def as_array(value: Any) -> npt.NDArray[Any]:
    """What numpy.asarray takes, and tensors of torch wherever they lie, with or without gradient, bfloat16 among them
    (numpy has no such type; ml_dtypes has)."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            return np.asarray(value.float()).astype(ml_dtypes.bfloat16)  # exact
    return np.asarray(value)


def encode(name: str, value: npt.ArrayLike) -> tensor_pb2.Tensor:
    """One named tensor for the wire.

    Takes what as_array takes, with dtype float32, float64, float16, ml_dtypes.bfloat16, int32 or int64, of any
    byte order and strides. `sequence_lens` may have any integer type and is sent as int32, as ONNX wants it.
    Raises TypeError for other dtypes and ValueError for a length that does not fit int32.
    """
    array = as_array(value)
    if name == "sequence_lens" and array.dtype.kind in "iu" and array.dtype != np.int32:
        if array.size and (array.max() > np.iinfo(np.int32).max or array.min() < np.iinfo(np.int32).min):
            raise ValueError(f"sequence_lens holds a value outside int32: {array.min()} to {array.max()}")
        array = array.astype(np.int32)
    entry = _TYPES.get(array.dtype.newbyteorder("="))
    if entry is None:
        raise TypeError(f"{name} has dtype {array.dtype}; convert it with .astype() to one of "
                        f"{', '.join(str(dtype) for dtype in _TYPES)}")
    wire, raw, _ = entry
    return tensor_pb2.Tensor(name=name, data_type=wire, shape=array.shape,
                             raw=array.astype(raw, copy=False).tobytes(order="C"))


def decode(tensor: tensor_pb2.Tensor) -> npt.NDArray[Any]:
    """The array of a tensor from the wire, writable and in native byte order.

    Raises ValueError for an unknown type, and for a count of elements that disagrees with the shape.
    """
    entry = _BY_WIRE.get(tensor.data_type)
    if entry is None:
        raise ValueError(f"{tensor.name} has data type {tensor.data_type}, which this client does not know")
    dtype, raw, typed = entry
    shape = tuple(tensor.shape)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"{tensor.name} has a negative dimension in {list(shape)}")
    values = getattr(tensor, typed)
    if tensor.raw and values:
        raise ValueError(f"{tensor.name} carries both raw and {typed}")
    count = math.prod(shape)
    if len(values) > 0:
        if len(values) != count:
            raise ValueError(f"{tensor.name} of shape {list(shape)} needs {count} values, but has {len(values)}")
        return np.array(values, dtype=np.dtype("f4") if typed == "float_data" else dtype).astype(dtype).reshape(shape)
    if len(tensor.raw) != count * raw.itemsize:
        raise ValueError(f"{tensor.name} of shape {list(shape)} needs {count * raw.itemsize} bytes, "
                         f"but has {len(tensor.raw)}")
    return np.frombuffer(tensor.raw, dtype=raw).reshape(shape).astype(dtype, copy=True)
