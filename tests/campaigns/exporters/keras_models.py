# SPDX-License-Identifier: Apache-2.0
"""Writes models as Keras' own export and tf2onnx of the day write them: FOLDER/NAME/1/model.onnx, and FOLDER/table.json.
Run with the interpreter of requirements-keras.txt:  python keras_models.py FOLDER"""

from __future__ import annotations

import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tf2onnx  # noqa: E402

L = keras.layers


def cases():
    """name, layers, shape of one row, type."""
    tokens, features = ((None,), "int32"), ((None, 6), "float32")
    yield "tagger", [L.Embedding(50, 6), L.LSTM(5, return_sequences=True), L.Dense(7, activation="softmax")], *tokens
    yield "two-layers", [L.LSTM(5, return_sequences=True), L.LSTM(4, return_sequences=True), L.Dense(3)], *features
    yield "bidirectional", [L.Bidirectional(L.LSTM(5, return_sequences=True)), L.Dense(3)], *features
    yield "classifier", [L.GRU(5, return_sequences=True), L.GRU(4), L.Dense(3, activation="relu")], *features
    yield "norm", [L.GRU(5, return_sequences=True), L.LayerNormalization(), L.GRU(4, return_sequences=True)], *features
    yield "batchnorm", [L.SimpleRNN(5, return_sequences=True), L.BatchNormalization(), L.Dense(2)], *features
    yield "pooled", [L.LSTM(5, return_sequences=True), L.GlobalAveragePooling1D(), L.Dense(2)], *features


def main(folder):
    table = []
    for name, layers, shape, dtype in cases():
        for how in ("keras", "tf2onnx"):
            full = f"{name}-{how}"
            path = pathlib.Path(folder, full, "1", "model.onnx")
            path.parent.mkdir(parents=True, exist_ok=True)
            entry = {"name": full, "axes": [["n", "t"]], "dynamic": True, "error": ""}
            try:
                model = keras.Sequential([keras.Input(shape, dtype=dtype), *layers])
                model(np.zeros((2, 9, *shape[1:]), dtype))
                if how == "keras":
                    model.export(str(path), format="onnx", verbose=False)
                else:
                    call = tf.function(lambda x, model=model: model(x))
                    signature = [tf.TensorSpec((None, *shape), dtype, name="x")]
                    tf2onnx.convert.from_function(call, signature, opset=18, output_path=str(path))
            except Exception as error:  # what the exporter refuses is a result, too
                entry["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                path.unlink(missing_ok=True)
            table.append(entry)
            print(full, entry["error"] or "exported", flush=True)
    versions = f"{keras.__version__}, tensorflow {tf.__version__}, tf2onnx {tf2onnx.__version__}"
    pathlib.Path(folder, "table.json").write_text(json.dumps({"keras": versions, "models": table}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
