# SPDX-License-Identifier: Apache-2.0
"""An operator with its tensors, as every side of these tests is given it: the server, onnxruntime, the formulas."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1, "LSTMSequence": 4, "GRUSequence": 3, "RNNSequence": 1}
OUTPUTS = {
    "LSTM": ("Y", "Y_h", "Y_c"), "GRU": ("Y", "Y_h"), "RNN": ("Y", "Y_h"),
    "LSTMSequence": ("Y", "Ho", "Co"), "GRUSequence": ("Y", "Ho"), "RNNSequence": ("Y", "Ho"),
}
INPUTS = {
    "LSTM": ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"),
    "GRU": ("X", "W", "R", "B", "sequence_lens", "initial_h"),
    "RNN": ("X", "W", "R", "B", "sequence_lens", "initial_h"),
}
WEIGHTS = ("W", "R", "B", "P")


@dataclasses.dataclass
class Case:
    """`tensors` holds weights and data by the operator's own names. Exactly one of version and opset is set."""

    op: str
    tensors: dict[str, np.ndarray]
    attributes: dict = dataclasses.field(default_factory=dict)
    version: int | None = None
    opset: int | None = None
    # Options of the request that decide numbers (not attributes of the operator).
    clip_cell_input: bool = True
    empty_row_state: str = "zeros"

    @property
    def openvino(self) -> bool:
        return self.op.endswith("Sequence")

    @property
    def directions(self) -> int:
        return 2 if str(self.attributes.get("direction", "forward")).lower() == "bidirectional" else 1

    @property
    def hidden(self) -> int:
        return self.tensors["R"].shape[-1]

    def changed(self, **tensors: np.ndarray) -> "Case":
        """A deep copy with some tensors replaced."""
        other = copy.deepcopy(self)
        other.tensors.update(tensors)
        return other

    def with_attributes(self, **attributes) -> "Case":
        other = copy.deepcopy(self)
        other.attributes.update(attributes)
        return other

    def __str__(self) -> str:
        shapes = {k: list(v.shape) for k, v in self.tensors.items()}
        return (f"{self.op} version={self.version} opset={self.opset} {self.attributes} {shapes} "
                f"clip_cell_input={self.clip_cell_input} lengths={self.tensors.get('sequence_lens')}")
