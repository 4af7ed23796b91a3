"""The footers of trace files: each file that cannot be used is named with the reason."""

from pathlib import Path
from typing import Any

import pytest

from quorate.replay import NoTrace
from quorate.replay.discovery import FoundFiles
from quorate.replay.files import Footer, footer, inspect_files
from quorate.replay.schema import Origin, arrow_schema

arrow: Any = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")

ORIGIN = Origin("s0", 0, 1, 5)


def table(*changes: dict[str, Any]) -> Any:
    """A trace with one row per argument."""
    schema = arrow_schema(ORIGIN.metadata(0))
    rows = []
    for change in changes:
        values: dict[str, Any] = {}
        for field in schema:
            kind = getattr(field.type, "value_type", field.type)
            values[field.name] = "" if kind == arrow.string() else b"" if kind == arrow.binary() else 0
        rows.append(values | {"server": "s0", "replica": 1, "incarnation": 5} | change)
    return arrow.Table.from_pylist(rows, schema=schema)


def test_a_whole_file_has_a_footer(tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    parquet.write_table(table({"position": 1}, {"position": 2}), path)
    assert footer(path) == Footer(2, ORIGIN, 0, 1, 2)


def test_a_file_that_is_empty_truncated_or_foreign_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    parquet.write_table(table({"position": 1}), path)
    content = path.read_bytes()
    for damage, why in {
        b"": "it is empty",
        b"position,agent\n": "it is not a Parquet file",
        b"PAR1": "it is truncated: its end is missing",
        content[: len(content) // 2]: "it is truncated: its end is missing",
    }.items():
        path.write_bytes(damage)
        assert footer(path) == why


def test_a_file_without_rows_with_other_types_or_of_several_replicas_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    parquet.write_table(table(), path)
    assert footer(path) == "there is no row in it"
    typed = table({"position": 1})
    at = typed.schema.get_field_index("position")
    parquet.write_table(typed.set_column(at, "position", typed["position"].cast(arrow.string())), path)
    assert footer(path) == "the columns are not those of a trace"
    parquet.write_table(table({"position": 1}, {"position": 2, "replica": 2}), path)
    assert footer(path) == "it has rows of several replicas or incarnations"
    parquet.write_table(table({"position": 1}, {"position": 2, "replica": 2}), path, row_group_size=1)
    assert footer(path) == "it has rows of several replicas or incarnations"


def test_the_rest_is_used_when_a_file_is_set_aside_and_nothing_is_an_error(tmp_path: Path) -> None:
    good, bad = tmp_path / "1.parquet", tmp_path / "2.parquet"
    parquet.write_table(table({"position": 1}), good)
    bad.touch()
    files = inspect_files(FoundFiles((good, bad), ("data: it cannot be searched",)))
    assert files.paths == (good,)
    assert files.bad == ("data: it cannot be searched", f"{bad}: it is empty")
    assert files.rows == {(0, 1, 5): 1}
    with pytest.raises(NoTrace, match=r"none of the 1 trace files can be read; .*2\.parquet: it is empty"):
        inspect_files(FoundFiles((bad,)))


def test_two_replicas_without_a_row_are_an_error(tmp_path: Path) -> None:
    paths = (tmp_path / "1.parquet", tmp_path / "2.parquet")
    for path in paths:
        parquet.write_table(table(), path)
    with pytest.raises(NoTrace, match=r"none of the 2 trace files can be read; .*: there is no row in it"):
        inspect_files(FoundFiles(paths))
