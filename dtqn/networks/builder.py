"""A Q-network from its settings: the one place where names become classes.

The file of a core is imported where it is asked for, so that a run reads that of its own core alone.
"""

from __future__ import annotations

import gymnasium
from torch import nn

from dtqn.networks import own_networks
from dtqn.networks.compression import Compression
from dtqn.networks.encoders import StepEncoder
from dtqn.networks.gates import LayerSettings, make_gate
from dtqn.networks.gtrxl import GTrXL
from dtqn.networks.heads import Categorical, DuelingHead, Expectation, Prediction, QHead
from dtqn.networks.q_network import AuxiliaryLoss, Core, Encoder, Head, QNetwork
from dtqn.networks.recall import Recall, RecallingHead
from dtqn.networks.recurrent_q_network import RecurrentQNetwork
from dtqn.networks.stack import Hidden, HiddenAndCell, NoState, RecurrentStack
from dtqn.settings.config import NetworkConfig
from dtqn.settings.values import is_own

SPAN_RAMP = 8
"""R of adaptive spans, in steps."""


def build(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> QNetwork:
    """The Q-network that `config` describes, for one task's observations and actions.

    Parameters are drawn from torch's global generator: seed it before.

    Raises:
        ConfigError: a core or encoder of the user's own cannot be made.
        ValueError: the network cannot read the task.
    """
    network: QNetwork
    encoder = make_encoder(config, observation_space, num_actions)
    if config.core == "dtqn":
        network = _windowed(config, encoder, observation_space, num_actions)
    else:
        network = RecurrentQNetwork(
            encoder=encoder,
            head=_head(config, observation_space, num_actions),
            core=make_core(config),
            auxiliary=_auxiliary(config),
        )
    if config.encoder == "dtqn":
        from dtqn.networks.dtqn_encoder import initialise_as_dtqn

        network.apply(initialise_as_dtqn)
    return network


def make_encoder(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> Encoder:
    """The encoder that `network.encoder` names; errors as of `build`."""
    if is_own(config.encoder):
        return own_networks.encoder(config, observation_space, num_actions)
    if config.soft_attention:
        from dtqn.networks.darqn import PartsEncoder

        return PartsEncoder(
            observation_space=observation_space,
            num_actions=num_actions,
            width=config.width,
            use_prev_action=config.use_prev_action,
            use_prev_reward=config.use_prev_reward,
            image_encoder=config.image_encoder,
        )
    if config.encoder == "dtqn":
        from dtqn.networks.dtqn_encoder import DTQNEncoder

        return DTQNEncoder(
            observation_space=observation_space,
            num_actions=num_actions,
            width=config.width,
            embedding_width=config.embedding_width,
            use_prev_action=config.use_prev_action,
        )
    return StepEncoder(
        observation_space=observation_space,
        num_actions=num_actions,
        width=config.width,
        embedding_width=config.embedding_width,
        use_prev_action=config.use_prev_action,
        use_prev_reward=config.use_prev_reward,
        image_encoder=config.image_encoder,
        num_layers=config.encoder_layers,
    )


def _head(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> Head:
    kind = DuelingHead if config.dueling else QHead
    head = kind(
        width=config.width,
        num_actions=num_actions,
        hidden_width=config.head_width,
        prediction=_prediction(config),
    )
    if not config.recall_weight or config.core == "none":  # what cannot remember is not asked to
        return head
    recall = Recall(observation_space=observation_space, width=config.width, weight=config.recall_weight)
    return RecallingHead(head, recall)


def _prediction(config: NetworkConfig) -> Prediction:
    if config.distribution == "categorical":
        return Categorical(num_atoms=config.num_atoms, v_min=config.v_min, v_max=config.v_max)
    return Expectation()


def _windowed(
    config: NetworkConfig, encoder: Encoder, observation_space: gymnasium.Space, num_actions: int
) -> QNetwork:
    from dtqn.networks.decoder import TransformerDecoder
    from dtqn.networks.windowed_q_network import WindowedQNetwork

    head = _head(config, observation_space, num_actions)  # its parameters are drawn first
    decoder = TransformerDecoder(
        _layer(config),
        num_layers=config.num_layers,
        context_length=config.context_length,
        positions=config.positions,
        share_gates=config.share_gates,
        final_norm=config.final_norm,
    )
    return WindowedQNetwork(encoder=encoder, head=head, decoder=decoder, observation_space=observation_space)


def _layer(config: NetworkConfig) -> LayerSettings:
    return LayerSettings(
        config.width, config.num_heads, config.mlp_width, config.gate, config.gate_bias, config.norm
    )


def _gtrxl(config: NetworkConfig, span_ramp: int | None, compression: Compression | None) -> GTrXL:
    return GTrXL(
        _layer(config),
        num_layers=config.num_layers,
        memory_length=config.memory_length,
        span_ramp=span_ramp,
        compression=compression,
    )


def _compression(config: NetworkConfig) -> Compression | None:
    if not config.compressed_slots:
        return None
    return Compression(
        width=config.width,
        memory_length=config.memory_length,
        num_slots=config.compressed_slots,
        rate=config.compression_rate,
    )


def _auxiliary(config: NetworkConfig) -> AuxiliaryLoss | None:
    if config.auxiliary_loss is None:
        return None
    from dtqn.networks.auxiliary import ContrastiveLoss, reconstruction_loss, span_penalty

    if config.auxiliary_loss == "contrastive":
        return ContrastiveLoss(width=config.width)
    return {"span": span_penalty, "reconstruction": reconstruction_loss}[config.auxiliary_loss]


def make_core(config: NetworkConfig) -> Core:
    """The core that `network.core` names; errors as of `build`. `dtqn` re-reads raw inputs and has none."""
    if is_own(config.core):
        return own_networks.core(config)
    width, depth, skip = config.width, range(config.num_layers), config.skip_connections
    longest = config.memory_length if config.chrono_init else None
    orthogonal = config.orthogonal_init
    layers: list[nn.Module]
    match config.core:
        case "gtrxl":
            return _gtrxl(config, SPAN_RAMP if config.adaptive_span else None, _compression(config))
        case "coberl":
            from dtqn.networks.coberl import CoBERL
            from dtqn.networks.rnn import LSTMLayer

            gate = make_gate(config.gate, width=width, bias=config.gate_bias)
            transformer = _gtrxl(config, None, None)
            lstm = LSTMLayer(width=width, skip=False, longest=longest, orthogonal=False)
            return CoBERL(transformer=transformer, gate=gate, lstm=lstm)
        case "lstm":
            from dtqn.networks.rnn import LSTMLayer

            layers = [
                LSTMLayer(width=width, skip=skip, longest=longest, orthogonal=orthogonal) for _ in depth
            ]
            if config.soft_attention:
                from dtqn.networks.darqn import AttentiveLSTMLayer

                layers[0] = AttentiveLSTMLayer(width=width, longest=longest, orthogonal=orthogonal)
            return RecurrentStack(layers=layers, state_type=HiddenAndCell, layer_shape=(width,))
        case "gru":
            from dtqn.networks.rnn import GRULayer

            layers = [GRULayer(width=width, skip=skip, longest=longest, orthogonal=orthogonal) for _ in depth]
            return RecurrentStack(layers=layers, state_type=Hidden, layer_shape=(width,))
        case "mingru":
            from dtqn.networks.linear_recurrences import MinGRULayer

            layers = [MinGRULayer(width=width, mlp_width=config.mlp_width, longest=longest) for _ in depth]
            return RecurrentStack(layers=layers, state_type=Hidden, layer_shape=(width,))
        case "lru":
            from dtqn.networks.linear_recurrences import LRULayer

            layers = [LRULayer(width=width) for _ in depth]
            return RecurrentStack(layers=layers, state_type=Hidden, layer_shape=(2, width))
        case "deltanet":
            from dtqn.networks.deltanet import GatedDeltaNetLayer

            heads = config.num_heads
            layers = [
                GatedDeltaNetLayer(width=width, num_heads=heads, mlp_width=config.mlp_width, longest=longest)
                for _ in depth
            ]
            return RecurrentStack(
                layers=layers, state_type=Hidden, layer_shape=(heads, width // heads, width // heads)
            )
        case "none":
            return RecurrentStack(layers=[], state_type=NoState, layer_shape=())
    raise AssertionError(config.core)
