# SPDX-License-Identifier: Apache-2.0
"""What the README's example uses of torch, where torch is not installed: a GRU's state_dict, by torch's names and shapes."""

import types

import numpy as np


class _GRU:
    def __init__(self, inputs, hidden, num_layers=1, bidirectional=False, batch_first=False):
        self.batch_first = batch_first
        rng, self._arrays = np.random.default_rng(0), {}
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[:1 + bidirectional]:
                width = inputs if layer == 0 else hidden * (1 + bidirectional)
                for name, shape in (("weight_ih", (3 * hidden, width)), ("weight_hh", (3 * hidden, hidden)),
                                    ("bias_ih", (3 * hidden,)), ("bias_hh", (3 * hidden,))):
                    self._arrays[f"{name}_l{layer}{suffix}"] = rng.uniform(-1, 1, shape).astype(np.float32)

    def state_dict(self):
        return self._arrays


nn = types.SimpleNamespace(GRU=_GRU)
