# SPDX-License-Identifier: Apache-2.0
"""The corpus of test_bulk.py and its results, in the environment that has pyarrow:

    bulk_corpus.py make FOLDER ROWS     files of several row groups: id, and letters of 1 to 40 indices
    bulk_corpus.py compare FOLDER OTHER prints {"rows", "ids", "same", "scored"}: rows, different ids, and whether all rows of
                                        the two results are the same bit for bit
"""

import json
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def make(folder, rows):
    rng = np.random.default_rng(5)
    folder.mkdir()
    for k, ids in enumerate(np.array_split(np.arange(rows), 4)):
        letters = [rng.integers(3, 29, rng.integers(1, 41)).tolist() for _ in ids]
        pq.write_table(pa.table({"id": ids, "letters": letters}), folder / f"words-{k}.parquet",
                       row_group_size=max(1, rows // 40))


def read(folder):
    """Sorted by id, from all files that are there, finished or not."""
    return pa.concat_tables(pq.read_table(file) for file in sorted(folder.iterdir()) if file.is_file()).sort_by("id")


def compare(folder, other):
    found, expected = read(folder), read(other)
    print(json.dumps({"rows": found.num_rows, "ids": len(set(found["id"].to_pylist())), "same": found.equals(expected),
                      "scored": sum(1 for error in found["error"].to_pylist() if not error)}))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
    else:
        compare(*map(pathlib.Path, sys.argv[2:]))
