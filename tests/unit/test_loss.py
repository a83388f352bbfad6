import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from learner.loss import log1mexp, logprobs_from, masked_mean, masked_sum, reverse_kl_topk


def reference(student: Tensor, teacher: Tensor, k: int) -> Tensor:
    """The formula written out in float64, with a plain subtraction for the tails."""
    s, q = student.double().softmax(-1), teacher.double().softmax(-1)
    rows: list[Tensor] = []
    for row in range(len(s)):
        top: list[int] = s[row].argsort(descending=True)[:k].tolist()
        rest = [v for v in range(s.shape[1]) if v not in top]
        value = sum((s[row, v] * (s[row, v] / q[row, v]).log() for v in top), torch.zeros((), dtype=torch.double))
        if rest:
            tail_s, tail_q = s[row, rest].sum(), q[row, rest].sum()
            value = value + tail_s * (tail_s / tail_q).log()
        rows.append(value)
    return torch.stack(rows)


def rounding(student: Tensor, teacher: Tensor, k: int) -> Tensor:
    """How far float32 may be off, per token: the smaller the teacher's tail, the more a rounding weighs."""
    s, ids = student.double().softmax(-1).topk(k)
    tail_s = (1 - s.sum(-1)).clamp(min=0)
    tail_q = (1 - teacher.double().softmax(-1).gather(-1, ids).sum(-1)).clamp(min=1e-9)
    return 2e-5 + tail_s * (4e-6 / tail_q)


def full_kl(student: Tensor, teacher: Tensor) -> Tensor:
    log_s, log_q = student.double().log_softmax(-1), teacher.double().log_softmax(-1)
    return (log_s.exp() * (log_s - log_q)).sum(-1)


@st.composite
def logits(draw: st.DrawFn, tokens: int = 3) -> tuple[Tensor, Tensor, int]:
    seed = draw(st.integers(0, 2**31))
    scale = draw(st.sampled_from([0.1, 1.0, 4.0]))
    vocabulary = draw(st.integers(3, 40))
    generator = torch.Generator().manual_seed(seed)
    student, teacher = (torch.randn(tokens, vocabulary, generator=generator) * scale for _ in range(2))
    return student, teacher, draw(st.integers(1, vocabulary))


def test_a_case_worked_out_by_hand() -> None:
    student = torch.tensor([[0.5, 0.25, 0.25]]).log()
    teacher = torch.tensor([[0.25, 0.25, 0.5]]).log()
    top_1 = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    everything = 0.5 * math.log(2) + 0.25 * math.log(1) + 0.25 * math.log(0.5)
    assert reverse_kl_topk(student, logprobs_from(teacher), 1).item() == pytest.approx(top_1, abs=1e-6)
    assert reverse_kl_topk(student, logprobs_from(teacher), 3).item() == pytest.approx(everything, abs=1e-6)


@given(logits())
@settings(deadline=None, max_examples=60)
def test_agrees_with_a_float64_reference(case: tuple[Tensor, Tensor, int]) -> None:
    student, teacher, k = case
    ours = reverse_kl_topk(student, logprobs_from(teacher), k)
    assert ours.dtype == torch.float32
    expected = reference(student, teacher, k)
    assert ((ours.double() - expected).abs() <= 1e-4 * expected + rounding(student, teacher, k)).all()


@given(logits())
@settings(deadline=None, max_examples=40)
def test_top_k_never_exceeds_the_full_divergence_and_reaches_it_at_the_vocabulary(
    case: tuple[Tensor, Tensor, int],
) -> None:
    student, teacher, k = case
    whole = full_kl(student, teacher)
    ours = reverse_kl_topk(student, logprobs_from(teacher), k).double()
    assert (ours <= whole + rounding(student, teacher, k)).all()
    for enough in (student.shape[1], student.shape[1] + 5):
        exact = reverse_kl_topk(student, logprobs_from(teacher), enough)
        torch.testing.assert_close(exact.double(), whole, rtol=1e-4, atol=1e-5)


@given(logits())
@settings(deadline=None, max_examples=40)
def test_the_gradient_is_that_of_the_reference_and_flows_through_the_student_alone(
    case: tuple[Tensor, Tensor, int],
) -> None:
    student, teacher, k = case
    ours, theirs = student.clone().requires_grad_(), student.double().requires_grad_()
    teacher = teacher.clone().requires_grad_()
    reverse_kl_topk(ours, logprobs_from(teacher), k).sum().backward()
    reference(theirs, teacher.detach(), k).sum().backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    assert teacher.grad is None
    allowed = 1e-3 * theirs.grad.abs() + rounding(student, teacher.detach(), k)[:, None]
    assert ((ours.grad.double() - theirs.grad).abs() <= allowed).all()


def test_top_one_still_has_a_gradient() -> None:
    student = torch.tensor([[2.0, 0.0, 0.0]], requires_grad=True)
    reverse_kl_topk(student, logprobs_from(torch.tensor([[0.0, 0.0, 2.0]])), 1).sum().backward()
    assert student.grad is not None
    assert student.grad.abs().max() > 0.1


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("peak", [30.0, 1e3, 1e4])
def test_extreme_logits_stay_finite(k: int, peak: float) -> None:
    sharp = torch.tensor([[peak, 0.0, 0.0, -peak], [0.0, 0.0, 0.0, 0.0], [peak, peak, peak, peak]], requires_grad=True)
    other = torch.tensor([[0.0, peak, 0.0, 0.0], [peak, 0.0, 0.0, 0.0], [-peak, peak, 0.0, 0.0]])
    for teacher in (other, sharp.detach().clone()):
        value = reverse_kl_topk(sharp, logprobs_from(teacher), k)
        (gradient,) = torch.autograd.grad(value.sum(), sharp)
        assert value.isfinite().all()
        assert gradient.isfinite().all()
        assert (value >= -1e-5).all()


@given(logits())
@settings(deadline=None, max_examples=20)
def test_equal_distributions_have_no_divergence_whatever_constant_is_added(case: tuple[Tensor, Tensor, int]) -> None:
    student, _, k = case
    assert reverse_kl_topk(student, logprobs_from(student + 3.0), k).abs().max() < 1e-5


@pytest.mark.parametrize("x", [-50.0, -5.0, -0.7, -0.69, -1e-2, -1e-5])
def test_log1mexp_against_float64(x: float) -> None:
    expected = math.log1p(-math.exp(x)) if x < -1 else math.log(-math.expm1(x))
    assert log1mexp(torch.tensor(x)).item() == pytest.approx(expected, rel=1e-5)


def test_log1mexp_is_held_where_float32_ends() -> None:
    x = torch.tensor([0.0, 1e-6, -1e-12], requires_grad=True)
    value = log1mexp(x)
    value.sum().backward()
    assert value.isfinite().all()
    assert x.grad is not None
    assert (x.grad == 0).all()


def test_what_is_masked_has_no_influence_even_where_it_is_not_finite() -> None:
    value = torch.tensor([1.0, math.nan, 3.0, math.inf], requires_grad=True)
    mask = torch.tensor([True, False, True, False])
    mean = masked_mean(value, mask)
    mean.backward()
    assert mean.item() == 2.0
    assert value.grad is not None
    assert value.grad.tolist() == [0.5, 0.0, 0.5, 0.0]
    assert masked_sum(value, torch.zeros(4, dtype=torch.bool)).item() == 0.0


def test_the_mean_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no token"):
        masked_mean(torch.ones(3), torch.zeros(3, dtype=torch.bool))
