import torch
from hypothesis import given
from hypothesis import strategies as st

from learner.config import ObjectiveSettings
from learner.relevance import relevance_mask, selected_count

NONE = ObjectiveSettings()


def disagreement(share: float) -> ObjectiveSettings:
    return ObjectiveSettings(relevance="disagreement", relevance_share=share)


def test_without_relevance_the_loss_mask_stays_as_it_is() -> None:
    mask = torch.tensor([False, True, True])
    assert relevance_mask(torch.rand(3), mask, NONE).equal(mask)
    assert selected_count(2, NONE) == 2


def test_the_largest_disagreements_are_kept_and_masked_tokens_never() -> None:
    value = torch.tensor([9.0, 0.1, 0.5, 0.3, 0.2])
    mask = torch.tensor([False, True, True, True, True])
    assert relevance_mask(value, mask, disagreement(0.5)).tolist() == [False, False, True, True, False]


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans()), min_size=1, max_size=30),
    st.floats(0.01, 1.0),
)
def test_as_many_tokens_are_kept_as_were_counted_beforehand(tokens: list[tuple[float, bool]], share: float) -> None:
    value, mask = torch.tensor([v for v, _ in tokens]), torch.tensor([m for _, m in tokens])
    kept = relevance_mask(value, mask, disagreement(share))
    assert int(kept.sum()) == selected_count(int(mask.sum()), disagreement(share))
    assert not (kept & ~mask).any()
    if 0 < kept.sum() < mask.sum():
        assert value[kept].min() >= value[mask & ~kept].max()
