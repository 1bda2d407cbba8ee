# SPDX-License-Identifier: Apache-2.0
"""Text that every Python brings: the reference's topics (pydoc) and the docstrings of the standard library, as tokens."""

import ast
import collections
import pathlib
import re
import sysconfig
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

UNKNOWN = "<unk>"
TOKEN = re.compile(r"[a-z']+|[0-9]+|[.,;:?!()\"]")


def texts() -> list[str]:
    """Docstrings and topics, in the order of their files; a file that cannot be parsed is left out."""
    found: list[str] = []
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "packages" in path.parent.name:  # of other packages
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                found.append(ast.get_docstring(node) or "")
            elif path.name == "topics.py" and isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def read(vocabulary: int) -> tuple[list[str], Array]:
    """The most frequent words, UNKNOWN first and the rest by how often they come, and the text as their numbers."""
    words = [word for text in texts() for word in TOKEN.findall(text.lower())]
    names = [UNKNOWN] + [word for word, _ in collections.Counter(words).most_common(vocabulary - 1)]
    numbers = {name: number for number, name in enumerate(names)}
    return names, np.array([numbers.get(word, 0) for word in words], np.int64)
