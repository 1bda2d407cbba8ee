# SPDX-License-Identifier: Apache-2.0
"""Finds speech in many recordings at once: the trained detector of silero-vad, its recurrent part as sessions of a server.

`rnnctl split` parts its file. Every recording is a session and is streamed by chunks of 512 samples (32 ms at 16 kHz);
the convolutions run here, with onnxruntime, LSTM and decision head on the server, which keeps h and c. Prints where speech is, writes a picture, and compares h, c
and the probability of every chunk with the package's own network as a whole.

exit status: 0 all within 1e-4; 1 a difference; 2 something is missing, or a call failed
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import model
import numpy as np
import picture
import recordings
import segments
from model import Array, Columns

import rnnserve

TOLERANCE = 1e-4
MODEL = "silero-vad-16k"
SECONDS = model.CHUNK / model.RATE


def stream(client: rnnserve.Client, parts: model.Parts, all_frames: Sequence[Array], checkpoint_every: int,
           live: bool = False) -> list[Columns]:
    """At each tick every recording that goes on has one chunk, as live sources would; if `live`, ticks come no faster
    than speech. Returns what Whole.run gives."""
    sessions = [client.session(MODEL, outputs=["hn", "cn", parts.score], checkpoint_every=checkpoint_every) for _ in all_frames]
    results: list[list[tuple[float, Array, Array]]] = [[] for _ in all_frames]
    begin = time.monotonic()
    for tick in range(max(map(len, all_frames))):
        if live:
            time.sleep(max(0, begin + tick * SECONDS - time.monotonic()))
        talking = [k for k, frames in enumerate(all_frames) if tick < len(frames)]
        X = parts.encode(np.stack([all_frames[k][tick] for k in talking]))
        futures = [sessions[k].feed_async({parts.x: X[row:row + 1]}) for row, k in enumerate(talking)]
        answers = [future.result() for future in futures]
        probabilities = parts.decide([answer[parts.score] for answer in answers])
        for k, answer, probability in zip(talking, answers, probabilities):
            results[k].append((probability, answer["hn"][0, 0], answer["cn"][0, 0]))
    for session in sessions:
        session.close()
    return [model.columns(rows) for rows in results]


def differences(ours: Columns, theirs: Columns) -> list[float]:
    """The largest of h, of c (relative where it is above 1) and of the probability, of all chunks."""
    (p, h, c), (whole_p, whole_h, whole_c) = ours, theirs
    relative = np.abs(c - whole_c) / np.maximum(1, np.abs(whole_c))
    return [float(np.max(value)) for value in (np.abs(h - whole_h), relative, np.abs(p - whole_p))]


def table(records: Sequence[dict[str, Any]]) -> None:
    width = max(len(record["name"]) for record in records)
    print(f"{'recording':{width}}  seconds  speech (seconds)")
    for record in records:
        speech = "  ".join(f"{start:.2f}-{stop:.2f}" for start, stop in record["speech"]) or "none"
        print(f"{record['name']:{width}}  {record['seconds']:7.2f}  {speech}")


def arguments_of(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="vad.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="127.0.0.1:50051", help="the server's HOST:PORT (default: %(default)s)")
    parser.add_argument("--rnnctl", default="build/release/client/rnnctl/rnnctl", help="default: %(default)s")
    parser.add_argument("--model", type=pathlib.Path, help=f"silero_vad.onnx, with {model.SEQUENCE} beside it (default: of the installed package)")
    parser.add_argument("--recordings", action="append", default=[], metavar="FOLDER",
                        help="16 bit WAV files (default: pocketsphinx-testdata, and voices of espeak-ng)")
    parser.add_argument("--most", type=int, default=24, help="recordings at most (default: %(default)s)")
    parser.add_argument("--picture", type=pathlib.Path, default="vad.png", help="default: %(default)s")
    parser.add_argument("--checkpoint_every", type=int, default=0, help="see client.session (default: %(default)s)")
    parser.add_argument("--live", action="store_true", help="as fast as they were spoken, not as fast as possible")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    return parser.parse_args(words)


def main() -> int:
    arguments = arguments_of(sys.argv[1:])
    try:
        path = arguments.model or model.find_file()
        names, sounds = zip(*recordings.collect(arguments.recordings, arguments.most))
        with tempfile.TemporaryDirectory() as folder:
            parts = model.Parts(arguments.rnnctl, path.with_name(model.SEQUENCE), pathlib.Path(folder))
        frames = [model.frames_of(sound) for sound in sounds]
        with rnnserve.Client(arguments.address, timeout=60) as client:
            client.load(MODEL, parts.served)
            begin = time.monotonic()
            streamed = stream(client, parts, frames, arguments.checkpoint_every, arguments.live)
            took = time.monotonic() - begin
    except (OSError, RuntimeError, ValueError, rnnserve.RnnServeError) as error:
        print(f"vad.py: {error}", file=sys.stderr)
        return 2

    whole = model.Whole(path)
    checked = [differences(ours, whole.run(each)) for ours, each in zip(streamed, frames)]
    h, c, probability = np.max(checked, axis=0).tolist()  # a NaN stays
    good = all(value <= TOLERANCE for value in (h, c, probability))
    records: list[dict[str, Any]] = [{"name": name, "seconds": len(sound) / model.RATE, "chunks": len(each),
                "speech": segments.speech(ours[0].tolist(), SECONDS)}
               for name, sound, each, ours in zip(names, sounds, frames, streamed)]
    picture.draw(arguments.picture, [(record["name"], sound, ours[0], record["speech"])
                                     for record, sound, ours in zip(records, sounds, streamed)],
                 max(record["seconds"] for record in records))
    chunks = sum(record["chunks"] for record in records)
    if arguments.json:
        print(json.dumps({"recordings": records, "chunks": chunks, "h": h, "c": c, "probability": probability,
                          "largest_c": float(max(np.abs(ours[2]).max() for ours in streamed)), "good": good}))
        return 0 if good else 1
    table(records)
    print(f"{len(records)} recordings at once, {chunks} chunks of 32 ms in {took:.1f} s "
          f"({chunks * SECONDS / took:.0f} times as fast as they were spoken)")
    print(f"largest difference from the package's network, every chunk: h {h:.0e}, c {c:.0e} (relative), probability "
          f"{probability:.0e} ({'within' if good else 'LIMIT'} {TOLERANCE:.0e})")
    print(f"picture: {arguments.picture}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
