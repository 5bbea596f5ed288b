"""The settings of a network: encoder, core and head; and which of them do not go together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from dtqn.settings import values
from dtqn.settings.group import Group, Rule, misfit
from dtqn.settings.values import Cores, OwnOr, is_own, shown
from envs.options import is_plain

_LAYERS = Cores("gtrxl", "coberl", "lstm", "gru", "mingru", "lru", "deltanet", "dtqn")
_ATTENTION = Cores("gtrxl", "coberl", "dtqn")


def _fitting_width(network: NetworkConfig) -> int:
    """The nearest one that the heads divide, and whose sinusoids come in pairs."""
    step = math.lcm(network.num_heads, 2) if _has_sinusoids(network) else network.num_heads
    return max(1, round(network.width / step)) * step


def _has_sinusoids(network: NetworkConfig) -> bool:
    return network.core in ("gtrxl", "coberl") or (
        network.core == "dtqn" and network.positions == "sinusoidal"
    )


def _own_settings_are_read(network: NetworkConfig) -> str | None:
    if not network.kwargs or is_own(network.core) or is_own(network.encoder):
        return None
    return (
        f"network.kwargs is {shown(dict(network.kwargs))}, but network.core {network.core} and "
        f"network.encoder {network.encoder} are the suite's, which read none; leave it out, or name a core "
        "or an encoder of your own"
    )


NETWORK: Sequence[Rule] = (
    misfit(
        lambda c: c.v_min >= c.v_max,
        "network.v_min is {c.v_min}, not below network.v_max {c.v_max}; try {more}",
        lambda c: c.v_max - 1,
    ),
    misfit(
        lambda c: c.soft_attention and (c.core, c.encoder) != ("lstm", "default"),
        "network.soft_attention is true with network.core {c.core} and network.encoder {c.encoder}; "
        "it needs lstm and default",
    ),
    misfit(
        lambda c: c.encoder == "dtqn" and c.chrono_init,
        "network.chrono_init is true, but network.encoder is dtqn, whose initial values are its own; "
        "try false",
    ),
    misfit(
        lambda c: c.encoder == "dtqn" and c.orthogonal_init,
        "network.orthogonal_init is true, but network.encoder is dtqn, whose initial values are its own; "
        "try false",
    ),
    misfit(
        lambda c: c.encoder == "dtqn" and c.use_prev_reward,
        "network.use_prev_reward is true, but network.encoder is dtqn, which reads no reward; try default",
    ),
    misfit(
        lambda c: c.core == "gtrxl" and c.compressed_slots and c.adaptive_span,
        "network.compressed_slots is {c.compressed_slots} with network.adaptive_span true: "
        "spans end within the memory; try 0, or false",
    ),
    misfit(
        lambda c: c.core == "gtrxl" and c.compressed_slots and c.memory_length < c.compression_rate,
        "network.memory_length is {c.memory_length}, below network.compression_rate {c.compression_rate}: "
        "blocks would be seen before they are whole; try {c.compression_rate}",
    ),
    misfit(
        lambda c: c.core in ("gtrxl", "coberl", "deltanet", "dtqn") and c.width % c.num_heads,
        "network.width is {c.width}, not a multiple of network.num_heads {c.num_heads}; try {more}",
        _fitting_width,
    ),
    misfit(
        lambda c: c.width % 2 and _has_sinusoids(c),
        "network.width is {c.width}; the sinusoids of positions need an even width; try {more}",
        lambda c: c.width + c.num_heads,
    ),
    misfit(
        lambda c: not is_plain(dict(c.kwargs)),
        "network.kwargs is {more}; it must be a mapping from names to finite numbers, text, true, false, "
        "none, and lists and mappings of these",
        lambda c: shown(dict(c.kwargs)),
    ),
    _own_settings_are_read,
)


class NetworkConfig(Group):
    """The network: encoder, core and head."""

    rules_of_group = NETWORK

    core: Annotated[
        str, OwnOr("gtrxl", "coberl", "lstm", "gru", "mingru", "lru", "deltanet", "dtqn", "none")
    ] = "gtrxl"
    """The memory between encoder and head: `dtqn` re-reads a window, `none` forgets all (DQN)."""
    width: int = Field(64, ge=2, le=1_000_000)
    """D, features of a step between the layers; a multiple of `num_heads` if it is read, even with gtrxl."""
    num_layers: Annotated[int, _LAYERS] = Field(2, ge=1, le=1000)
    """L, layers of the core."""
    num_heads: Annotated[int, Cores("gtrxl", "coberl", "deltanet", "dtqn")] = Field(2, ge=1, le=1_000_000)
    """H, heads of each layer: of attention, or matrices of memory, D^2 / H numbers a layer (deltanet)."""
    mlp_width: Annotated[int, Cores("gtrxl", "coberl", "mingru", "deltanet", "dtqn")] = Field(
        128, ge=1, le=1_000_000
    )
    """Hidden features of the feed-forward part of a layer."""
    memory_length: int = Field(40, ge=0, le=1_000_000)
    """M, how many environment steps back an attention layer sees; `chrono_init`'s longest time scale."""
    context_length: int = Field(50, ge=1, le=1_000_000)
    """K, steps of the window that is re-read at each step, the present one among them (dtqn)."""
    positions: Annotated[Literal["learned", "sinusoidal", "none"], Cores("dtqn")] = "learned"
    """Encoding of a step's place in the window, added to its features."""
    gate: Annotated[Literal["gru", "output", "input", "highway", "sigtanh", "residual"], _ATTENTION] = "gru"
    """Gate that joins a sub-module's output to its input (GTrXL, section 3.2); `residual` is a plain sum."""
    gate_bias: Annotated[float | None, _ATTENTION] = None
    """b_g at initialisation; larger is closer to the identity. None is the gate's own: gru 2, others 1."""
    norm: Annotated[Literal["pre", "post", "none"], _ATTENTION] = "pre"
    """LayerNorm at each sub-module's input (identity map reordering), after the sum (TrXL), or nowhere."""
    share_gates: Annotated[bool, Cores("dtqn")] = False
    """One pair of gates for all layers, as in DTQN's public code."""
    final_norm: Annotated[bool, Cores("dtqn")] = False
    """LayerNorm after the last layer too."""
    skip_connections: Annotated[bool, Cores("lstm", "gru")] = False
    """Add each layer's input to its output, for deep cores."""
    chrono_init: Annotated[bool, Cores("lstm", "gru", "mingru", "deltanet", "coberl")] = False
    """Gates that at first forget over 1 to `memory_length` steps, not torch's 2."""
    orthogonal_init: Annotated[bool, Cores("lstm", "gru")] = False
    """Orthogonal weights from state to state and zero biases, as in Flax; false: torch's uniform ones."""
    adaptive_span: Annotated[bool, Cores("gtrxl")] = False
    """Each head learns how far it looks back, at most `memory_length` (Sukhbaatar et al. 2019)."""
    compressed_slots: Annotated[int, Cores("gtrxl")] = Field(0, ge=0, le=1_000_000)
    """C, compressed rows that are seen beyond `memory_length` (Rae et al. 2019); 0: no such rows."""
    compression_rate: Annotated[int, Cores("gtrxl")] = Field(4, ge=2)
    """c, steps that a row of compressed memory stands for (compressed_slots)."""
    soft_attention: bool = False
    """Attend to the observation's components by the state before the step (lstm; DARQN)."""
    encoder: Annotated[str, OwnOr("default", "dtqn")] = "default"
    """From inputs to features; `dtqn`: the map and the initial weights of DTQN's public code."""
    encoder_layers: int = Field(0, ge=0, le=1000)
    """Layers of a linear map, LayerNorm and ReLU before the previous action is added; 0: one map of both."""
    use_prev_action: bool = True
    """Feed the previous action to the encoder."""
    use_prev_reward: bool = False
    """Feed the previous reward to the encoder."""
    embedding_width: int = Field(8, ge=1, le=1_000_000)
    """Features for each component of a discrete observation, and the previous action if no layers follow."""
    image_encoder: Literal["nature", "minigrid"] = "nature"
    """Reads pictures: Nature's convolutions (Mnih et al. 2015), or for small grids the network that
    MiniGrid's authors give their agents (torch-ac)."""
    dueling: bool = True
    """Split the head into a value and advantages (Wang et al. 2016)."""
    head_width: int = Field(64, ge=0, le=1_000_000)
    """Hidden features of the head; 0: a linear head."""
    distribution: Literal["none", "categorical"] = "none"
    """The head's estimate of a return: its mean, or probabilities of atoms (C51)."""
    num_atoms: int = Field(51, ge=2, le=1_000_000)
    """Atoms from `v_min` to `v_max` (categorical)."""
    v_min: float = -10.0
    """The smallest return an atom stands for, with `reward_scale` and value rescaling (categorical)."""
    v_max: float = 10.0
    """The largest return an atom stands for, with `reward_scale` and value rescaling (categorical)."""
    recall_weight: float = Field(0.0, ge=0)
    """Weight of a loss that asks a core with memory which values the episode has shown; 0: none."""
    kwargs: Mapping[str, Any] = {}
    """Settings of a core's or an encoder's own, for the function that a user has written to make it."""

    @property
    def trace_window(self) -> int | None:
        """W, how many stored trace rows make the core's state; None for a core of the user's own."""
        match self.core:
            case "gtrxl":
                return self.memory_length + self.compressed_slots * self.compression_rate
            case "coberl":
                return max(1, self.memory_length)
            case "dtqn" | "none":
                return 0
        return None if values.is_own(self.core) else 1

    @property
    def auxiliary_loss(self) -> Literal["contrastive", "span", "reconstruction"] | None:
        """The loss that `learner.auxiliary_weight` weighs."""
        match self.core:
            case "coberl":
                return "contrastive"
            case "gtrxl" if self.adaptive_span:
                return "span"
            case "gtrxl" if self.compressed_slots:
                return "reconstruction"
        return None
