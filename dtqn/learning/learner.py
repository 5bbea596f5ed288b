"""One update of the online network from a batch of sequences (R2D2 with a double-Q target).

Each network, online and target, computes the Q-values of the learned steps and of their n-step tail. A
network with a trace starts from the stored memory, which its own burn-in freshens without gradient; a
windowed one reads raw rows.

Legend: B sequences, P burn-in rows, R rows of the learn block, W trace window, A actions.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dtqn.learning import losses
from dtqn.learning.adam import Adam
from dtqn.learning.batches import Reading, fresh_rows, join, join_traces, split, take
from dtqn.learning.flat import Flat
from dtqn.learning.objective import Objective, StepErrors
from dtqn.learning.precision import Rounded
from dtqn.learning.returns import Traces
from dtqn.networks.q_network import QNetwork
from dtqn.networks.recall import RecallingHead
from dtqn.settings.config import LearnerConfig
from dtqn.types import FreshTrace, NonFiniteError, SequenceGenerator, Sequences

MAX_SKIPPED_IN_A_ROW = 10
_DROPOUT, _AUXILIARY = 0, 2
"""The draws of an update, by their key below its number."""


class AuxiliaryLoss(NamedTuple):
    """A loss beside that of the TD errors, of the online network on the whole batch."""

    loss: Callable[[Any, Sequences, torch.Generator], Tensor]
    """(network, batch, generator of its draws) -> scalar"""
    weight: float


class Update(NamedTuple):
    priorities: Tensor | None
    """[B], or None where the update was skipped."""
    metrics: dict[str, float]
    trace: FreshTrace | None = None
    """That of burn-in and learned rows, by the parameters before the update; where it is wanted."""


class _Part(NamedTuple):
    gradients: list[Tensor]
    loss: Tensor
    recall: Tensor
    """The loss of recall, unweighted; 0 without one."""
    priorities: Tensor
    learned: tuple[Tensor, Tensor, Tensor]
    """TD error, Q(s_t, a_t) and target of the learned steps, [n] each."""
    traces: Traces | None
    trace: FreshTrace | None


class Learner:
    """Holds the online and target networks and the optimiser; `update` is one learner step."""

    def __init__(
        self,
        network: QNetwork,
        *,
        config: LearnerConfig,
        reading: Reading,
        auxiliary: AuxiliaryLoss | None,
        max_priority_weight: float,
        want_trace: bool,
        threads: int,
        seed: int,
    ) -> None:
        """
        Args:
            network: the online network; its parameters are trained in place.
            reading: what of a batch is learned, and the passes that its values come from.
            auxiliary: a loss to add to that of the TD errors.
            max_priority_weight: eta of a sequence's priority.
            want_trace: hand back the trace that a forward pass leaves, for replay to keep.
            threads: run the two parts of a batch side by side where it is above 1.
            seed: of dropout and of the auxiliary loss's draws.
        """
        self.config, self.reading = config, reading
        self._auxiliary = auxiliary
        self._seed = seed
        self._threads = threads
        self._map: Callable[..., Iterable[_Part]] = map
        if threads > 1:
            self._map = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)).map
        self.max_priority_weight = max_priority_weight
        self._want_trace = want_trace
        self.objective = Objective(config, network.head.prediction)
        self.online = network
        self._recall = network.head.recall if isinstance(network.head, RecallingHead) else None
        alone = config.target_update == "none"
        self.target = network if alone else copy.deepcopy(network).requires_grad_(False)
        """The network that bootstraps; the online one itself where there is no other."""
        named = dict(network.named_parameters())
        self._online = Flat(named.values())
        self._target = self._online if alone else Flat(self.target.parameters())
        self._gradients = [torch.zeros_like(x) for x in self._online.tensors]
        for parameter, gradient in zip(named.values(), self._online.views(self._gradients), strict=True):
            parameter.grad = gradient
        both = [network] if alone else [network, self.target]
        self._rounded = [Rounded(x) for x in both] if config.precision == "bfloat16" else []
        self._runs = [x.network for x in self._rounded] or both
        """What computes an update: the online network first, the target last."""
        self.optimizer = Adam(
            list(named), self._online, epsilon=config.adam_epsilon, rectified=config.optimizer == "radam"
        )
        self.learner_steps = 0
        self.skipped_updates = 0
        self._skipped_in_a_row = 0

    def td_errors(self, batch: Sequences) -> StepErrors:
        """delta_t = y_t - Q_online(s_t, a_t) and what belongs to it, with gradient in Q_online."""
        self._refresh()
        return self._errors(self.reading.learned(batch), None)[0]

    def _refresh(self) -> None:
        for rounded in self._rounded:
            rounded.refresh()

    def _errors(
        self, batch: Sequences, generator: SequenceGenerator | None
    ) -> tuple[StepErrors, dict[str, Tensor] | None]:
        """The errors of a batch's learned rows, and its trace where it is wanted."""
        online, target = self._runs[0], self._runs[-1]
        passes = self.reading.passes(online, target, batch, generator, self._want_trace)
        errors = self.objective.errors(batch, passes.online, passes.target, passes.chooser)
        if self._recall is not None and passes.online.recall is not None:
            recall = self._recall.loss(passes.online.recall, batch)[:, :-1]
            errors = errors._replace(recall=torch.where(errors.mask, recall, 0.0))
        trace = passes.trace
        if trace is not None and self._rounded:
            trace = {name: x.float() for name, x in trace.items()}
        return errors, trace

    def update(self, batch: Sequences, learning_rate_share: float = 1.0) -> Update:
        """One step of the optimiser; skipped, counted and told where the loss or gradient is not finite.

        `learning_rate_share` of the learning rate is the step size.
        """
        batch = self.reading.learned(batch)
        self._refresh()
        config, members = self.config, self._parts(batch)
        num_learned = batch.learned_steps.sum()
        generator = self._sequence_generator(batch)

        def of_part(part: Tensor) -> _Part:
            return self._gradient(take(batch, part), num_learned, generator.take(part))

        parts = list(self._map(of_part, members))
        gradients = parts[0].gradients
        for part in parts[1:]:
            torch._foreach_add_(gradients, part.gradients)
        auxiliary = self._add_auxiliary(batch, gradients)
        loss = float(sum(part.loss for part in parts))
        norm = float(nn.utils.get_total_norm(gradients))
        if not (math.isfinite(norm) and math.isfinite(loss)):
            return self._skip(loss, norm)
        self._skipped_in_a_row = 0
        torch._foreach_copy_(self._gradients, gradients)
        if norm > config.max_grad_norm:
            torch._foreach_mul_(self._gradients, config.max_grad_norm / (norm + 1e-6))
        self.optimizer.step(self._gradients, config.learning_rate * learning_rate_share)
        self.learner_steps += 1
        self._update_target()
        priorities = join([part.priorities for part in parts], members)
        td_error, q, target = (
            torch.cat(values) for values in zip(*(part.learned for part in parts), strict=True)
        )
        metrics = {
            "learner/loss": loss,
            "learner/td_error": float(td_error.abs().mean()),
            "learner/q_mean": float(q.mean()),
            "learner/q_max": float(q.max()),
            "learner/q_min": float(q.min()),
            "learner/target_max": float(target.max()),
            "learner/target_min": float(target.min()),
            "learner/grad_norm": norm,
            "replay/importance_weight_min": float(batch.importance_weights.min()),
            "replay/learned_steps_per_update": float(num_learned),
        } | auxiliary
        if self._recall is not None:
            metrics["learner/recall_loss"] = float(sum(part.recall for part in parts))
        if traces := [part.traces for part in parts if part.traces is not None]:
            metrics |= _trace_metrics(traces, float(num_learned))
        return Update(priorities, metrics, join_traces([part.trace for part in parts], members))

    def _parts(self, batch: Sequences) -> list[Tensor]:
        """The members [n] of each part of the batch."""
        if self._rounded and self._threads == 1:
            # Parts have a new shape each time, and each shape of a product in bfloat16 is prepared for long.
            return [torch.arange(len(batch.learn_rows), device=batch.learn_rows.device)]
        return split(batch, side_by_side=self._threads > 1)

    def _add_auxiliary(self, batch: Sequences, gradients: list[Tensor]) -> dict[str, float]:
        """Adds the gradient of the auxiliary loss, of the whole batch, to `gradients` in place."""
        if self._auxiliary is None:
            return {}
        (seed,) = self._seeds(_AUXILIARY, 1)
        generator = torch.Generator(batch.learn_rows.device).manual_seed(int(seed))
        loss = self._auxiliary.loss(self.online, batch, generator)
        weighted = self._auxiliary.weight * loss
        torch._foreach_add_(gradients, self._gradient_of(weighted, self.online))
        return {"learner/auxiliary_loss": float(loss.detach())}

    def _sequence_generator(self, batch: Sequences) -> SequenceGenerator:
        """The draws of each sequence: a function of the update and of its place in the batch alone."""
        rows = int((batch.burn_in_rows + batch.learn_rows).max())
        return SequenceGenerator(self._seeds(_DROPOUT, len(batch.learn_rows)), rows, batch.learn_rows.device)

    def _seeds(self, key: int, count: int) -> np.ndarray:
        """[count] of this update, whatever ran before or runs beside it."""
        update = self.learner_steps + self.skipped_updates
        return np.random.SeedSequence(self._seed, spawn_key=(update, key)).generate_state(count, np.uint64)

    def _gradient(self, batch: Sequences, num_learned: Tensor, generator: SequenceGenerator) -> _Part:
        """One part's share of the loss and of its gradient."""
        errors, trace = self._errors(batch, generator)

        def weighted(loss: Tensor) -> Tensor:
            return losses.weighted_loss(loss, batch.importance_weights) / num_learned

        loss = total = weighted(errors.loss)
        recall = torch.zeros_like(loss)
        if self._recall is not None and errors.recall is not None:
            recall = weighted(errors.recall)
            total = loss + self._recall.weight * recall
        gradients = self._gradient_of(total, self._runs[0])
        with torch.no_grad():
            mask = errors.mask
            priorities = losses.sequence_priority(errors.td_error, mask, self.max_priority_weight)
            learned = (errors.td_error[mask], errors.q_taken[mask], errors.target[mask])
        fresh = None if trace is None else fresh_rows(batch, trace)
        return _Part(gradients, loss.detach(), recall.detach(), priorities, learned, errors.traces, fresh)

    def _gradient_of(self, loss: Tensor, network: QNetwork) -> list[Tensor]:
        """By the parameters of the online network or of its rounded copy, joined as the former are."""
        parameters = list(network.parameters())
        return self._online.join(torch.autograd.grad(loss, parameters, materialize_grads=True))

    def _skip(self, loss: float, norm: float) -> Update:
        self.skipped_updates += 1
        self._skipped_in_a_row += 1
        if self._skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise NonFiniteError(
                f"{self._skipped_in_a_row} updates in a row were not finite "
                f"(loss {loss}, gradient norm {norm}) at learner step {self.learner_steps}; "
                "a smaller learner.learning_rate may help"
            )
        return Update(None, {})

    @torch.no_grad()
    def _update_target(self) -> None:
        if self.config.target_update == "soft":
            torch._foreach_lerp_(self._target.tensors, self._online.tensors, self.config.target_ema_rate)
        elif (
            self.config.target_update == "hard" and self.learner_steps % self.config.target_update_period == 0
        ):
            torch._foreach_copy_(self._target.tensors, self._online.tensors)

    def get_state(self) -> dict[str, Any]:
        return {
            "online": self.online.state_dict(),
            "target": self.target.state_dict(),
            "optimizer": self.optimizer.get_state(),
            "learner_steps": self.learner_steps,
            "skipped_updates": self.skipped_updates,
            "skipped_in_a_row": self._skipped_in_a_row,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.online.load_state_dict(state["online"])
        self.target.load_state_dict(state["target"])
        self.optimizer.set_state(state["optimizer"])
        self.learner_steps = state["learner_steps"]
        self.skipped_updates = state["skipped_updates"]
        self._skipped_in_a_row = state["skipped_in_a_row"]


def _trace_metrics(of_parts: list[Traces], num_learned: float) -> dict[str, float]:
    length, actions, cut, greedy, greedy_cut = (float(sum(x)) for x in zip(*of_parts, strict=True))
    return {
        "learner/trace_length": length / num_learned,
        "learner/trace_cut_share": cut / max(1.0, actions),
        "learner/trace_cut_greedy_share": greedy_cut / max(1.0, greedy),
    }
