# SPDX-License-Identifier: Apache-2.0
"""build_selftest.sh, which knows nothing of CMake, builds every source that is there.

    python3 build_script_test.py REPOSITORY
"""
import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1]) / "engine" / "cuda"
lists = re.findall(r"^(?:plugin|selftest)=\(([^)]*)\)", (folder / "build_selftest.sh").read_text(encoding="utf-8"), re.M)
named = {f"{name}.cc" for names in lists for name in names.split()}
present = {path.relative_to(folder).as_posix() for path in folder.rglob("*.cc")}
if named != present:
    sys.exit(f"build_selftest.sh lacks {sorted(present - named)} and names {sorted(named - present)}, which are not there")
