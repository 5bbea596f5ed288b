"""The packed timesteps of a block: which are real, and what fills them up."""

import torch

from dtqn.networks import packing


def test_packed_rows_come_in_multiples_and_the_others_are_not_read():
    real = torch.tensor([[True, True, False], [False, False, False], [True, False, False]])
    timesteps = packing._rows(real, torch.zeros(3, dtype=torch.int64))
    assert (
        timesteps.real == 3
        and len(timesteps.place) == len(timesteps.sequence) == len(timesteps.position) == packing.ROWS
    )
    assert timesteps.place[:3].tolist() == [0, 1, 6] and set(timesteps.place[3:].tolist()) == {0}
    assert timesteps.position[:3].tolist() == [0, 1, 0] and set(timesteps.position[3:].tolist()) == {
        packing.NOWHERE
    }
    packed = timesteps.pack(torch.arange(9.0).view(3, 3, 1)).requires_grad_()
    block = timesteps.unpack(packed)
    assert block.flatten().tolist() == [0, 1, 0, 0, 0, 0, 6, 0, 0]
    (grad,) = torch.autograd.grad((block * torch.arange(1.0, 10.0).view(3, 3, 1)).sum(), packed)
    assert grad.flatten()[:3].tolist() == [1, 2, 7] and not grad[3:].any()
    nothing = packing._rows(torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, dtype=torch.int64))
    assert (nothing.real, len(nothing.place)) == (0, 0)
