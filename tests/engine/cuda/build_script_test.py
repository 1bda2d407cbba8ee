# SPDX-License-Identifier: Apache-2.0
"""selftest/build.sh, which knows nothing of CMake, builds every source that is there.

    python3 build_script_test.py REPOSITORY
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
folders = {"plugin": root / "engine/cuda", "kernels": root / "engine/cuda", "selftest": root / "tests/engine/cuda/selftest"}
lists = dict(re.findall(r"^(plugin|kernels|selftest)=\(([^)]*)\)", (folders["selftest"] / "build.sh").read_text(encoding="utf-8"), re.M))
for part, folder in folders.items():
    suffix = "cu" if part == "kernels" else "cc"
    named = {f"{name}.{suffix}" for name in lists[part].split()}
    present = {path.name for path in folder.glob(f"*.{suffix}")}
    if named != present:
        sys.exit(f"build.sh, {part}: lacks {sorted(present - named)} and names {sorted(named - present)}, which are not there")
