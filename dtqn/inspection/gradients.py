"""Integrated gradients: what a decision depends on, by the network's own slopes (Sundararajan et al. 2017).

arXiv 1703.01365, equation 1. The whole episode is one call, which by the contract of cores is the function
that acted, so gradients run through the memory:

    IG_k = sum_d (x_kd - b_d) * mean over P points p of dG/dx_kd at b + (p - 1/2) / P (x - b)

x are the encoder's features of the steps, b is their mean over all steps of all episodes, and G is the gap
between the two best actions at the decision. The attributions add up to G(x) - G(b), as far as P points tell.

Legend: T decisions of an episode, D width, A actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from dtqn.inspection.dependence import ROWS_PER_CALL
from dtqn.inspection.recorder import Episode, copied
from dtqn.networks.q_network import QNetwork
from dtqn.types import StepInputs, map_tree

POINTS = 64


@contextmanager
def _given(network: Any, features: Tensor) -> Iterator[list[Tensor]]:
    """These features in place of what the network's encoder says; yields `first` of the rows of its calls."""
    asked: list[Tensor] = []

    def instead(encoder: nn.Module, given: tuple[StepInputs], said: Tensor) -> Tensor:
        asked.append(given[0].first)
        return features

    hook = network.encoder.register_forward_hook(instead)
    try:
        yield asked
    finally:
        hook.remove()


def features(network: QNetwork, episode: Episode) -> Tensor:
    """[1, T, D], or [1, T, P, D] of an encoder that gives P parts."""
    with torch.no_grad():
        found: Tensor = cast(Any, network).encoder(episode.inputs)
    return found


def baseline(network: QNetwork, episodes: Sequence[Episode]) -> Tensor:
    """[D]: the mean of the features of all steps."""
    return torch.cat([features(network, episode)[0] for episode in episodes]).mean(dim=0)


def integrated(
    network: QNetwork, episode: Episode, t: int, mean_features: Tensor, points: int = POINTS
) -> np.ndarray | None:
    """[t + 1] of the gap at decision t, to each step up to it.

    None for a network whose encoder is not asked once for all steps, or where there is but one action.
    """
    if episode.q.shape[1] == 1:
        return None
    x = features(network, episode)[:, : t + 1]
    upto = map_tree(lambda rows: rows[:, : t + 1], episode.inputs)
    if not _reads_once(network, upto, x):
        return None
    first, second = episode.q[t].topk(2).indices.tolist()

    def gap(given: Tensor) -> Tensor:
        with _given(network, given):
            state = network.initial_state(len(given))
            q = network(copied(upto, len(given)), state, False)[0].q[:, t]
        return q[:, first] - q[:, second]

    place = (torch.arange(points, dtype=x.dtype) + 0.5) / points
    total = torch.zeros_like(x[0])
    for part in place.split(max(1, ROWS_PER_CALL // (t + 1))):
        given = torch.lerp(mean_features, x, part.view(-1, *[1] * (x.dim() - 1))).requires_grad_()
        with torch.enable_grad():
            total += torch.autograd.grad(gap(given).sum(), given)[0].sum(dim=0)
    steps: np.ndarray = ((x[0] - mean_features) * total / points).flatten(1).sum(dim=1).double().numpy()
    return steps


def _reads_once(network: QNetwork, inputs: StepInputs, x: Tensor) -> bool:
    """Whether a call on all steps asks the encoder once, for these steps in their order."""
    with torch.no_grad(), _given(network, x) as asked:
        try:
            network(inputs, network.initial_state(1), False)
        except (RuntimeError, IndexError):  # features of other shapes were wanted
            return False
    return len(asked) == 1 and asked[0].shape == inputs.first.shape
