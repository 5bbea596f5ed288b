"""The packed timesteps of a block: which are real, and what fills them up."""

import torch

from dtqn.networks import packing


def test_packed_timesteps_come_in_multiples_and_the_others_are_not_read():
    real = torch.tensor([[True, True, False], [False, False, False], [True, False, False]])
    found = packing._packed(real, torch.zeros(3, dtype=torch.int64))
    assert found.real == 3 and {len(x) for x in found[:3]} == {packing.MULTIPLE}
    assert found.place[:3].tolist() == [0, 1, 6] and set(found.place[3:].tolist()) == {0}
    assert found.position[:3].tolist() == [0, 1, 0] and set(found.position[3:].tolist()) == {packing.NOWHERE}
    packed = found.pack(torch.arange(9.0).view(3, 3, 1)).requires_grad_()
    block = found.unpack(packed)
    assert block.flatten().tolist() == [0, 1, 0, 0, 0, 0, 6, 0, 0]
    (grad,) = torch.autograd.grad((block * torch.arange(1.0, 10.0).view(3, 3, 1)).sum(), packed)
    assert grad.flatten()[:3].tolist() == [1, 2, 7] and not grad[3:].any()
    nothing = packing._packed(torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, dtype=torch.int64))
    assert (nothing.real, len(nothing.place)) == (0, 0)
