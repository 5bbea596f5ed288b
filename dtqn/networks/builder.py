"""A Q-network from its settings.

A core's file is imported when that core is asked for, so a run reads its own core's file alone.
"""

from __future__ import annotations

from typing import cast

import gymnasium

from dtqn.networks import own_networks
from dtqn.networks.heads import DuelingHead, QHead
from dtqn.networks.q_network import AuxiliaryLoss, Core, Encoder, Head, QNetwork
from dtqn.networks.recall import Recall, RecallingHead, with_values
from dtqn.networks.recurrent_q_network import RecurrentQNetwork
from dtqn.settings.config import NetworkConfig
from dtqn.settings.named_code import found


def build(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> QNetwork:
    """The Q-network that `config` describes, for one task's observations and actions.

    Parameters are drawn from torch's global generator: seed it before.

    Raises:
        ConfigError: a core or encoder of the user's own cannot be made.
        ValueError: the network cannot read the task.
    """
    network: QNetwork
    encoder = make_encoder(config, observation_space, num_actions)
    head = _head(config, observation_space, num_actions)
    core = make_core(config)
    if config.core.is_windowed:
        from dtqn.networks.decoder import TransformerDecoder
        from dtqn.networks.windowed_q_network import WindowedQNetwork

        network = WindowedQNetwork(
            encoder=encoder,
            head=head,
            decoder=cast(TransformerDecoder, core),
            observation_space=observation_space,
        )
    else:
        network = RecurrentQNetwork(encoder=encoder, head=head, core=core, auxiliary=_auxiliary(config))
    if config.encoder.initialised_by is not None:
        network.apply(found(config.encoder.initialised_by))
    return network


def make_encoder(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> Encoder:
    """The encoder that `network.encoder` names; errors as of `build`."""
    if config.encoder.is_own:
        return own_networks.encoder(config, observation_space, num_actions)
    encoder: Encoder = found(config.encoder.made_by)(
        observation_space=observation_space,
        num_actions=num_actions,
        width=config.width,
        **config.encoder.own_settings(),
    )
    return encoder


def make_core(config: NetworkConfig) -> Core:
    """The core that `network.core` names; errors as of `build`. A windowed one is a decoder."""
    if config.core.is_own:
        return own_networks.core(config)
    core: Core = found(config.core.made_by)(config)
    return core


def _head(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> Head:
    kind = DuelingHead if config.dueling else QHead
    head = kind(
        width=config.width,
        num_actions=num_actions,
        hidden_width=config.head_width,
        prediction=found(config.distribution.made_by)(**config.distribution.own_settings()),
    )
    # What cannot remember is not asked to, and numbers that measure something have no values to name.
    can_recall = config.core.remembers and with_values(observation_space)
    if not config.recall_weight or not can_recall:
        return head
    recall = Recall(observation_space=observation_space, width=config.width, weight=config.recall_weight)
    return RecallingHead(head, recall)


def _auxiliary(config: NetworkConfig) -> AuxiliaryLoss | None:
    if config.core.auxiliary_loss is None:
        return None
    loss = found(config.core.auxiliary_loss)
    return cast(AuxiliaryLoss, loss(width=config.width) if isinstance(loss, type) else loss)
