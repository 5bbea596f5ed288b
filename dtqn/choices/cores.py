"""The cores that `network.core` names: their settings, what these say of them, and what makes each.

A new core is a class here, a name in `CORES`, and the file with the function that `made_by` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from dtqn.settings.group import Member, Own
from dtqn.settings.values import Choice

COMPRESSION_RATE = 4
"""c, steps that a slot of compressed memory stands for."""


class Core(Member):
    """The memory between encoder and head."""

    rounds: ClassVar[bool] = False
    """Whether it may be computed in bfloat16. Others have scans or numbers that this type does not hold."""
    is_windowed: ClassVar[bool] = False
    """Whether it re-reads a window of raw timesteps at each step, in place of a state."""
    remembers: ClassVar[bool] = True
    """Whether earlier steps change what it gives."""
    reads_parts: ClassVar[bool] = False
    """Whether it may attend to a step's parts."""

    @property
    def memory_window(self) -> int | None:
        """W, the steps whose stored memory makes the core's state; None: the core tells when it is built."""
        if self.is_own:
            return None
        return 1 if self.remembers and not self.is_windowed else 0

    @property
    def reach(self) -> int | None:
        """Steps back beyond which nothing can change its output; None where there is no such limit."""
        return None if self.remembers else 0

    @property
    def auxiliary_loss(self) -> str | None:
        """The loss that `learner.auxiliary_weight` weighs, `module:name`; a class where it has parameters."""
        return None

    def misfits(self, run: Any) -> Iterator[str]:
        width, heads = run.network.width, 1 if self.is_own else getattr(self, "num_heads", 1)
        is_even = getattr(self, "positions", "none") == "sinusoidal"  # sinusoids come in pairs
        if width % heads:
            step = math.lcm(heads, 2) if is_even else heads
            fitting = max(1, round(width / step)) * step
            yield (
                f"network.width is {width}, not a multiple of network.core.num_heads {heads}; try {fitting}"
            )
        elif width % 2 and is_even:
            yield (
                f"network.width is {width}; the sinusoids of positions need an even width; "
                f"try {width + heads}"
            )


class _Layers(Core):
    num_layers: int = Field(2, ge=1, le=1000)
    """L, layers of the core."""


class _MLP(_Layers):
    mlp_width: int = Field(128, ge=1, le=1_000_000)
    """Hidden units of each layer's feed-forward part (MLP)."""


class _Heads(_MLP):
    num_heads: int = Field(2, ge=1, le=1_000_000)
    """H, attention heads per layer; for deltanet, memory matrices per layer (D^2 / H numbers)."""


class _Memory(Core):
    memory_length: int = Field(40, ge=0, le=1_000_000)
    """M, timesteps that each attention layer looks back; RNNs use it only with `initial_weights` chrono."""


class _Gated(_Memory):
    initial_weights: Literal["torch", "chrono", "orthogonal"] = "torch"
    """Initial weights: PyTorch's (torch), gates that forget over 1 to `memory_length` timesteps
    (chrono; torch: 2), or orthogonal state-to-state weights and zero biases, as in Flax (orthogonal)."""

    @property
    def longest(self) -> int | None:
        """The longest time scale of its gates at first; None: torch's own."""
        return self.memory_length if self.initial_weights == "chrono" else None


class _Chrono(_Gated):
    initial_weights: Literal["torch", "chrono"] = "torch"
    """Initial weights: PyTorch's, or gates that forget over 1 to `memory_length` steps (chrono; torch: 2)."""


class _Transformer(_Heads):
    gate: Literal["gru", "output", "input", "highway", "sigtanh", "residual"] = "gru"
    """Gate that joins a sub-module's output to its input (GTrXL, section 3.2); `residual` is a plain sum."""
    gate_bias: float | None = None
    """Initial gate bias b_g; a larger one is closer to the identity map. none: 2 for gru, 1 for others."""
    norm: Literal["pre", "post", "none"] = "pre"
    """LayerNorm before each sub-module (pre, identity map reordering), after its gate (post), or none."""

    def unread_in(self, run: Any) -> Iterator[str]:
        if self.gate in ("input", "residual"):
            yield "gate_bias"


class _Relative(_Transformer, _Memory):
    positions: ClassVar[str] = "sinusoidal"


class GTrXL(_Relative):
    """Gated Transformer-XL (Parisotto et al. 2020)."""

    name: str = "gtrxl"
    made_by = "dtqn.networks.gtrxl:make_core"
    rounds = True

    adaptive_span: bool = False
    """Each head learns how far it looks back, at most `memory_length` (Sukhbaatar et al. 2019)."""
    compressed_slots: int = Field(0, ge=0, le=1_000_000)
    """C, memory slots beyond `memory_length`, each compressing 4 timesteps (Rae et al. 2019); 0: none."""

    def misfits(self, run: Any) -> Iterator[str]:
        yield from super().misfits(run)
        if self.compressed_slots and self.adaptive_span:
            yield (
                f"network.core.compressed_slots is {self.compressed_slots} with network.core.adaptive_span "
                "true: no span reaches beyond memory_length to the slots; try 0, or false"
            )
        if self.compressed_slots and self.memory_length < COMPRESSION_RATE:
            yield (
                f"network.core.memory_length is {self.memory_length} with network.core.compressed_slots "
                f"{self.compressed_slots}: a slot would be read before it is filled; try {COMPRESSION_RATE}"
            )

    @property
    def memory_window(self) -> int | None:
        return self.memory_length + self.compressed_slots * COMPRESSION_RATE

    @property
    def reach(self) -> int | None:
        return None if self.compressed_slots else self.num_layers * self.memory_length

    @property
    def auxiliary_loss(self) -> str | None:
        if self.adaptive_span:
            return "dtqn.networks.auxiliary:span_penalty"
        return "dtqn.networks.auxiliary:reconstruction_loss" if self.compressed_slots else None


class CoBERL(_Relative, _Chrono):
    """GTrXL below an LSTM, with a contrastive loss (Banino et al. 2022)."""

    name: str = "coberl"
    made_by = "dtqn.networks.coberl:make_core"

    @property
    def memory_window(self) -> int | None:
        return max(1, self.memory_length)

    @property
    def auxiliary_loss(self) -> str | None:
        return "dtqn.networks.auxiliary:ContrastiveLoss"


class DTQN(_Transformer):
    """A decoder that re-reads a window of raw timesteps at each step (Esslinger et al. 2022)."""

    name: str = "dtqn"
    made_by = "dtqn.networks.decoder:make_core"
    rounds = True
    is_windowed = True

    context_length: int = Field(50, ge=1, le=1_000_000)
    """K, timesteps in the window that is re-read at each step, the present one included."""
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    """Encoding of a timestep's position in the window, added to its features."""
    share_gates: bool = False
    """Use one pair of gates for all layers, as DTQN's public code does."""
    final_norm: bool = False
    """Apply LayerNorm after the last layer too."""

    def misfits(self, run: Any) -> Iterator[str]:
        yield from super().misfits(run)
        length, learned, before = self.context_length, run.replay.learn_length, run.replay.burn_in_length
        if before + learned != length:
            yield (
                f"replay.learn_length is {learned} and replay.burn_in_length {before}, but their sum must "
                f"be network.core.context_length {length}; try {min(learned, length)} and "
                f"{max(0, length - learned)}"
            )
        if run.learner.n_step > length < run.most_timesteps:
            yield (
                f"learner.n_step is {run.learner.n_step}, above network.core.context_length {length}: "
                f"no window holds all steps that are bootstrapped from; try {length} or less"
            )

    def unread_in(self, run: Any) -> Iterator[str]:
        yield from super().unread_in(run)
        if self.gate == "residual":
            yield "share_gates"

    @property
    def reach(self) -> int | None:
        return self.context_length - 1


class _RNN(_Layers, _Gated):
    skip_connections: bool = False
    """Add each layer's input to its output, for deep cores."""


class LSTM(_RNN):
    """Layers of long short-term memory (Hochreiter and Schmidhuber 1997)."""

    name: str = "lstm"
    made_by = "dtqn.networks.rnn:make_lstm"
    rounds = True
    reads_parts = True

    def unread_in(self, run: Any) -> Iterator[str]:
        if self.num_layers <= run.network.encoder.gives_parts:  # DARQN's layer, the first, has none
            yield "skip_connections"


class GRU(_RNN):
    """Layers of gated recurrent units (Cho et al. 2014)."""

    name: str = "gru"
    made_by = "dtqn.networks.rnn:make_gru"


class MinGRU(_MLP, _Chrono):
    """Layers whose gates do not read the state (Feng et al. 2024)."""

    name: str = "mingru"
    made_by = "dtqn.networks.linear_recurrences:make_mingru"


class LRU(_Layers):
    """Linear recurrent units (Orvieto et al. 2023)."""

    name: str = "lru"
    made_by = "dtqn.networks.linear_recurrences:make_lru"


class DeltaNet(_Heads, _Chrono):
    """Gated DeltaNet, whose state is a matrix (Yang et al. 2024)."""

    name: str = "deltanet"
    made_by = "dtqn.networks.deltanet:make_core"


class Forgetful(Core):
    """No memory (DQN)."""

    name: str = "none"
    made_by = "dtqn.networks.stack:make_none"
    remembers = False


class OwnCore(_Heads, _Memory, Own):
    """A core that a user has written, which may read what many of the suite's have."""

    rounds = True


CORES = Choice(GTrXL, CoBERL, LSTM, GRU, MinGRU, LRU, DeltaNet, DTQN, Forgetful, own=OwnCore)
