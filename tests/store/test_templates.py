"""Templates (`store/lmdb/templates.py`): packed cells come back, keep their order, and bounds divide them as before."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.store.lmdb.templates import FEW, WIDEST, Template, decode_template

byte = st.sampled_from([0, 1, 2, 128, 254, 255])
cell = st.lists(byte, max_size=8).map(bytes)
cells = st.one_of(
    st.lists(cell, min_size=1, max_size=12),
    st.tuples(cell, st.lists(cell, min_size=1, max_size=12), cell).map(lambda t: [t[0] + m + t[2] for m in t[1]]),
    st.integers(0, WIDEST + 9).flatmap(
        lambda width: st.lists(st.binary(min_size=width, max_size=width), min_size=1, max_size=2 * FEW)
    ),
)


def array(values: list[bytes]) -> pa.LargeBinaryArray:
    return pa.array(values, pa.large_binary())


@settings(deadline=None)
@given(cells, cells, st.booleans())
def test_cells_come_back_in_order(first: list[bytes], second: list[bytes], zeros: bool) -> None:
    template = Template.of(array(first), zeros=zeros)
    assert template.narrowed(array(first)) is template
    narrowed = template.narrowed(array(second))
    both = first + second
    assert narrowed.narrowed(array(both)) is narrowed
    packed = narrowed.pack(array(both), b"lead").to_pylist()
    assert packed == narrowed.pack_each(both, b"lead") == [narrowed.pack_one(one, b"lead") for one in both]
    assert narrowed.unpack(array(packed), 4).to_pylist() == both == narrowed.unpack_each(packed, 4)
    assert [narrowed.unpack_one(one, 4) for one in packed] == both
    assert sorted(set(packed)) == narrowed.pack_each(sorted(set(both)), b"lead")


@settings(deadline=None)
@given(cells, cell)
def test_bounds_and_prefixes_divide_packed_cells_as_they_divide_cells(values: list[bytes], given_: bytes) -> None:
    template = Template.of(array(values))
    bound = template.bound(given_)
    prefix = template.pack_one(given_)
    for value, packed in zip(values, template.pack_each(values, b""), strict=True):
        assert packed is not None
        assert (value >= given_) == (bound is not None and packed >= bound)
        assert value.startswith(given_) == (prefix is not None and packed.startswith(prefix))


@settings(deadline=None)
@given(cells, cell)
def test_a_cell_that_does_not_fit_has_no_packed_form(values: list[bytes], other: bytes) -> None:
    template = Template.of(array(values))
    is_fitting = template.narrowed(array([other])) is template
    assert (template.pack_each([other], b"") != [None]) == is_fitting
    assert (template.pack_each([other, *values], b"")[0] is not None) == is_fitting
    assert None not in template.pack_each(values * FEW, b"")
    assert (template.pack_each([*values * FEW, other], b"")[-1] is not None) == is_fitting


@settings(deadline=None)
@given(cells, st.booleans())
def test_templates_are_stored(values: list[bytes], zeros: bool) -> None:
    template = Template.of(array(values), zeros=zeros)
    assert (decode_template(template.encoded) or Template()) == template


@pytest.mark.parametrize(
    "damaged", [b"", b"\0\0\0\0", b"\1\0\0\0", b"\x09\0\0\0\0", b"\xff\xff\xff\xff\0", b"\1\0\0\0\0\0\0"]
)
def test_a_damaged_template(damaged: bytes) -> None:
    assert decode_template(damaged) is None


def test_what_a_template_leaves_out() -> None:
    keys = [b"\1\x80\0\0\0\0\0" + n.to_bytes(2) + b"\1text" for n in range(300)]
    packed = Template.of(array(keys)).pack(array(keys), b"")
    assert packed.to_pylist() == [n.to_bytes(2) for n in range(300)]
