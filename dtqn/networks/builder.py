"""A Q-network from its settings: the one place where names become classes."""

from __future__ import annotations

import gymnasium
from torch import nn

from dtqn.networks.auxiliary import ContrastiveLoss, reconstruction_loss, span_penalty
from dtqn.networks.bag import BagAttention, BagQNetwork
from dtqn.networks.coberl import CoBERL
from dtqn.networks.compression import Compression
from dtqn.networks.darqn import AttentiveLSTMLayer, PartsEncoder
from dtqn.networks.decoder import TransformerDecoder
from dtqn.networks.dtqn_encoder import DTQNEncoder, initialise_as_dtqn
from dtqn.networks.encoders import StepEncoder
from dtqn.networks.gates import make_gate
from dtqn.networks.gtrxl import GTrXL
from dtqn.networks.heads import Categorical, DuelingHead, Expectation, Prediction, QHead, Quantiles
from dtqn.networks.lru import LRULayer
from dtqn.networks.mingru import MinGRULayer
from dtqn.networks.q_network import AuxiliaryLoss, Core, QNetwork
from dtqn.networks.recurrent import RecurrentQNetwork
from dtqn.networks.rnn import GRULayer, LSTMLayer
from dtqn.networks.stack import Hidden, HiddenAndCell, NoState, RecurrentStack
from dtqn.networks.windowed import WindowedQNetwork
from dtqn.settings.config import NetworkConfig


def build(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> QNetwork:
    """The Q-network that `config` describes, for one task's observations and actions.

    Parameters are drawn from torch's global generator: seed it before.
    """
    encoder = _encoder(config, observation_space, num_actions)
    head_type = DuelingHead if config.dueling else QHead
    has_bag = config.core == "dtqn" and config.bag_size > 0
    features = 2 * config.width if has_bag else config.width
    head = head_type(features, num_actions, config.head_width, _prediction(config))
    network: RecurrentQNetwork | WindowedQNetwork | BagQNetwork
    if has_bag:
        attention = BagAttention(config.width, config.num_heads)
        network = BagQNetwork(encoder, _decoder(config), head, observation_space, attention, config.bag_size)
    elif config.core == "dtqn":
        network = WindowedQNetwork(encoder, _decoder(config), head, observation_space)
    else:
        network = RecurrentQNetwork(encoder, _core(config), head, _auxiliary(config))
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


def _prediction(config: NetworkConfig) -> Prediction:
    match config.distribution:
        case "categorical":
            return Categorical(config.num_atoms, config.v_min, config.v_max)
        case "quantile":
            return Quantiles(config.num_quantiles)
    return Expectation()


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
        config.share_gates,
        config.final_norm,
    )


def _gtrxl(
    config: NetworkConfig, span_ramp: int | None = None, compression: Compression | None = None
) -> GTrXL:
    return GTrXL(
        config.width,
        config.num_layers,
        config.num_heads,
        config.mlp_width,
        config.memory_length,
        config.gate,
        config.gate_bias,
        config.norm,
        span_ramp,
        compression,
    )


def _auxiliary(config: NetworkConfig) -> AuxiliaryLoss | None:
    match config.auxiliary_loss:
        case "contrastive":
            return ContrastiveLoss(config.width, config.mask_share, config.invariance_weight)
        case "span":
            return span_penalty
        case "reconstruction":
            return reconstruction_loss
    return None


def _core(config: NetworkConfig) -> Core:
    width, depth, skip = config.width, range(config.num_layers), config.skip_connections
    longest = config.memory_length if config.chrono_init else None
    match config.core:
        case "gtrxl":
            slots, rate = config.compressed_slots, config.compression_rate
            return _gtrxl(
                config,
                config.span_ramp if config.adaptive_span else None,
                Compression(width, config.memory_length, slots, rate) if slots else None,
            )
        case "coberl":
            gate = make_gate(config.gate, width, config.gate_bias)
            return CoBERL(_gtrxl(config), gate, LSTMLayer(width, longest=longest))
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
