#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same tritonclient conversation with Triton and with this server; replies compared field by field. Prints the table
of docs/coming-from.md, and exits with 1 if a difference has no reason there, or a reason has no difference.

  kserve_beside.py models FOLDER                    # repositories FOLDER/triton and FOLDER/ours
  kserve_beside.py compare TRITON OURS [--write] [--texts]

TRITON and OURS are addresses (host:port) of fresh servers of these repositories. Triton is started with
--model-control-mode=explicit --load-model=unary128 --load-model=step128 and its ONNX Runtime backend."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import grpc
import numpy as np
import tritonclient.grpc as triton
from google.protobuf import message as protobuf

import kserve_models
from kserve_conversation import Conversation
from kserve_reasons import REASONS

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/coming-from.md"
MARK = "<!-- kserve_beside: {} -->\n"
CONFIG = {"backend": "onnxruntime", "max_batch_size": 64, "dynamic_batching": {},
          "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [-1, 128]}],
          "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [-1, 32]}]}


def fields_of(value, path=""):
    """{path: value} of the leaves of a reply; elements of tensors as arrays."""
    found = {}
    if isinstance(value, protobuf.Message):
        for field, content in value.ListFields():
            name = f"{path}.{field.name}".lstrip(".")
            if field.name == "raw_output_contents":
                found[name] = [np.frombuffer(raw, np.uint8 if len(raw) % 4 else np.float32) for raw in content[:1]]
            elif field.message_type and field.message_type.GetOptions().map_entry:
                for key in content:
                    found.update(fields_of(content[key], f"{name}[{key}]"))
            elif isinstance(content, (str, bytes, int, float, protobuf.Message)):
                found.update(fields_of(content, name))
            else:
                for k, each in enumerate(content):
                    found.update(fields_of(each, f"{name}[{k}]"))
    else:
        found[path] = value
    return found


def answer_of(call):
    """(what a table says of it, its leaves)."""
    try:
        reply = call()
    except triton.InferenceServerException as error:
        status = (error.status() or "").removeprefix("StatusCode.") or "refused by the client"
        return status, {"text": error.message()}
    except grpc.RpcError as error:
        return error.code().name, {"text": error.details()}
    replies = reply if isinstance(reply, list) else [reply]
    words, leaves = [], {}
    for k, each in enumerate(replies):
        if isinstance(each, triton.InferenceServerException):
            words.append((each.status() or "error").removeprefix("StatusCode.").lower() + " in the message")
            leaves[f"{k}.text"] = each.message()
        else:
            words.append(str(each).lower() if isinstance(each, bool) else "OK")
            leaves.update(fields_of(each, str(k) if len(replies) > 1 else ""))
    return ", ".join(dict.fromkeys(words)), leaves


def same(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(x.shape == y.shape and np.allclose(x, y, 1e-4, 1e-5) for x, y in zip(a, b))
    return a == b


def top(path):
    """A leaf's field: config.input[0].dims[1] -> input, 0.outputs[1].shape[0] -> outputs.shape."""
    parts = [part.split("[")[0] for part in path.split(".") if not part.isdigit() and part != "config"]
    return ".".join(parts[:2] if parts[0] == "outputs" else parts[:1])


def differences(a, b):
    paths = [p for p in {**a, **b} if p not in a or p not in b or not same(a[p], b[p])]
    return list(dict.fromkeys(top(p) for p in paths))


def rows(triton_side, our_side):
    for (label, theirs), (_, ours) in zip(triton_side.calls(), our_side.calls()):
        print(label, file=sys.stderr)
        (their_word, their_leaves), (our_word, our_leaves) = answer_of(theirs), answer_of(ours)
        yield label, their_word, our_word, differences(their_leaves, our_leaves), their_leaves, our_leaves


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("models").add_argument("folder", type=pathlib.Path)
    compare = commands.add_parser("compare")
    compare.add_argument("triton")
    compare.add_argument("ours")
    compare.add_argument("--write", action="store_true", help="into docs/coming-from.md")
    compare.add_argument("--texts", action="store_true", help="also print what differs")
    chosen = parser.parse_args()
    if chosen.command == "models":
        return kserve_models.write(chosen.folder)
    sides = [Conversation(address, shape, kserve_models.unary(), json.dumps(CONFIG))
             for address, shape in ((chosen.triton, (1, 128)), (chosen.ours, (1, 1, 128)))]
    lines, wrong, equal = [], [], 0
    for label, theirs, ours, fields, their_leaves, our_leaves in rows(*sides):
        only_text = theirs == ours and set(fields) <= {"text"}
        reason = REASONS.get(label)
        if only_text:
            equal += 1
        if only_text != (reason is None):
            wrong.append(label)
        what = "" if only_text else reason or "NO REASON"
        told = fields if theirs == ours == "OK" else []
        lines.append(f"| {label} | {theirs} | {ours} | {', '.join(f'`{f}`' for f in told)} | {what} |")
        if chosen.texts and fields:
            for path in {**their_leaves, **our_leaves}:
                if not same(their_leaves.get(path), our_leaves.get(path)):
                    print(f"  {label}: {path}: {their_leaves.get(path)} | {our_leaves.get(path)}"[:300])
    version = sides[0].client.get_server_metadata().version
    table = (f"{len(lines)} calls, Triton {version} beside this server; {equal} are answered alike (texts of errors apart).\n\n"
             "| call | Triton | here | fields that differ | why |\n|---|---|---|---|---|\n" + "\n".join(lines) + "\n")
    print(table)
    if chosen.write:
        before, rest = PAGE.read_text().split(MARK.format("begin"))
        PAGE.write_text(before + MARK.format("begin") + table + MARK.format("end") + rest.split(MARK.format("end"))[1])
    if wrong:
        sys.exit(f"without a reason, or with one that is over: {wrong}")


if __name__ == "__main__":
    main()
