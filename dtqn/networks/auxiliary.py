"""Auxiliary losses, which the learner adds to the TD errors' loss: (network, batch, generator) -> scalar.

The learner computes one with the online network on the whole batch, so its value does not depend on how the
batch is cut into parts. It adds `learner.auxiliary_weight` times that. The generator is the update's own.

Legend: B sequences, R timesteps of the learned segment, D width.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtqn.networks.coberl import CoBERL
from dtqn.networks.gtrxl import GTrXL
from dtqn.networks.recurrent_q_network import RecurrentQNetwork
from dtqn.types import Sequences, length_mask

TEMPERATURE = 0.1
"""Divides the cosines of the contrastive loss (ReLIC: Mitrovic et al. 2020, arXiv 2010.07922)."""
MASK_SHARE = 0.15
"""Of a sequence's features that the contrastive loss hides and predicts."""
NEVER = -1e9
"""A similarity whose share of a softmax is zero; finite, so that 0 times its logarithm is 0."""


def real_timesteps(batch: Sequences) -> Tensor:
    """[B, R] True at the learned segment's timesteps that are no padding."""
    return length_mask(batch.learn_timesteps, batch.learn.first.shape[1])


def span_penalty(network: RecurrentQNetwork, batch: Sequences, generator: torch.Generator) -> Tensor:
    """The mean length of GTrXL's adaptive spans in steps (Sukhbaatar et al. 2019, arXiv 1905.07799, 2.2)."""
    spans = [layer.attention.span for layer in cast(GTrXL, network.core).layers]
    return torch.cat([span.lengths() for span in spans if span is not None]).mean()


def reconstruction_loss(network: RecurrentQNetwork, batch: Sequences, generator: torch.Generator) -> Tensor:
    """The loss of GTrXL's compressed memory over the learned segment (Rae et al. 2019, arXiv 1911.05507)."""
    with torch.no_grad():
        state, _ = network.starting_state(batch)
        left = network.core(network.encoder(batch.learn), state)[2]
    return cast(GTrXL, network.core).reconstruction_loss(state, left.memory, real_timesteps(batch))


class ContrastiveLoss(nn.Module):
    """CoBERL's masked prediction of features (after Banino et al. 2021, arXiv 2107.05431, section 2.1).

    Y are the encoder's features of a sequence's real timesteps. Some, the masked ones, are set to zero, and X
    is the output of the core's transformer on them, where every step sees all others. With
    c(a, b) = cos(critic(a), critic(b)) / TEMPERATURE and sums over the real timesteps i of the same sequence:

        q_x(i|t) = exp c(x_t, y_i) / sum_i exp c(x_t, y_i)      q_y(i|t) the same of c(y_t, x_i)
        s_x(i|t) = exp c(x_t, x_i) / sum_i exp c(x_t, x_i)      s_y(i|t) the same of c(y_t, y_i)

        l_t = - log q_x(t|t) - log q_y(t|t) + sum of KL(sg[p] || p') over the pairs
              (p, p') = (q_x, q_y), (q_y, q_x), (s_x, s_y), (s_y, s_x), each at t

    with sg no gradient. The loss is the mean of l_t over the batch's masked timesteps.
    """

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.critic = nn.Linear(width, width, bias=False)
        nn.init.xavier_normal_(self.critic.weight)

    def forward(self, network: RecurrentQNetwork, batch: Sequences, generator: torch.Generator) -> Tensor:
        real = real_timesteps(batch)
        draws = torch.rand(real.shape, generator=generator, device=real.device)
        return self.of_features(network, network.encoder(batch.learn), real, real & (draws < MASK_SHARE))

    def of_features(self, network: RecurrentQNetwork, y: Tensor, real: Tensor, masked: Tensor) -> Tensor:
        """The loss of features y [B, R, D]; `real` [B, R] is False in padding, `masked` True where hidden."""
        hidden = (masked | ~real)[..., None]
        x = cast(CoBERL, network.core).transformer.both_ways(y.masked_fill(hidden, 0.0), real)
        y = y.masked_fill(~real[..., None], 0.0)
        x, y = (F.normalize(self.critic(z), dim=-1) for z in (x, y))

        def shares(a: Tensor, b: Tensor) -> Tensor:
            similarity = a @ b.mT / TEMPERATURE
            return similarity.masked_fill(~real[:, None], NEVER).log_softmax(dim=-1)

        q_x, q_y, s_x, s_y = shares(x, y), shares(y, x), shares(x, x), shares(y, y)
        loss = -(q_x + q_y).diagonal(dim1=1, dim2=2)
        for one, other in ((q_x, q_y), (q_y, q_x), (s_x, s_y), (s_y, s_x)):
            fixed = one.detach()
            loss = loss + (fixed.exp() * (fixed - other)).sum(dim=-1)
        return torch.where(masked, loss, 0.0).sum() / masked.sum().clamp(min=1)
