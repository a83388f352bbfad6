"""Linear layers whose weights are laid out once for the processor's matrix kernels, for all that needs no gradient."""

from typing import Any, cast

import torch

EXPECTED_ROWS = 16
"""The number of activation rows the layout is chosen for: a decoding step of a full batch."""


class PackedLinear(torch.nn.Linear):
    """A linear layer for inference that keeps a second, blocked copy of its weight.

    A decoding step multiplies a few rows with every weight. With the plain layout the library lays each weight out
    anew on every call, which takes longer than the product itself.
    """

    packed: Any = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 -- torch's own parameter name
        """Return `input @ weight.T + bias`."""
        if self.packed is None or torch.is_grad_enabled():
            # The packed product has no gradient.
            return super().forward(input)
        return torch.ops.mkldnn._linear_pointwise(input, self.packed, self.bias, "none", [], "")


def pack_linears(model: torch.nn.Module) -> bool:
    """Turn every plain linear layer of `model` into a packed one, in place; return whether this build of torch can.

    The operators are those torch's own compiler emits for a frozen model on this processor. Where a build lacks them
    the model stays as it is.
    """
    probe = torch.nn.Linear(4, 4)
    try:
        _pack(probe)
        with torch.no_grad():
            same = torch.allclose(
                probe(torch.ones(2, 4)), torch.nn.functional.linear(torch.ones(2, 4), probe.weight, probe.bias)
            )
    except (AttributeError, RuntimeError):
        return False
    if same:
        for module in model.modules():
            if type(module) is torch.nn.Linear:
                _pack(module)
    return same


def _pack(module: torch.nn.Linear) -> None:
    packed = torch.ops.mkldnn._reorder_linear_weight(module.weight.detach().contiguous(), EXPECTED_ROWS)
    module.__class__ = PackedLinear
    cast("PackedLinear", module).packed = packed
