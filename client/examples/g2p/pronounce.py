# SPDX-License-Identifier: Apache-2.0
"""The same network through the server: two models, all words in one request, the decoder step by step."""

from collections.abc import Sequence

import numpy as np
import package
from package import Array, Pronunciation, Weights

from rnnserve import Client, convert

ENCODER, DECODER = "g2p-encoder", "g2p-decoder"


def load_models(client: Client, weights: Weights) -> None:
    """Converts both GRUs from torch's order (r, z, n) to ONNX's and loads them under their names."""
    for name, side in ((ENCODER, "enc"), (DECODER, "dec")):
        layer, = convert.torch_gru({"weight_ih_l0": weights[f"{side}_w_ih"], "weight_hh_l0": weights[f"{side}_w_hh"],
                                    "bias_ih_l0": weights[f"{side}_b_ih"], "bias_hh_l0": weights[f"{side}_b_hh"]})
        client.load(name, layer)


def encode(client: Client, weights: Weights, words: Sequence[str], engine: str = "") -> tuple[Array, Array, Array]:
    """All words in one request: every state Y [T, 1, N, 256], each word's last h [1, N, 256], their lengths [N]."""
    embedded = [package.encode(weights, word) for word in words]
    lens = np.array([len(letters) for letters in embedded], np.int32)
    # Shorter words are padded with <pad>; sequence_lens keeps that from mattering.
    X = np.tile(weights["enc_emb"][package.GRAPHEMES.index("<pad>")], (lens.max(), len(words), 1))
    for row, letters in enumerate(embedded):
        X[:len(letters), row] = letters
    encoded = client.infer(model=ENCODER, inputs={"X": X, "sequence_lens": lens}, engine=engine).outputs
    return encoded["Y"], encoded["Y_h"], lens


def pronounce(client: Client, weights: Weights, words: Sequence[str], engine: str = "") -> list[Pronunciation]:
    """For every word (phonemes, encoder states, decoder states), as package.predict gives them."""
    Y, h, lens = encode(client, weights, words, engine)
    phonemes: list[list[str]] = [[] for _ in words]
    states: list[list[Array]] = [[] for _ in words]
    rows: Array = np.arange(len(words))  # of words that are not finished
    tokens: Array = np.full(len(words), package.BEGIN)
    for _ in range(package.MOST_PHONEMES):
        step = {"X": weights["dec_emb"][tokens][None], "initial_h": h}
        h = client.infer(model=DECODER, inputs=step, outputs=["Y_h"], engine=engine).outputs["Y_h"]
        tokens = (np.matmul(h[0], weights["fc_w"].T) + weights["fc_b"]).argmax(axis=1)
        for place, row in enumerate(int(row) for row in rows):
            states[row].append(h[0, place])
            token = int(tokens[place])
            if token != package.END:
                phonemes[row].append(package.PHONEMES[token])
        going = tokens != package.END
        rows, tokens, h = rows[going], tokens[going], h[:, going]
        if rows.size == 0:
            break
    return [(phonemes[row], Y[:lens[row], 0, row], np.array(states[row])) for row in range(len(words))]
