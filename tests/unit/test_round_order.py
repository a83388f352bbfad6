"""In which order a round shows its samples to the trainer."""

import random
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from learner.run import batches
from learner.sample import Sample


def sample(number: int) -> Sample:
    return Sample(
        id=f"sample-{number}",
        mode="offline",
        split="train",
        student_prompt_ids=(1,),
        teacher_prompt_ids=(1,),
        hint_at=1,
    )


@given(count=st.integers(0, 12), size=st.integers(0, 15), seed=st.integers(0, 2**32), epochs=st.integers(1, 4))
@settings(deadline=None)
def test_each_epoch_shows_every_sample_once_and_no_batch_shows_one_twice(
    count: int, size: int, seed: int, epochs: int
) -> None:
    samples = [sample(number) for number in range(count)]
    width = min(size, count)
    # More batches than there are samples in so many epochs: they never end.
    found = list(islice(batches(samples, size, random.Random(seed)), epochs * max(count, 1) + 1))
    assert len(found) == epochs * max(count, 1) + 1
    assert all(len(batch) == width == len({s.id for s in batch}) for batch in found)
    shown = [s.id for batch in found for s in batch]
    everything = {s.id for s in samples}
    for at in range(0, len(shown) - count + 1, max(count, 1)):
        assert set(shown[at : at + count]) == everything


def test_epochs_differ_in_order_and_a_seed_repeats_them() -> None:
    samples = [sample(number) for number in range(8)]

    def order(seed: int) -> list[list[str]]:
        return [[s.id for s in batch] for batch in islice(batches(samples, 8, random.Random(seed)), 4)]

    assert order(3) == order(3)
    assert order(3) != order(4)
    assert len({tuple(epoch) for epoch in order(3)}) == 4
