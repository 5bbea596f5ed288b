"""The encoders that `network.encoder` names: their settings and what makes each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from dtqn.settings.group import Member, Own
from dtqn.settings.values import Choice


class Encoder(Member):
    """The map from a step's inputs to features."""

    gives_parts: ClassVar[bool] = False
    """Whether a step's features are of its parts, for a core that attends to them."""
    initialised_by: ClassVar[str | None] = None
    """The function that draws the initial values of the whole network's modules, `module:name`."""

    use_prev_action: bool = True
    """Feed the previous action to the encoder."""


class _Rewarded(Encoder):
    use_prev_reward: bool = False
    """Feed the previous reward to the encoder."""


class _Embedding(Encoder):
    embedding_width: int = Field(8, ge=1, le=1_000_000)
    """Features for each discrete observation component, and for the previous action if `num_layers` is 0."""


class _Pictures(Encoder):
    image_encoder: Literal["nature", "minigrid"] = "nature"
    """Network that reads pictures: DQN's convolutions (nature, Mnih et al. 2015), or a small one for
    grids of few cells (minigrid, torch-ac)."""


class _Numbers(Encoder):
    normalise: bool = False
    """Standardise real-valued observations by mean and deviation over 10 000 random env steps."""


class StepEncoder(_Rewarded, _Embedding, _Pictures, _Numbers):
    """Embeddings, numbers and pictures, joined."""

    name: str = "default"
    made_by = "dtqn.networks.encoders:StepEncoder"

    num_layers: int = Field(0, ge=0, le=1000)
    """Layers (linear map, LayerNorm, ReLU) before the previous action is added; 0: one linear map."""


class DTQNEncoder(_Embedding):
    """The map and the initial values of DTQN's public code."""

    name: str = "dtqn"
    made_by = "dtqn.networks.dtqn_encoder:DTQNEncoder"
    initialised_by = "dtqn.networks.dtqn_encoder:initialise_as_dtqn"

    def misfits(self, run: Any) -> Iterator[str]:
        if (weights := getattr(run.network.core, "initial_weights", "torch")) != "torch":
            yield (
                f"network.core.initial_weights is {weights}, but network.encoder is dtqn, which sets "
                "initial weights of its own; try torch"
            )


class PartsEncoder(_Rewarded, _Pictures, _Numbers):
    """The parts of the observation, to which the core attends by its state before the step (DARQN)."""

    name: str = "parts"
    made_by = "dtqn.networks.darqn:PartsEncoder"
    gives_parts = True

    def misfits(self, run: Any) -> Iterator[str]:
        if not run.network.core.reads_parts:
            yield (
                f"network.encoder is parts with network.core {run.network.core.name}, which cannot attend "
                "to parts; try network.core lstm, or network.encoder default"
            )


class OwnEncoder(StepEncoder, Own):
    """An encoder that a user has written, which may read what the suite's have."""

    name: str
    made_by = ""


ENCODERS = Choice(StepEncoder, DTQNEncoder, PartsEncoder, own=OwnEncoder)
