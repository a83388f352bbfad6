from hypothesis import given
from hypothesis import strategies as st

from learner.batch import Row, micro_batches, pad

ROWS = st.lists(
    st.builds(
        Row,
        st.lists(st.integers(1, 99), min_size=1, max_size=9).map(tuple),
        st.lists(st.integers(1, 99), min_size=1, max_size=9).map(tuple),
    ),
    min_size=1,
    max_size=6,
)


@given(ROWS)
def test_every_scored_position_holds_the_token_before_the_one_it_predicts(rows: list[Row]) -> None:
    batch = pad(rows)
    assert batch.ids_BL.shape == (len(rows), max(row.length for row in rows))
    assert sum(batch.lengths) == len(batch.target_T)
    scored = zip(batch.row_T.tolist(), batch.column_T.tolist(), batch.target_T.tolist(), strict=True)
    expected = [
        (index, len(row.prompt_ids) - 1 + place, token)
        for index, row in enumerate(rows)
        for place, token in enumerate(row.completion_ids)
    ]
    found = list(scored)
    assert found == expected
    for index, column, token in found:
        whole = (*rows[index].prompt_ids, *rows[index].completion_ids)
        assert batch.ids_BL[index, column] == whole[column]
        assert whole[column + 1] == token


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 6))
def test_micro_batches_hold_everything_once_in_order_of_length(lengths: list[int], size: int) -> None:
    groups = micro_batches(range(len(lengths)), lengths, size)
    flat = [index for group in groups for index in group]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[index] for index in flat] == sorted(lengths)
    assert all(1 <= len(group) <= size for group in groups)
