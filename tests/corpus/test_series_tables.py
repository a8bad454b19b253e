"""Tables of time series: which columns they have, and what is mended, said or refused."""

from pathlib import Path

import numpy as np
import pytest

from electralab.corpus.series import TimeSeries, read_series
from electralab.corpus.sources import find_sources
from electralab.errors import InputError


def read(path: Path, text: str, time: str = "", columns: tuple[str, ...] = ()) -> TimeSeries:
    path.write_text(text)
    (source,) = find_sources([str(path)]).files
    return read_series(source, time, columns)


def test_the_times_are_found_by_their_name_and_every_other_column_has_values(tmp_path: Path) -> None:
    table = read(tmp_path / "a.csv", "cpu,Timestamp,disk\n1,2024-01-01 00:00:00,5\n2,2024-01-01 00:05:00,6.5\n")
    assert table.columns == ("cpu", "disk")
    assert table.values.tolist() == [[1.0, 5.0], [2.0, 6.5]]
    assert (table.times[1], table.step_seconds, table.notes) == ("2024-01-01 00:05:00", 300.0, ())


def test_points_are_sorted_equal_times_and_gaps_are_kept_and_said(tmp_path: Path) -> None:
    table = read(tmp_path / "a.csv", "time,v\n0,0\n20,2\n10,1\n10,9\n30,3\n90,4\n")
    assert table.values.ravel().tolist() == [0, 1, 9, 2, 3, 4]
    assert table.notes == (
        "1 times are earlier than those before them; the points were sorted",
        "1 points have the time of the one before; all are kept, in the order of the file",
        "1 times are further apart than usual (10 seconds); points are read as if they were not",
    )


def test_missing_values_are_counted_and_a_series_that_never_changes_is_said_to(tmp_path: Path) -> None:
    table = read(tmp_path / "a.csv", "time,v,w\n1,,7\n2,NaN,7\n3,4,7\n")
    assert np.isnan(table.values[:2, 0]).all()
    assert table.notes == (
        "2 values are missing and are not scored",
        "column 'v' never changes; any other value would be odd",
        "column 'w' never changes; any other value would be odd",
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("time,v\n1,2\n2,high\n", "line 3: column 'v' holds 'high', no number"),
        ("time,v\n1,2\n2,inf\n", "line 3: column 'v' holds 'inf', no number"),
        ("time,v\nyesterday,2\n2,3\n", "line 2: column 'time' holds 'yesterday', no time"),
        ("time,v\n1,2\n", "has 1 points; a time series needs at least 2"),
        ("v\n1\n2\n", "has no header row with a column of times and one of values"),
        ("time,v\n1,\n2,\n", "column 'v' has no value at all"),
        ('time,v\n1,"2\n2,3\n', "not valid CSV"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path / "a.csv", text)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "a.csv"))


def test_columns_may_be_named_so_that_text_beside_them_does_not_matter(tmp_path: Path) -> None:
    text = "when,v,comment\n1,2,fine\n2,3,odd\n"
    assert read(tmp_path / "a.csv", text, "when", ("v",)).columns == ("v",)
    with pytest.raises(InputError, match="has no column 'w'; it has 'when', 'v', 'comment'"):
        read(tmp_path / "a.csv", text, "when", ("w",))
