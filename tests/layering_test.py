# SPDX-License-Identifier: Apache-2.0
"""Holds the tree to its layers (docs/architecture.md): reads the includes of every source and fails on an arrow that
points up, on gRPC or protobuf below the dialects, and on a source that no CMakeLists.txt lists. The document itself
may name only files and types that exist.

    python3 layering_test.py ROOT
"""
import pathlib
import re
import sys
import tempfile
import unittest

STORE_SEAM = ["server/sessions/contract/session_key.h", "server/sessions/contract/session_store.h"]

# Room -> rooms it may include. Longest prefix wins; a room may always include itself. A header may be a room of its own.
ARROWS = {
    "base": [],
    "engine": ["base"],  # the vocabulary: cell.h, sequence.h, engine.h, ...
    "engine/map": ["base", "engine", "engine/onednn"],  # of engine/onednn: the limit of instructions, and teams of one thread
    "engine/op": ["base", "engine", "engine/map"],  # of engine/map: what a pipeline is
    "engine/reference": ["base", "engine"],
    "engine/cpu": ["base", "engine"],
    "engine/onednn": ["base", "engine"],
    "engine/plugin": ["base", "engine"],
    "engine/cuda": ["engine/plugin"],
    "onnx_file": ["base", "engine", "engine/map", "engine/op"],
    "server/files": [],
    "server/telemetry": ["base"],
    "server/transport": ["base", "server/telemetry"],
    "server/config": ["base", "server/files", "server/telemetry"],
    "server/admission": ["base", "server/telemetry"],
    "server/security": ["base", "server/files", "server/telemetry"],
    "server/rpc": ["base", "server/admission", "server/security", "server/sessions/contract", "server/telemetry"],  # of sessions: session_error.h
    "server/batching": ["base", "engine", "server/admission", "server/telemetry"],
    "server/models": ["base", "engine", "engine/map", "engine/op", "onnx_file", "server/telemetry"],
    "server/core/call.h": ["base", "engine", "engine/op", "server/admission", "server/models", "server/telemetry"],
    "server/routing": ["base", "engine", "server/batching", "server/core/call.h", "server/models", "server/telemetry"],
    "server/core": ["base", "engine", "engine/map", "engine/op", "server/admission", "server/batching", "server/core/call.h",
                    "server/models", "server/routing", "server/telemetry"],
    "server/sessions/contract": ["base", "engine", "server/admission", *STORE_SEAM, "server/telemetry"],
    "server/sessions/execution": ["base", "engine", "engine/op", "server/admission", "server/core", "server/core/call.h",
                                  "server/models", "server/sessions/contract", *STORE_SEAM, "server/telemetry"],
    **{header: ["base", *STORE_SEAM] for header in STORE_SEAM},
    "server/store": ["base", "server/files", *STORE_SEAM, "server/telemetry"],
    "server/api": ["base", "engine", "engine/op", "server/admission", "server/core", "server/core/call.h", "server/models", "server/rpc",
                   "server/security", "server/sessions/contract", *STORE_SEAM, "server/sessions/execution", "server/telemetry",
                   "server/transport"],
    "server/admin": ["base", "server/telemetry"],
    "server/plugins": ["base", "engine", "engine/plugin", "server/telemetry"],
    "client/cpp": ["base", "engine", "engine/op"],
    "client/rnnctl": ["base", "client/cpp", "engine", "engine/cpu", "engine/op", "engine/reference", "onnx_file"],
}
# main.cc and what it is helped by name every concrete class.
FREE = {"server/" + name for name in ("main.cc", "durable.cc", "durable.h", "gauges.cc", "gauges.h", "options.cc", "options.h", "process_memory.cc",
                                        "process_memory.h", "signals.cc", "signals.h")}
# gRPC and protobuf belong to the dialects, the calls and the clients; onnx_file reads ONNX's own protobuf, config its file's.
WIRE = re.compile(r"^(grpc|grpcpp|grpc\+\+|google/)|\.pb\.h$|^onnx/")
WIRE_ROOMS = ("server/api/", "server/rpc/", "server/security/", "server/admission/", "server/transport/listener.h",
              "server/transport/grpc_listener.cc", "server/transport/paced_listener.cc", "server/main.cc", "server/config/",
              "server/sessions/execution/record_codec.cc", "client/", "onnx_file/")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
SOURCES = (".cc", ".c", ".cu", ".h", ".cuh")
NAMED_FILE = re.compile(r"`([a-z][\w/*]*\.(?:cc|h|py|proto)|[a-z]\w*(?:/\w+)+)`")
NAMED_TYPE = re.compile(r"`([A-Z][a-z]\w*(?:::\w+)*)`")


def room_of(path):
    """The room of a file path such as engine/op/op_spec.h, or None outside all rooms."""
    matches = [room for room in ARROWS if path == room or path.startswith(room + "/")]
    return max(matches, key=len) if matches else None


def problems(root):
    """All violations below `root`, as lines of text."""
    root = pathlib.Path(root)
    found = []
    for top in ("base", "engine", "onnx_file", "server", "client", "tests"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            if file.suffix in (".cc", ".c", ".cu") and not is_listed(root, file):
                found.append(f"{path}: no CMakeLists.txt lists it")
            if top != "tests" and path not in FREE:
                found += include_problems(path, file.read_text(encoding="utf-8"))
    return found


def include_problems(path, text):
    room = room_of(path)
    if room is None:
        return [f"{path}: lies in no room of ARROWS in layering_test.py"]
    found = []
    for included in INCLUDE.findall(text):
        target = room_of(included)
        if target not in (None, room, *ARROWS[room]):
            found.append(f"{path}: {room} must not include {included}")
        if WIRE.search(included) and not path.startswith(WIRE_ROOMS):
            found.append(f"{path}: {included} does not belong below the dialects")
    return found


def is_listed(root, file):
    """Whether a CMakeLists.txt of the file's folder or one above it names the file relative to itself."""
    folder = file.parent
    while True:
        lists = folder / "CMakeLists.txt"
        if lists.is_file():
            name = re.escape(file.relative_to(folder).as_posix())
            if re.search(rf"(?<![\w./-]){name}(?![\w.-])", lists.read_text(encoding="utf-8")):
                return True
        if folder == root:
            return False
        folder = folder.parent


def stale_names(root, document):
    """Files and types that `document` names in backticks and the tree does not have. A file may be named by the end of
    its path, and without its suffix."""
    root = pathlib.Path(root)
    files = [file for top in ("base", "engine", "onnx_file", "server", "client", "tests", "proto")
             for file in (root / top).rglob("*")]
    paths = [file.relative_to(root) for file in files]
    paths += [path.with_suffix("") for path in paths if path.suffix]
    words = {word for file in files if file.suffix in (*SOURCES, ".proto", ".py")
             for word in re.findall(r"\w+", file.read_text(encoding="utf-8", errors="replace"))}
    found = [name for name in NAMED_FILE.findall(document) if not any(path.match(name) for path in paths)]
    found += [name for name in NAMED_TYPE.findall(document) if not words.issuperset(name.split("::"))]
    return sorted(set(found))


class LayeringTest(unittest.TestCase):
    root = "."

    def test_tree(self):
        self.assertEqual(problems(self.root), [])

    def planted(self, path, text, lists=None):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / path
            file.parent.mkdir(parents=True)
            file.write_text(text)
            (file.parent / "CMakeLists.txt").write_text(file.name if lists is None else lists)
            return problems(folder)

    def test_finds_an_arrow_that_points_up(self):
        self.assertTrue(self.planted("engine/op/a.cc", '#include "server/core/core.h"\n'))
        self.assertTrue(self.planted("server/batching/a.cc", '#include "engine/op/op_spec.h"\n'))
        self.assertFalse(self.planted("server/core/a.cc", '#include "engine/op/op_spec.h"\n'))

    def test_finds_wire_types_below_the_dialects(self):
        self.assertTrue(self.planted("server/core/a.cc", "#include <grpcpp/grpcpp.h>\n"))
        self.assertTrue(self.planted("server/models/model.cc", '#include "rnnserve/v1/tensor.pb.h"\n'))
        self.assertFalse(self.planted("server/api/a.cc", "#include <grpcpp/grpcpp.h>\n"))
        self.assertFalse(self.planted("onnx_file/loader.cc", "#include <onnx/onnx_pb.h>\n"))

    def test_the_document_names_what_exists(self):
        document = (pathlib.Path(self.root) / "docs/architecture.md").read_text(encoding="utf-8")
        self.assertEqual(stale_names(self.root, document), [])
        gone = "`server/core/no_core.h` `rpc/no_poller` `%s` `Core::%s`".replace("%s", "No" + "Type")
        self.assertEqual(len(stale_names(self.root, gone)), 4)

    def test_finds_an_unlisted_source(self):
        self.assertTrue(self.planted("engine/op/a.cc", "", lists="ba.cc a.cc.in"))


if __name__ == "__main__":
    LayeringTest.root = sys.argv.pop(1)
    unittest.main()
