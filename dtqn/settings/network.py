"""The settings of a network: encoder, core and head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, SerializeAsAny

from dtqn.choices.cores import CORES, Core, GTrXL
from dtqn.choices.encoders import ENCODERS, Encoder, StepEncoder
from dtqn.choices.predictions import PREDICTIONS, Expectation, Prediction
from dtqn.settings.group import Group


class NetworkConfig(Group):
    """The network: encoder, core and head."""

    core: Annotated[SerializeAsAny[Core], CORES] = GTrXL()
    """The memory between encoder and head: `dtqn` re-reads a window, `none` forgets all (DQN)."""
    width: int = Field(64, ge=2, le=1_000_000)
    """D, features of a step between the layers; a multiple of the core's `num_heads`, even with gtrxl."""
    encoder: Annotated[SerializeAsAny[Encoder], ENCODERS] = StepEncoder()
    """From inputs to features; `dtqn`: as in DTQN's public code; `parts`: one vector a part (DARQN)."""
    dueling: bool = True
    """Split the head into a value and advantages (Wang et al. 2016)."""
    head_width: int = Field(64, ge=0, le=1_000_000)
    """Hidden features of the head; 0: a linear head."""
    distribution: Annotated[SerializeAsAny[Prediction], PREDICTIONS] = Expectation()
    """The head's estimate of a return: its mean, or probabilities of atoms (C51)."""
    recall_weight: float = Field(0.0, ge=0)
    """Weight of a loss that asks a core with memory which values the episode has shown; 0: none."""

    def misfits(self) -> Iterator[str]:
        if why := self.core.width_misfit(self.width):
            yield f"network.width is {self.width}{why}"

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Settings of a core's and an encoder's own, as code from before they were apart reads them."""
        return {**getattr(self.encoder, "kwargs", {}), **getattr(self.core, "kwargs", {})}
