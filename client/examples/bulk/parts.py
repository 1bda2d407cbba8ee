# SPDX-License-Identifier: Apache-2.0
"""A corpus of Parquet files in parts, and a file of results for each part.

A part is a row group of an input file, and its results are one file with one name. A worker writes it under another name
and renames it: it is there with all rows or not at all, and a part that is scored twice leaves one file. So a run that was
cut off goes on with the parts that have no file.
"""

from __future__ import annotations

import os
import pathlib
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from scorer import ERROR, Scorer

RUNS_AS = b"rnnserve.bulk"  # in the results' metadata: what was scored, and how
ERRORS = RUNS_AS + b".errors"  # and the number of rows that were refused


def parts_of(corpus: list[str], column: str) -> list[dict[str, Any]]:
    """{"file", "group", "rows", "name"} of each. ValueError if two would have one name, or a file lacks the column."""
    files = sorted(file for path in map(pathlib.Path, corpus)
                   for file in (path.rglob("*.parquet") if path.is_dir() else [path]))
    if not files:
        raise ValueError(f"no Parquet files in {', '.join(corpus)}")
    parts, stems = [], {}
    for file in files:
        if stems.setdefault(file.stem, file) != file:
            raise ValueError(f"{file} and {stems[file.stem]} would have the same results: give them other names")
        metadata = pq.read_metadata(file)
        names = metadata.schema.to_arrow_schema().names
        if column not in names:
            raise ValueError(f"{file} has no column {column}; it has {', '.join(names)}")
        parts += [{"file": str(file.resolve()), "group": group, "rows": metadata.row_group(group).num_rows,
                   "name": f"{file.stem}.{group:05}.parquet"} for group in range(metadata.num_row_groups)]
    return parts


def errors_of(results: pathlib.Path, part: dict[str, Any], runs_as: str) -> int | None:
    """Rows that were refused; None: the part has no file yet. ValueError if the file comes from another model, column or input."""
    file = results / part["name"]
    if not file.exists():
        return None
    found = pq.read_metadata(file)
    metadata = found.metadata or {}
    if found.num_rows != part["rows"] or metadata.get(RUNS_AS) != runs_as.encode():
        raise ValueError(f"{file} is the result of another run ({part['rows']} rows, {runs_as} are asked for): "
                         "choose an empty folder")
    return int(metadata[ERRORS])


class PartScorer:
    """For map_batches with batch_size=1: scores the part that a row names, writes its file, and tells rows and errors."""

    def __init__(self, results: str, runs_as: str, **scorer: Any) -> None:
        self._results, self._runs_as, self._column = pathlib.Path(results), runs_as, scorer["column"]
        self._scorer = Scorer(**scorer)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        told = [self._score(str(file), int(group), str(name))
                for file, group, name in zip(batch["file"], batch["group"], batch["name"])]
        return {"rows": [rows for rows, _ in told], "errors": [errors for _, errors in told]}

    def _score(self, file: str, group: int, name: str) -> tuple[int, int]:
        table = pq.ParquetFile(file).read_row_group(group)
        scored = self._scorer({self._column: table.column(self._column).to_numpy()})
        results = table.drop_columns([self._column])
        for column, values in scored.items():
            results = results.append_column(column, pa.array([_plain(value) for value in values]))
        errors = sum(1 for error in scored[ERROR] if error)
        results = results.replace_schema_metadata({RUNS_AS: self._runs_as.encode(), ERRORS: str(errors).encode()})
        self._results.mkdir(parents=True, exist_ok=True)
        unfinished = self._results / f".{name}.{uuid.uuid4().hex}"
        pq.write_table(results, unfinished)
        os.replace(unfinished, self._results / name)
        return table.num_rows, errors


def _plain(value: Any) -> Any:
    """What Parquet has for an array: lists in lists, and a number for an array without dimensions."""
    return value.tolist() if hasattr(value, "tolist") else value
