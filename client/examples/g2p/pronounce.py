# SPDX-License-Identifier: Apache-2.0
"""The network through the server: all words through the encoder in one request, then a session of the decoder for each."""

from collections.abc import Sequence

import files
import numpy as np
import package
from package import Array, Pronunciation, Weights

from rnnserve import Client, Session

ENCODER, DECODER = "g2p-encoder", "g2p-decoder"
TOP = 8  # phonemes that the decoder answers with, the most probable first


def load_models(client: Client, weights: Weights) -> None:
    """Uploads both files, whole: embedding and output layer run on the server as well."""
    client.load(ENCODER, files.encoder(weights))
    client.load(DECODER, files.decoder(weights, TOP))


def encode(client: Client, words: Sequence[str], engine: str = "") -> tuple[Array, Array, Array]:
    """All words in one request: states [T, N, 256], each word's last h [1, N, 256], their lengths [N]."""
    spelt = [package.letters(word) for word in words]
    lens = np.array([len(letters) for letters in spelt], np.int32)
    # Shorter words are padded with <pad>; sequence_lens keeps that from mattering.
    letters = np.full((lens.max(), len(words)), package.GRAPHEMES.index("<pad>"))
    for row, indices in enumerate(spelt):
        letters[:len(indices), row] = indices
    encoded = client.infer(model=ENCODER, inputs={"letters": letters, "sequence_lens": lens}, engine=engine).outputs
    return encoded["states"], encoded["Y_h"], lens


def open_sessions(client: Client, h: Array, outputs: Sequence[str], engine: str = "") -> list[Session]:
    """A session of the decoder for each word, which starts from the encoder's last state h [1, N, 256]."""
    return [client.session(DECODER, state={"initial_h": h[:, k:k + 1]}, outputs=outputs, engine=engine)
            for k in range(h.shape[1])]


def pronounce(client: Client, words: Sequence[str], engine: str = "") -> list[Pronunciation]:
    """For every word (phonemes, encoder states, decoder states), as package.predict gives them.

    Each session is fed its own most probable phoneme: 8 bytes go up, and 8 * TOP would come down; `states` is asked for to
    compare it with the package's.
    """
    encoded, h, lens = encode(client, words, engine)
    sessions = open_sessions(client, h, ["phonemes", "states"], engine)
    phonemes: list[list[str]] = [[] for _ in words]
    states: list[list[Array]] = [[] for _ in words]
    going = {k: package.BEGIN for k in range(len(words))}  # words that are not finished, and their last phoneme
    for _ in range(package.MOST_PHONEMES):
        futures = {k: sessions[k].feed_async(np.array([[token]])) for k, token in going.items()}
        for k, future in futures.items():
            answer = future.result()
            states[k].append(answer["states"][0, 0])
            going[k] = int(answer["phonemes"][0, 0, 0])
            if going[k] == package.END:
                del going[k]
            else:
                phonemes[k].append(package.PHONEMES[going[k]])
    for session in sessions:
        session.close()
    return [(phonemes[k], encoded[:lens[k], k], np.array(states[k])) for k in range(len(words))]
