"""Numbers, lists and sizes in messages."""

from __future__ import annotations

import pytest

from tailrace.words import count, shorten, size


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1_000, "1,000 rows"), (1_000_001, "1,000,001 rows")],
)
def test_count(number: int, text: str) -> None:
    assert count(number, "row") == text


def test_count_of_a_noun_with_another_plural() -> None:
    assert [count(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


def test_a_long_list_is_shortened_but_never_by_a_single_name() -> None:
    assert shorten(["a", "b"], 1) == "a, b"
    assert shorten(["a", "b", "c"], 1) == "a and 2 others"
    assert shorten([str(i) for i in range(1000)]) == "0, 1, 2, 3, 4, 5 and 994 others"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "0.977 KiB"),
        (4096, "4 KiB"),
        (1023 * 1024, "0.999 MiB"),
        (999.7 * 1024, "0.976 MiB"),
        (256 << 30, "256 GiB"),
        (5000 << 40, "5,000 TiB"),
    ],
)
def test_size(number: float, text: str) -> None:
    assert size(number) == text
