"""One update of the online network from a batch of sequences (R2D2 with a double-Q target).

Each network, online and target, computes the Q-values of the learned steps and of their n-step tail. A
network with a memory starts from the stored one, which its own burn-in freshens without gradient; a
windowed one reads raw timesteps.

Legend: B sequences, A actions; timesteps: P of burn-in, R of the learned segment, W of the memory's window.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from dtqn.choices.learner import Hard, Soft
from dtqn.graphs import Captured
from dtqn.learning import losses
from dtqn.learning.adam import Adam, Flat
from dtqn.learning.batches import (
    MemoryBlock,
    join,
    join_memory,
    next_window,
    same_window,
    split,
    take,
    whole_sequence,
)
from dtqn.learning.objective import Objective
from dtqn.learning.predictions import StepErrors
from dtqn.networks.encoders import NumericEncoder
from dtqn.networks.q_network import QNetwork
from dtqn.networks.recall import RecallingHead
from dtqn.settings.config import LearnerConfig
from dtqn.types import FreshMemory, NonFiniteError, Sequences

MAX_SKIPPED_IN_A_ROW = 10
"""Updates whose loss or gradient is not finite, one after the other, with which training ends."""
_AUXILIARY = 2
"""The key of the auxiliary loss's draws below an update's number."""


class Update(NamedTuple):
    """What an update tells replay and metrics."""

    priorities: Tensor | None
    """[B], or None where the update was skipped."""
    metrics: dict[str, float]
    memory: FreshMemory | None = None
    """Memory of burn-in and learned segment, by the parameters before the update; None unless wanted."""


class Part(NamedTuple):
    """Results of some members of a batch."""

    gradients: list[Tensor]
    sums: dict[str, Tensor]
    """Numbers that add up over the parts of a batch."""
    largest: dict[str, Tensor]
    """Numbers whose largest over the parts is the batch's."""
    priorities: Tensor
    memory: MemoryBlock | None


class Beside(Protocol):
    """Learns a part of a batch while the learner is at another one."""

    def begin(self, batch: Sequences, num_learned: Tensor) -> None:
        """Take a part of a batch that has so many learned steps in all; `result` follows."""

    def result(self) -> Part | None:
        """What `Learner.part` gives, valid until the next `begin`; None: there is none."""


class _Step(NamedTuple):
    """Results that an update leaves on its device. No host has read any of them."""

    numbers: dict[str, Tensor]
    """Scalars, by name."""
    members: list[Tensor]
    """[n] of each part."""
    priorities: list[Tensor]
    """[n] of each part."""
    memory: list[MemoryBlock | None]
    """One of each part."""

    def read(self) -> dict[str, float]:
        """The numbers, in one transfer."""
        values = torch.stack([x.detach().double() for x in self.numbers.values()])
        return dict(zip(self.numbers, values.tolist(), strict=True))


class Learner:
    """Holds the online and target networks and the optimiser; `update` is one learner step."""

    def __init__(
        self,
        network: QNetwork,
        *,
        config: LearnerConfig,
        learn_burn_in: bool,
        want_memory: bool,
        parts: int,
        seed: int,
        capture: Callable[..., Captured] | None = None,
    ) -> None:
        """
        Args:
            network: the online network; its parameters are trained in place.
            learn_burn_in: learn the timesteps of the burn-in as well.
            want_memory: hand back the memory that a forward pass leaves, for replay to keep.
            parts: 1, or 2: a batch is learned in two parts, the second one by `beside` where there is one.
            seed: of the auxiliary loss's draws.
            capture: makes of the update on the device one that is recorded and replayed; None: it runs as
                it is.
        """
        self.config, self._learn_burn_in = config, learn_burn_in
        self._passes = next_window if config.next_window else same_window
        self._auxiliary = network.auxiliary if config.auxiliary_weight else None
        self._seed = seed
        self._parts = parts
        self.beside: Beside | None = None
        self._want_memory = want_memory
        self.objective = Objective(config, network.head.prediction)
        self.online = network
        self._recall = network.head.recall if isinstance(network.head, RecallingHead) else None
        alone = config.target_update.name == "none"
        self.target = network if alone else copy.deepcopy(network).requires_grad_(False)
        """The network that bootstraps; the online one itself where there is no other."""
        named = dict(network.named_parameters())
        self.flat_online = Flat(named.values())
        self.flat_target = self.flat_online if alone else Flat(self.target.parameters())
        self._gradients = [torch.zeros_like(x) for x in self.flat_online.tensors]
        for parameter, gradient in zip(named.values(), self.flat_online.views(self._gradients), strict=True):
            parameter.grad = gradient
        both = [network] if alone else [network, self.target]
        self._rounded = [Rounded(x) for x in both] if config.precision == "bfloat16" else []
        self._runs = [x.network for x in self._rounded] or both
        """The networks that compute an update: the online one first, the target last."""
        self.optimizer = Adam(
            list(named),
            self.flat_online,
            epsilon=config.adam_epsilon,
            rectified=config.optimizer == "radam",
            weight_decay=config.weight_decay,
        )
        self.learner_steps = 0
        self.learning_rate = 0.0
        """The size of the last step; 0 before the first."""
        self.skipped_updates = 0
        self._skipped_in_a_row = 0
        self._run: Callable[[Sequences, float], _Step] = (
            self._step if capture is None else capture(self._step)
        )

    def _refresh(self) -> None:
        for rounded in self._rounded:
            rounded.refresh()

    def learned(self, batch: Sequences) -> Sequences:
        """The batch with all timesteps that are learned in its learned segment."""
        return whole_sequence(batch) if self._learn_burn_in else batch

    def _errors(self, batch: Sequences) -> tuple[StepErrors, dict[str, Tensor] | None]:
        """The errors of a batch's learned steps, and its memory where it is wanted."""
        online, target = self._runs[0], self._runs[-1]
        passes = self._passes(online, target, batch, self._want_memory)
        errors = self.objective.errors(batch, passes.online, passes.target, passes.chooser)
        if self._recall is not None and passes.online.recall is not None:
            recall = self._recall.loss(passes.online.recall, batch)[:, :-1]
            errors = errors._replace(recall=torch.where(errors.mask, recall, 0.0))
        memory = passes.memory
        if memory is not None and self._rounded:
            memory = {name: x.float() for name, x in memory.items()}
        return errors, memory

    def update(self, batch: Sequences, learning_rate_share: float = 1.0) -> Update:
        """One step of the optimiser; skipped and counted where the loss or gradient is not finite.

        `learning_rate_share` of the learning rate is the step size.

        Raises:
            NonFiniteError: so many were skipped in a row (`MAX_SKIPPED_IN_A_ROW`).
        """
        learning_rate = self.config.learning_rate * learning_rate_share
        step = self._run(batch, learning_rate)
        numbers = step.read()
        if not numbers["finite"]:
            return self._skip(numbers["loss"], numbers["grad_norm"])
        self._skipped_in_a_row = 0
        self.learning_rate = learning_rate
        self.learner_steps += 1
        self._copy_target()
        priorities = join(step.priorities, step.members)
        return Update(priorities, _metrics(numbers), join_memory(step.memory, step.members))

    @torch.no_grad()
    def _step(self, batch: Sequences, learning_rate: float | Tensor) -> _Step:
        """The update on the device: where shapes are fixed, nothing in it waits for a number.

        Where loss or gradient are not finite, parameters, moments and target stay as they are.
        """
        self._refresh()
        batch = self.learned(batch)
        whole = torch.arange(len(batch.learn_timesteps), device=batch.learn_timesteps.device)
        members = [whole] if self._parts == 1 else split(batch, self.online.packs)
        num_learned = batch.learned_steps.sum()

        parts = self._learned_parts([take(batch, part) for part in members], num_learned)
        gradients = parts[0].gradients
        for part in parts[1:]:
            torch._foreach_add_(gradients, part.gradients)
        sums = {
            name: functools.reduce(torch.add, (part.sums[name] for part in parts)) for name in parts[0].sums
        }
        highest = {
            name: torch.stack([part.largest[name] for part in parts]).amax() for name in parts[0].largest
        }
        numbers = sums | highest | self._add_auxiliary(batch, gradients)
        norm = nn.utils.get_total_norm(gradients)
        finite = norm.isfinite() & numbers["loss"].isfinite()
        torch._foreach_copy_(self._gradients, gradients)
        most = self.config.max_grad_norm
        # As torch's clipping, without a host that waits for the norm.
        clipped = torch.where(norm > most, most / (norm.double() + 1e-6), 1.0)
        torch._foreach_mul_(self._gradients, clipped.to(norm.dtype))
        self.optimizer.step(self._gradients, learning_rate, finite)
        self._average_target(finite)
        numbers |= {"finite": finite, "grad_norm": norm, "num_learned": num_learned}
        return _Step(numbers, members, [part.priorities for part in parts], [part.memory for part in parts])

    def _learned_parts(self, batches: list[Sequences], num_learned: Tensor) -> list[Part]:
        """The results of a batch's parts. A second process, if there is one, computes the second part."""
        if self.beside is None or len(batches) == 1:
            return [self._gradient(part, num_learned) for part in batches]
        first, second = batches
        self.beside.begin(second, num_learned)
        learned = self._gradient(first, num_learned)
        return [learned, self.beside.result() or self._gradient(second, num_learned)]

    def part(self, batch: Sequences, num_learned: Tensor) -> Part:
        """The results of a part of a batch, which has `num_learned` steps in all, by its parameters."""
        self._refresh()
        return self._gradient(batch, num_learned)

    @torch.enable_grad()
    def _add_auxiliary(self, batch: Sequences, gradients: list[Tensor]) -> dict[str, Tensor]:
        """Adds the gradient of the auxiliary loss, of the whole batch, to `gradients` in place."""
        if self._auxiliary is None:
            return {}
        loss = self._auxiliary(self.online, batch, self._generator(batch.learn_timesteps.device))
        weighted = self.config.auxiliary_weight * loss
        torch._foreach_add_(gradients, self._gradient_of(weighted, self.online))
        return {"auxiliary_loss": loss.detach()}

    def _generator(self, device: torch.device) -> torch.Generator:
        """This update's random draws, the same whatever ran before it or runs meanwhile."""
        key = self.learner_steps + self.skipped_updates, _AUXILIARY
        seed = np.random.SeedSequence(self._seed, spawn_key=key).generate_state(1, np.uint64)
        return torch.Generator(device).manual_seed(int(seed[0]))

    @torch.enable_grad()
    def _gradient(self, batch: Sequences, num_learned: Tensor) -> Part:
        """One part's share of the loss and of its gradient."""
        errors, memory = self._errors(batch)

        def weighted(loss: Tensor) -> Tensor:
            return losses.weighted_loss(loss, batch.importance_weights) / num_learned

        total = weighted(errors.loss)
        sums = {"loss": total.detach()}
        if self._recall is not None and errors.recall is not None:
            recall = weighted(errors.recall)
            sums["recall_loss"] = recall.detach()
            total = total + self._recall.weight * recall
        gradients = self._gradient_of(total, self._runs[0])
        with torch.no_grad():
            mask, td_error, q, target = errors.mask, errors.td_error, errors.q_taken, errors.target
            priorities = losses.sequence_priority(td_error, mask)
            sums |= {name: torch.where(mask, x, 0.0).sum() for name, x in (("td", td_error.abs()), ("q", q))}
            if errors.traces is not None:
                sums |= errors.traces._asdict()
            high = {"q_max": q, "minus_q_min": -q, "target_max": target, "minus_target_min": -target}
            high = {name: torch.where(mask, x, -math.inf).amax() for name, x in high.items()}
            high["minus_importance_weight_min"] = -batch.importance_weights.min()
        fresh = None if memory is None else MemoryBlock.of(batch, memory)
        return Part(gradients, sums, high, priorities, fresh)

    def _gradient_of(self, loss: Tensor, network: QNetwork) -> list[Tensor]:
        """The gradient by the online network's parameters, or its rounded copy's, joined as the former are.

        A user's frozen parameters get 0, so Adam's steps leave them as they are.
        """
        parameters = list(network.parameters())
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        found = iter(torch.autograd.grad(loss, learning, materialize_grads=True))
        return self.flat_online.join(
            [next(found) if x.requires_grad else torch.zeros_like(x) for x in parameters]
        )

    def _skip(self, loss: float, norm: float) -> Update:
        self.skipped_updates += 1
        self._skipped_in_a_row += 1
        if self._skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise NonFiniteError(
                f"{self._skipped_in_a_row} updates in a row were not finite "
                f"(loss {loss}, gradient norm {norm}) at learner step {self.learner_steps}; "
                "a smaller learner.learning_rate or learner.reward_scale may help, or smaller observations, "
                "of -1 to 1 or so"
            )
        return Update(None, {})

    def _average_target(self, finite: Tensor) -> None:
        """The soft update of the target network, where the update was `finite`."""
        if isinstance(self.config.target_update, Soft):
            # A rate of 0 in place of a branch, which would wait for the number.
            rate = self.config.target_update.rate * finite
            for target, online in zip(self.flat_target.tensors, self.flat_online.tensors, strict=True):
                target.lerp_(online, rate.to(target.dtype))

    @torch.no_grad()
    def _copy_target(self) -> None:
        """The hard update of the target network, where it is due."""
        update = self.config.target_update
        if isinstance(update, Hard) and self.learner_steps % update.period == 0:
            torch._foreach_copy_(self.flat_target.tensors, self.flat_online.tensors)

    def get_state(self) -> dict[str, Any]:
        """All that `set_state` needs to go on bit for bit."""
        return {
            "online": self.online.state_dict(),
            "target": self.target.state_dict(),
            "optimizer": self.optimizer.get_state(),
            "learner_steps": self.learner_steps,
            "learning_rate": self.learning_rate,
            "skipped_updates": self.skipped_updates,
            "skipped_in_a_row": self._skipped_in_a_row,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        self.online.load_state_dict(state["online"])
        self.target.load_state_dict(state["target"])
        self.optimizer.set_state(state["optimizer"])
        self.learner_steps = state["learner_steps"]
        self.learning_rate = state.get("learning_rate", 0.0)  # earlier checkpoints lack it
        self.skipped_updates = state["skipped_updates"]
        self._skipped_in_a_row = state["skipped_in_a_row"]


def _metrics(numbers: dict[str, float]) -> dict[str, float]:
    """The row of an update's numbers."""
    count = numbers["num_learned"]
    metrics = {
        "learner/loss": numbers["loss"],
        "learner/td_error": numbers["td"] / count,
        "learner/q_mean": numbers["q"] / count,
        "learner/q_max": numbers["q_max"],
        "learner/q_min": -numbers["minus_q_min"],
        "learner/target_max": numbers["target_max"],
        "learner/target_min": -numbers["minus_target_min"],
        "learner/grad_norm": numbers["grad_norm"],
        "replay/importance_weight_min": -numbers["minus_importance_weight_min"],
        "replay/learned_steps_per_update": count,
    }
    for name in ("auxiliary_loss", "recall_loss"):
        if name in numbers:
            metrics[f"learner/{name}"] = numbers[name]
    if "length" in numbers:
        metrics |= {
            "learner/trace_length": numbers["length"] / count,
            "learner/trace_cut_share": numbers["cut"] / max(1.0, numbers["actions"]),
            "learner/trace_cut_greedy_share": numbers["greedy_cut"] / max(1.0, numbers["greedy"]),
        }
    return metrics


def _in_float32(head: nn.Module, features: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.float() for x in features)


class Rounded:
    """A copy of a network with encoder and core in bfloat16, for the passes of an update.

    Mixed precision (Micikevicius et al. 2018, arXiv 1710.03740) with the type of Kalamkar et al. 2019 (arXiv
    1905.12322), which has the range of float32, so no loss has to be scaled. The head, losses, sums of
    gradients, Adam and the target network's average stay in float32: what Q-values are made of is rounded,
    Q-values are not.
    """

    network: Any
    """A Q-network, as the one it is made of."""

    def __init__(self, network: Any) -> None:
        self._source = network
        self.network = copy.deepcopy(network)
        for name, part in self.network.named_children():
            if name != "head":
                part.to(torch.bfloat16)
        for part in self.network.modules():
            if isinstance(part, NumericEncoder) and part.normalise:  # a mean of 1000 leaves no room for 1
                part.mean.data, part.factor.data = part.mean.data.float(), part.factor.data.float()
        self.network.head.register_forward_pre_hook(_in_float32)
        self._copies = [x.detach() for x in self.network.parameters()]

    def refresh(self) -> None:
        """Take over the parameters of the network that this is a copy of."""
        torch._foreach_copy_(self._copies, [x.detach() for x in self._source.parameters()])
