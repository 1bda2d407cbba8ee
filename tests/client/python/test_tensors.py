# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest

from rnnserve import tensors
from rnnserve.v1 import tensor_pb2

WIRE = {np.float32: 1, np.int32: 6, np.int64: 7, np.float16: 10, np.float64: 11, ml_dtypes.bfloat16: 16}


@pytest.mark.parametrize("dtype", WIRE, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 5)], ids=str)
def test_decode_gives_back_what_encode_took(dtype, shape):
    array = (np.arange(np.prod(shape, dtype=int)).reshape(shape) - 3).astype(dtype)
    wire = tensors.encode("X", array)
    assert (wire.name, wire.data_type, list(wire.shape)) == ("X", WIRE[dtype], list(shape))
    assert len(wire.raw) == array.size * array.itemsize
    back = tensors.decode(tensor_pb2.Tensor.FromString(wire.SerializeToString()))
    assert back.dtype == np.dtype(dtype) and back.shape == shape and back.flags.writeable
    np.testing.assert_array_equal(back, array)


def test_raw_is_little_endian_and_row_major():
    wire = tensors.encode("X", np.array([[1, 2], [3, 4]], ">i4").T)
    assert wire.raw == bytes([1, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0])


def test_bfloat16_is_the_upper_half_of_a_float():
    assert tensors.encode("X", np.array([1.0, -2.0], ml_dtypes.bfloat16)).raw == bytes([0x80, 0x3F, 0x00, 0xC0])


@pytest.mark.parametrize("data_type, field, dtype", [
    (1, "float_data", np.float32), (10, "float_data", np.float16), (16, "float_data", ml_dtypes.bfloat16),
    (11, "double_data", np.float64), (6, "int32_data", np.int32), (7, "int64_data", np.int64)])
def test_typed_lists_decode_too(data_type, field, dtype):
    back = tensors.decode(tensor_pb2.Tensor(name="Y", data_type=data_type, shape=[2, 1], **{field: [3, -5]}))
    assert back.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(back, np.array([[3], [-5]], dtype))


def test_sequence_lens_is_sent_as_int32():
    for value in ([5, 3], np.array([5, 3], np.uint8), np.array([5, 3], np.int64)):
        assert tensors.encode("sequence_lens", value).data_type == tensor_pb2.INT32
    assert tensors.encode("sequence_lengths", np.array([5, 3])).data_type == tensor_pb2.INT64
    with pytest.raises(ValueError, match="outside int32"):
        tensors.encode("sequence_lens", [2**31])


def test_other_dtypes_are_refused_by_name():
    for value in (np.zeros(2, np.int8), np.zeros(2, bool), np.zeros(2, complex), ["a"], [None]):
        with pytest.raises(TypeError, match="R has dtype .*float32"):
            tensors.encode("R", value)


@pytest.mark.parametrize("fields, text", [
    (dict(data_type=1, shape=[2], raw=b"1234"), "needs 8 bytes, but has 4"),
    (dict(data_type=1, shape=[2], float_data=[1]), "needs 2 values, but has 1"),
    (dict(data_type=1, shape=[1], float_data=[1], raw=b"1234"), "both raw and float_data"),
    (dict(data_type=1, shape=[-1, -1], raw=b"1234"), "negative dimension"),
    (dict(data_type=99, shape=[1], raw=b"1234"), "data type 99"),
    (dict(data_type=1, shape=[2**40, 2**40]), "bytes, but has 0")])
def test_a_tensor_that_disagrees_with_itself_is_refused(fields, text):
    with pytest.raises(ValueError, match="Y.*" + text):
        tensors.decode(tensor_pb2.Tensor(name="Y", **fields))


class TorchTensor:
    """As far as torch's is looked at: it refuses numpy where it has a gradient, lies elsewhere or is bfloat16."""

    def __init__(self, array, dtype, ready=False):
        self._array, self.dtype, self._ready = array, f"torch.{dtype}", ready

    def detach(self):
        return TorchTensor(self._array, self.dtype.removeprefix("torch."), self._ready)

    def cpu(self):
        return TorchTensor(self._array, self.dtype.removeprefix("torch."), self.dtype != "torch.bfloat16")

    def float(self):
        return TorchTensor(self._array.astype(np.float32), "float32", True)

    def __array__(self, dtype=None, copy=None):
        if not self._ready:
            raise RuntimeError("Can't call numpy() on this Tensor")
        return self._array


def test_tensors_of_torch():
    values = np.array([[1.5, -2.25]])
    for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
        array = values.astype(dtype)
        decoded = tensors.decode(tensors.encode("X", TorchTensor(array, np.dtype(dtype).name)))
        assert decoded.dtype == array.dtype
        np.testing.assert_array_equal(decoded, array)
