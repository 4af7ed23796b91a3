"""The checksum of frames: one value, whoever computes it."""

import importlib
import sys
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.hachannel.codec import checksum


@given(st.binary(max_size=4096), st.integers(0, 2**32 - 1), st.integers(0, 64))
def test_it_is_that_of_zlib(data: bytes, start: int, skip: int) -> None:
    assert checksum.crc32(data) == zlib.crc32(data)
    assert checksum.crc32(data, start) == zlib.crc32(data, start)
    assert checksum.crc32(memoryview(data)[skip:], start) == zlib.crc32(data[skip:], start)


def test_without_its_library_there_is_zlib(monkeypatch: pytest.MonkeyPatch) -> None:
    fast: Callable[..., int] = checksum.crc32
    monkeypatch.setitem(sys.modules, "isal", None)
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    try:
        assert importlib.reload(checksum).crc32 is zlib.crc32
    finally:
        monkeypatch.undo()
        assert importlib.reload(checksum).crc32 is fast
