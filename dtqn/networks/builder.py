"""A Q-network from its settings: the one place where names become classes."""

from __future__ import annotations

import gymnasium
from torch import nn

from dtqn.config import NetworkConfig
from dtqn.networks.darqn import AttentiveLSTMLayer, PartsEncoder
from dtqn.networks.decoder import TransformerDecoder
from dtqn.networks.dtqn_encoder import DTQNEncoder, initialise_as_dtqn
from dtqn.networks.encoders import StepEncoder
from dtqn.networks.gtrxl import GTrXL
from dtqn.networks.heads import DuelingHead, QHead
from dtqn.networks.lru import LRULayer
from dtqn.networks.mingru import MinGRULayer
from dtqn.networks.recurrent import Core, RecurrentQNetwork
from dtqn.networks.rnn import GRULayer, LSTMLayer
from dtqn.networks.stack import Hidden, HiddenAndCell, NoState, RecurrentStack
from dtqn.networks.windowed import QNetwork, WindowedQNetwork


def build(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> QNetwork:
    """The Q-network that `config` describes, for one task's observations and actions.

    Parameters are drawn from torch's global generator: seed it before.
    """
    encoder = _encoder(config, observation_space, num_actions)
    head = (DuelingHead if config.dueling else QHead)(config.width, num_actions, config.head_width)
    network: QNetwork
    if config.core == "dtqn":
        network = WindowedQNetwork(encoder, _decoder(config), head, observation_space)
    else:
        network = RecurrentQNetwork(encoder, _core(config), head)
    if config.encoder == "dtqn":
        network.apply(initialise_as_dtqn)
    return network


def _encoder(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> nn.Module:
    if config.soft_attention:
        return PartsEncoder(
            observation_space,
            num_actions,
            config.width,
            config.use_prev_action,
            config.use_prev_reward,
            config.image_encoder,
        )
    if config.encoder == "dtqn":
        return DTQNEncoder(
            observation_space, num_actions, config.width, config.embedding_width, config.use_prev_action
        )
    return StepEncoder(
        observation_space,
        num_actions,
        config.width,
        config.embedding_width,
        config.use_prev_action,
        config.use_prev_reward,
        config.image_encoder,
    )


def _decoder(config: NetworkConfig) -> TransformerDecoder:
    return TransformerDecoder(
        config.width,
        config.num_layers,
        config.num_heads,
        config.mlp_width,
        config.context_length,
        config.positions,
        config.gate,
        config.gate_bias,
        config.norm,
        config.dropout,
    )


def _core(config: NetworkConfig) -> Core:
    width, depth, skip = config.width, range(config.num_layers), config.skip_connections
    longest = config.memory_length if config.chrono_init else None
    match config.core:
        case "gtrxl":
            return GTrXL(
                width,
                config.num_layers,
                config.num_heads,
                config.mlp_width,
                config.memory_length,
                config.gate,
                config.gate_bias,
                config.norm,
            )
        case "lstm":
            layers: list[nn.Module] = [LSTMLayer(width, skip, longest) for _ in depth]
            if config.soft_attention:
                layers[0] = AttentiveLSTMLayer(width, longest)
            return RecurrentStack(layers, HiddenAndCell, (width,))
        case "gru":
            return RecurrentStack((GRULayer(width, skip, longest) for _ in depth), Hidden, (width,))
        case "mingru":
            return RecurrentStack(
                (MinGRULayer(width, config.mlp_width, longest) for _ in depth), Hidden, (width,)
            )
        case "lru":
            return RecurrentStack((LRULayer(width) for _ in depth), Hidden, (2, width))
        case "none":
            return RecurrentStack([], NoState)
    raise AssertionError(config.core)
