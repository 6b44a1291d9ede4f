"""Rows for the networks, so many at a time."""

from hypothesis import given
from hypothesis import strategies as st

from models.networks.batching import BLOCK, CHUNK, groups


@given(count=st.integers(0, 300), each=st.integers(1, 1200))
def test_groups_cover_every_record_in_whole_blocks(count: int, each: int) -> None:
    covered = 0
    for records, rows in groups(count, each):
        size = records.stop - records.start
        assert records.start == covered and size > 0
        assert (size * rows) % BLOCK == 0 and each <= rows < each + BLOCK
        assert size == 1 or size * each <= CHUNK
        covered = records.stop
    assert covered == count
