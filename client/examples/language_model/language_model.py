# SPDX-License-Identifier: Apache-2.0
"""A forward language model streamed token by token: 8 bytes go up, the most probable next tokens come down.

Trains an LSTM on the docstrings of Python's own library (numpy, under a minute), loads it whole (embedding, LSTM, output
layer, LogSoftmax, TopK), and writes sentences: each is a session that is fed what was drawn from its own answers. Every
answer is compared with the network's formulas in numpy. Then measures steps a second and bytes on the wire, with top-k
and with all logits.

exit status: 0 every answer within 1e-4; 1 a difference; 2 a call failed
"""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import corpus
import network
import numpy as np
from network import Array, Weights
from relay import Relay

import rnnserve

TOLERANCE = 1e-4
MODEL = "language-model"
OUTPUTS = {"top-k": ["next", "log_probabilities"], "logits": ["logits"]}


def write(client: rnnserve.Client, weights: Weights, beginnings: Sequence[int], steps: int) -> tuple[list[list[int]], float]:
    """A sentence for each beginning, and the largest difference of the log probabilities from the formulas'."""
    rng = np.random.default_rng(1)
    sessions = [client.session(MODEL, outputs=OUTPUTS["top-k"]) for _ in beginnings]
    written = [[token] for token in beginnings]
    h = c = np.zeros((len(beginnings), weights["out"].shape[0]), np.float32)
    worst = 0.0
    for _ in range(steps):
        tokens = np.array([sentence[-1] for sentence in written])
        futures = [session.feed_async({"token": token.reshape(1, 1)}) for session, token in zip(sessions, tokens)]
        _, _, h, c = network.step(weights, tokens, h, c)
        expected = network.log_probabilities(weights, h)
        for row, future in enumerate(futures):
            answer = future.result()
            nexts, scores = answer["next"][0, 0], answer["log_probabilities"][0, 0]
            best = np.sort(expected[row])[::-1][:len(scores)]
            differences: Array = np.abs(np.concatenate([scores - best, scores - expected[row, nexts]]))
            worst = max(worst, float(differences.max())) if np.isfinite(differences).all() else np.inf
            chances = np.where(nexts == 0, 0, np.exp(scores))  # never <unk>
            written[row].append(int(nexts[rng.choice(len(nexts), p=chances / chances.sum())]))
    for session in sessions:
        session.close()
    return written, worst


def measure(address: str, outputs: Sequence[str], sessions: int, seconds: float) -> dict[str, float]:
    """Steps a second of sessions that each send a token once the one before is answered; bytes of a step each way."""
    token = np.array([[1]])
    with rnnserve.Client(address, timeout=60) as client, contextlib.ExitStack() as opened:
        open_sessions = [opened.enter_context(client.session(MODEL, outputs=outputs)) for _ in range(sessions)]
        for session in open_sessions:
            session.feed({"token": token})
        begin, steps = time.monotonic(), 0
        while time.monotonic() < begin + seconds:
            futures = [session.feed_async({"token": token}) for session in open_sessions]
            steps += sum(1 for future in futures if future.result())
        rate = steps / (time.monotonic() - begin)
    with Relay(address) as relay, rnnserve.Client(relay.address, timeout=60) as client, \
            client.session(MODEL, outputs=outputs) as session:
        session.feed({"token": token})
        up, down = relay.up, relay.down
        for _ in range(100):
            session.feed({"token": token})
        return {"steps_per_second": rate, "bytes_up": (relay.up - up) / 100, "bytes_down": (relay.down - down) / 100}


def main() -> int:
    parser = argparse.ArgumentParser(prog="language_model.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="127.0.0.1:50051", help="the server's HOST:PORT (default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=10000, help="default: %(default)s")
    parser.add_argument("--hidden", type=int, default=128, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=45, help="of training (default: %(default)s)")
    parser.add_argument("--measure", type=float, default=2, help="seconds of each measurement (default: %(default)s)")
    parser.add_argument("--top", type=int, default=8, help="tokens that the server answers with (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    arguments = parser.parse_args()
    names, text = corpus.read(arguments.vocabulary)
    weights = network.start(len(names), arguments.hidden)
    losses = network.train(weights, text, arguments.seconds)
    perplexity = float(np.exp(np.mean(losses[-50:])))
    beginnings = [names.index(word) for word in ("the", "return", "if", "a")]
    try:
        with rnnserve.Client(arguments.address, timeout=60) as client:
            client.load(MODEL, network.file(weights, arguments.top))
            try:
                written, worst = write(client, weights, beginnings, 20)
                table = {(what, sessions): measure(arguments.address, outputs, sessions, arguments.measure)
                         for what, outputs in OUTPUTS.items() for sessions in (1, 16)}
            finally:
                client.unload(MODEL, 1)  # the next run brings other weights
    except rnnserve.RnnServeError as error:
        print(f"language_model.py: {error}", file=sys.stderr)
        return 2
    good = worst <= TOLERANCE
    sentences = [" ".join(names[token] for token in sentence) for sentence in written]
    if arguments.json:
        rows: list[dict[str, Any]] = [{"outputs": what, "sessions": sessions, **row} for (what, sessions), row in table.items()]
        print(json.dumps({"vocabulary": len(names), "steps": len(losses), "perplexity": perplexity, "sentences": sentences,
                          "difference": worst if np.isfinite(worst) else None, "measured": rows, "good": good}))
        return 0 if good else 1
    print(f"trained {len(losses)} steps on {len(text)} tokens, vocabulary {len(names)}: perplexity {perplexity:.0f}")
    print(*sentences, sep="\n")
    print(f"largest difference from the formulas {worst:.1e} ({'within' if good else 'limit'} {TOLERANCE:.0e})")
    print("outputs  sessions  steps/s  bytes up  bytes down  (of a step, on the wire)")
    for (what, sessions), row in table.items():
        print(f"{what:7}  {sessions:8}  {row['steps_per_second']:7.0f}  {row['bytes_up']:8.0f}  {row['bytes_down']:10.0f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
