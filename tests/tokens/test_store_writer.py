"""Writing a token store: the type of its ids."""

import pytest

from headswap.tokens import store_writer


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, "<u2"), (65_537, "<u4")])
def test_ids_have_the_smallest_type_that_holds_them(vocab_size: int, dtype: str) -> None:
    assert store_writer.id_type(vocab_size) == dtype
