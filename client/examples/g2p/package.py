# SPDX-License-Identifier: Apache-2.0
"""What g2p-en 2.1.0 holds: its trained weights, and the formulas of g2p_en/g2p.py that run them.

The package itself is not imported: it wants nltk and downloads data, and neither is needed for the network.
"""

import importlib.metadata
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Weights = dict[str, Array]  # {enc,dec}_{emb,w_ih,w_hh,b_ih,b_hh}, fc_w, fc_b
# Of a word: its phonemes, and the hidden states of the encoder and of the decoder, step by step.
Pronunciation = tuple[list[str], Array, Array]

GRAPHEMES = ["<pad>", "<unk>", "</s>"] + list("abcdefghijklmnopqrstuvwxyz")
PHONEMES = ["<pad>", "<unk>", "<s>", "</s>"] + (
    "AA0 AA1 AA2 AE0 AE1 AE2 AH0 AH1 AH2 AO0 AO1 AO2 AW0 AW1 AW2 AY0 AY1 AY2 B CH D DH EH0 EH1 EH2 ER0 ER1 ER2 EY0 EY1 "
    "EY2 F G HH IH0 IH1 IH2 IY0 IY1 IY2 JH K L M N NG OW0 OW1 OW2 OY0 OY1 OY2 P R S SH T TH UH0 UH1 UH2 UW UW0 UW1 UW2 "
    "V W Y Z ZH").split()
BEGIN, END = PHONEMES.index("<s>"), PHONEMES.index("</s>")
MOST_PHONEMES = 20
INSTALL = "pip install --no-deps -r client/examples/g2p/requirements.txt"


def find_weights() -> pathlib.Path:
    """The path of checkpoint20.npz in the installed package; raises FileNotFoundError that says how to install it."""
    try:
        files = importlib.metadata.files("g2p-en") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "checkpoint20.npz":
            return pathlib.Path(str(file.locate()))
    raise FileNotFoundError(f"the weights of g2p-en are not installed in this Python; {INSTALL}")


def load_weights(path: pathlib.Path) -> Weights:
    """The arrays by name, float32."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def letters(word: str) -> list[int]:
    """The indices of a word's letters and of its end mark; unknown characters are <unk>."""
    known = {grapheme: index for index, grapheme in enumerate(GRAPHEMES)}
    return [known.get(char, known["<unk>"]) for char in [*word, "</s>"]]


def encode(weights: Weights, word: str) -> Array:
    """The embedded letters, [letters + 1, 256]."""
    return weights["enc_emb"][letters(word)]


def sigmoid(x: Array) -> Array:
    value: Array = 1 / (1 + np.exp(-x))
    return value


def grucell(x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array) -> Array:
    """G2p.grucell: rows r, z, n; x and h are [1, 256]."""
    rzn_ih = np.matmul(x, w_ih.T) + b_ih
    rzn_hh = np.matmul(h, w_hh.T) + b_hh
    rz_ih, n_ih = rzn_ih[:, :rzn_ih.shape[-1] * 2 // 3], rzn_ih[:, rzn_ih.shape[-1] * 2 // 3:]
    rz_hh, n_hh = rzn_hh[:, :rzn_hh.shape[-1] * 2 // 3], rzn_hh[:, rzn_hh.shape[-1] * 2 // 3:]
    r, z = np.split(sigmoid(rz_ih + rz_hh), 2, -1)
    n = np.tanh(n_ih + r * n_hh)
    new: Array = (1 - z) * n + z * h
    return new


def predict(weights: Weights, word: str) -> Pronunciation:
    """G2p.predict, and on the way the hidden state of every step: (phonemes, encoder states, decoder states)."""
    cell = {side: [weights[f"{side}_{name}"] for name in ("w_ih", "w_hh", "b_ih", "b_hh")] for side in ("enc", "dec")}
    h: Array = np.zeros((1, weights["enc_w_hh"].shape[-1]), np.float32)
    encoder: list[Array] = []
    for x in encode(weights, word):
        h = grucell(x[None], h, *cell["enc"])
        encoder.append(h[0])
    token, phonemes, decoder = BEGIN, list[str](), list[Array]()
    for _ in range(MOST_PHONEMES):
        h = grucell(weights["dec_emb"][[token]], h, *cell["dec"])
        decoder.append(h[0])
        token = int((np.matmul(h, weights["fc_w"].T) + weights["fc_b"]).argmax())
        if token == END:
            break
        phonemes.append(PHONEMES[token])
    return phonemes, np.array(encoder), np.array(decoder)


def log_probabilities(weights: Weights, h: Array) -> Array:
    """Of every next phoneme after hidden states h [rows, 256]: [rows, phonemes]."""
    logits = np.matmul(h, weights["fc_w"].T) + weights["fc_b"]
    logits -= logits.max(axis=1, keepdims=True)
    result: Array = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return result


def log_probability(weights: Weights, word: str, tokens: Sequence[int]) -> float:
    """Of a whole pronunciation (token numbers, END among them where it ends by itself), by the package's formulas."""
    cell = {side: [weights[f"{side}_{name}"] for name in ("w_ih", "w_hh", "b_ih", "b_hh")] for side in ("enc", "dec")}
    h: Array = np.zeros((1, weights["enc_w_hh"].shape[-1]), np.float32)
    for x in encode(weights, word):
        h = grucell(x[None], h, *cell["enc"])
    total = 0.0
    for before, token in zip([BEGIN, *tokens], tokens):
        h = grucell(weights["dec_emb"][[before]], h, *cell["dec"])
        total += float(log_probabilities(weights, h)[0, token])
    return total
