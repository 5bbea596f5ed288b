"""A Q-network from its settings: the one place where names become classes."""

from __future__ import annotations

import gymnasium

from dtqn.config import NetworkConfig
from dtqn.networks.encoders import StepEncoder
from dtqn.networks.gtrxl import GTrXL
from dtqn.networks.heads import DuelingHead, QHead
from dtqn.networks.recurrent import Core, RecurrentQNetwork


def build(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> RecurrentQNetwork:
    """The Q-network that `config` describes, for one task's observations and actions.

    Parameters are drawn from torch's global generator: seed it before.
    """
    encoder = StepEncoder(
        observation_space,
        num_actions,
        config.width,
        config.embedding_width,
        config.use_prev_action,
        config.use_prev_reward,
    )
    head = (DuelingHead if config.dueling else QHead)(config.width, num_actions, config.head_width)
    return RecurrentQNetwork(encoder, _core(config), head)


def _core(config: NetworkConfig) -> Core:
    match config.core:
        case "gtrxl":
            return GTrXL(
                config.width,
                config.num_layers,
                config.num_heads,
                config.mlp_width,
                config.memory_length,
                config.gate,
                config.gate_bias,
                config.norm,
            )
