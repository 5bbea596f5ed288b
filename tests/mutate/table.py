"""The breaks: a wrong expression in place of a right one, and the tests that must fail then.

A name is `<subject>-<what is wrong>`; tests are as narrow as they can be. `places` says how symbols,
expressions and tests are found.
"""

from __future__ import annotations

from typing import NamedTuple


class Break(NamedTuple):
    name: str
    symbol: str
    """Qualified name of the function, class or value that has the expression."""
    old: str
    """Expression or statement that the symbol has exactly once."""
    new: str
    test: str
    """That must notice."""


def _in(symbol: str, test: str, *rows: tuple[str, str, str]) -> list[Break]:
    """Breaks of one symbol that one test must notice, from (name, old, new)."""
    return [Break(name, symbol, old, new, test) for name, old, new in rows]


LEARNING = [
    *_in(
        "traces",
        "test_the_length_of_a_trace_by_hand",
        (
            "trace-of-the-row-itself",
            "_backwards(torch.ones_like(kept), kept)[:, 1:]",
            "_backwards(torch.ones_like(kept), kept)[:, :-1]",
        ),
    ),
    *_in(
        "bootstrap_rows",
        "test_returns",
        ("n-step-one-row-further", "step + n_step", "step + n_step + 1"),
        ("n-step-beyond-the-last-row", "learn_rows[:, None] - 1", "learn_rows[:, None]"),
    ),
    *_in(
        "n_step_targets",
        "test_returns",
        ("bootstrap-discounted-once", "gamma ** steps.to(value.dtype)", "gamma"),
        ("reward-discounted-once-more", "k - 1", "k"),
        ("termination-bootstraps", "discount > 0", "discount > -1"),
    ),
    *_in("signed_hyperbolic", "test_returns", ("rescaling-without-its-line", "epsilon * x", "0.0")),
    *_in(
        "double_q_value",
        "test_returns",
        ("double-q-takes-the-least", "q_selector.argmax", "q_selector.argmin"),
    ),
    *_in(
        "lambda_targets",
        "test_returns",
        ("lambda-mixes-nothing", "(1 - kept) * value", "value"),
        ("lambda-reads-beyond-the-end", "learn_rows - 1", "learn_rows"),
    ),
    *_in("huber_loss", "test_losses", ("huber-jumps", "0.5 * threshold", "threshold")),
    *_in("quantile_loss", "test_losses", ("quantiles-mirrored", "error < 0", "error > 0")),
    *_in(
        "_scattered",
        "test_losses",
        ("projection-swaps-neighbours", "mass * share", "mass * (1 - share)"),
    ),
    *_in(
        "sequence_priority",
        "test_losses",
        ("priority-mean-for-max", "max_weight * size.amax(dim=1)", "max_weight * mean"),
        ("priority-mean-counts-padding", "size.sum(dim=1) / mask.sum(dim=1)", "size.mean(dim=1)"),
    ),
    *_in(
        "weighted_loss",
        "test_losses",
        ("importance-weights-unread", "weights[:, None] * loss", "loss"),
    ),
    *_in(
        "Objective.errors",
        "test_learner::test_twin",
        ("argmax-of-the-wrong-network", "chooser if config.double_q else target", "target"),
        ("action-of-the-row-before", "batch.learn.prev_action[:, 1:]", "batch.learn.prev_action[:, :-1]"),
        ("one-step-too-many-learned", "batch.learned_steps", "batch.learned_steps + 1"),
    ),
    *_in(
        "Objective._reward",
        "test_rewards_are_scaled_in_the_loss_only",
        ("reward-unscaled", "reward * self.config.reward_scale", "reward"),
    ),
    *_in(
        "Objective._following",
        "test_objective",
        ("watkins-is-peng", "torch.where(near, continuation, 0.0)", "continuation"),
    ),
    *_in(
        "Following.distributions",
        "test_objective",
        ("atoms-of-the-next-row", "returns.at_rows(probabilities, rows)", "probabilities[:, 1:]"),
    ),
    *_in(
        "Objective._reward",
        "test_learner::test_twin",
        ("no-reward-for-novelty", "scaled + weight * is_novel - cost", "scaled"),
    ),
    *_in(
        "Objective.first_td_errors",
        "test_first_priorities_are_the_learners",
        ("first-priority-of-raw-rewards", "reward = self._reward(reward, novel, novel_share)", "pass"),
    ),
    *_in(
        "Learner.__init__",
        "test_learner::test_twin",
        ("target-is-the-online-network", "copy.deepcopy(network).requires_grad_(False)", "network"),
    ),
    *_in("Learner._step", "test_learner::test_twin", ("gradient-unclipped", "norm > most", "norm > 1e9")),
    *_in(
        "Learner._average_target",
        "test_learner::test_twin",
        ("target-moves-almost-whole", "self.config.target_ema_rate", "1 - self.config.target_ema_rate"),
    ),
    *_in(
        "Learner._copy_target",
        "test_learner::test_twin",
        (
            "target-copied-late",
            "self.learner_steps % self.config.target_update_period == 0",
            "self.learner_steps % self.config.target_update_period == 1",
        ),
    ),
    *_in(
        "Learner._step",
        "test_a_non_finite_gradient_is_skipped_too",
        (
            "wrong-gradients-stepped-by",
            "self.optimizer.step(self._gradients, learning_rate, finite)",
            "self.optimizer.step(self._gradients, learning_rate, finite | True)",
        ),
    ),
    *_in(
        "Learner._gradient.weighted",
        "test_learner::test_twin",
        ("loss-by-sequences", "num_learned", "len(batch.learn_rows)"),
    ),
    *_in(
        "Learner._skip",
        "test_ten_in_a_row_raise",
        (
            "skips-in-a-row-unending",
            "self._skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW",
            "self._skipped_in_a_row > MAX_SKIPPED_IN_A_ROW",
        ),
    ),
    *_in(
        "Learner.set_state",
        "test_a_run_that_goes_on_at_any_tick_logs_the_same_rows",
        ("step-size-forgotten", "state.get('learning_rate', 0.0)", "0.0"),
    ),
    *_in(
        "whole_sequence",
        "test_a_whole_sequence_joins_real_rows",
        ("greedy-actions-of-burn-in-forgotten", "joined_flags(batch.acted_greedily)", "None"),
    ),
    *_in(
        "next_window",
        "test_without_a_target_network_the_first_row_is_of_the_first_window",
        (
            "first-row-of-the-next-window",
            "Outputs(output, chooser, chooser, trace)",
            "Outputs(output, *[online.learn_values(later)[0]] * 2, trace)",
        ),
    ),
    *_in(
        "Padded.__call__",
        "test_fixed_shapes",
        ("padding-counts-as-memory", "held.trace_valid.fill_(False)", "pass"),
    ),
    *_in(
        "discrepancy",
        "test_discrepancy",
        ("delta-q-without-burn-in", "batch.episode_step + batch.burn_in_rows", "batch.episode_step"),
    ),
]

NETWORKS = [
    *_in(
        "GTrXL._distances",
        "test_contract",
        ("memory-shorter-by-one", "self.memory_length", "self.memory_length - 1"),
        ("newest-memory-hidden", "distance > held[..., None]", "distance >= held[..., None]"),
        ("empty-memory-seen", "held[..., None]", "1 + held[..., None]"),
    ),
    *_in(
        "GTrXL.forward",
        "test_gradient_does_not_enter_the_state_but_its_projections_learn",
        ("gradient-enters-the-state", "state.memory.detach()", "state.memory"),
    ),
    *_in(
        "GTrXL.state_from_trace",
        "test_contract",
        ("invalid-trace-rows-count", "valid.sum(dim=1)", "valid.sum(dim=1) * 0 + valid.shape[1]"),
    ),
    *_in("GTrXL.cache", "test_contract", ("stale-cache-kept", "recent[:, :, i]", "recent[:, :, 0]")),
    *_in(
        "sinusoid",
        "test_gtrxl::test_twin",
        (
            "positions-shifted",
            "torch.arange(first, first + length, dtype=torch.float64)",
            "torch.arange(first + 1, first + length + 1, dtype=torch.float64)",
        ),
    ),
    *_in(
        "_GRUGate.forward",
        "test_gates",
        ("gru-gate-swapped", "torch.lerp(x, h, z)", "torch.lerp(h, x, z)"),
    ),
    *_in(
        "GATE_BIAS",
        "test_gates",
        (
            "gate-open-at-first",
            "{'gru': 2.0, 'output': 1.0, 'highway': 1.0, 'sigtanh': 1.0, 'input': None, 'residual': None}",
            "dict.fromkeys(['gru', 'output', 'highway', 'sigtanh', 'input', 'residual'], 0.0)",
        ),
    ),
    *_in(
        "GTrXL._make_packed_call",
        "test_packed_rows_are_padded_ones",
        ("padding-of-a-burn-in-seen", "memory.counts + burn_in.counts", "memory.counts"),
    ),
    *_in(
        "LSTMLayer._gates_of_cells",
        "test_any_split_into_calls_is_the_same_function",
        ("cells-by-the-output-gate", "weights[:-of_output]", "weights[of_output:]"),
    ),
    *_in(
        "WindowedQNetwork.__init__",
        "test_contract",
        ("window-shorter-by-one", "self.context_length - 1", "self.context_length - 2"),
    ),
    *_in(
        "learn_in_windows",
        "test_windowed",
        ("second-window-one-row-early", "total - size", "total - size - 1"),
    ),
    *_in("Shown.forward", "test_recall", ("recall-of-padding", "shown & real[..., None]", "shown")),
]

REPLAY = [
    *_in(
        "Accumulator.append",
        "test_accumulator",
        ("anchor-a-row-late", "self._layout.max_learn_rows - 1", "self._layout.max_learn_rows"),
        ("anchors-by-length-not-period", "self._layout.sequence_period", "self._layout.learn_length"),
        ("episode-left-open", "~last", "True"),
    ),
    *_in(
        "Accumulator._tail",
        "test_accumulator",
        ("anchor-on-the-last-row", "steps < transitions[:, None]", "steps <= transitions[:, None]"),
        ("tail-short-by-a-row", "transitions[:, None] - steps + 1", "transitions[:, None] - steps"),
    ),
    *_in(
        "Accumulator.end_sequences",
        "test_accumulator",
        (
            "next-sequence-a-row-late",
            "self._origin[streams] = last_rows",
            "self._origin[streams] = last_rows + 1",
        ),
    ),
    *_in(
        "SumTree.find",
        "test_sum_tree",
        (
            "tree-finds-the-leaf-before",
            "np.searchsorted(before, mass, side='right')",
            "np.searchsorted(before, mass, side='left')",
        ),
    ),
    *_in(
        "SumTree.set",
        "test_sum_tree",
        (
            "tree-drifts",
            "self._top[block] = _children(self._nodes, block).sum(axis=1)",
            "self._top[block] += _children(self._nodes, block).sum(axis=1)",
        ),
    ),
    *_in(
        "ProportionalSampler.update",
        "test_samplers",
        (
            "priority-without-exponent",
            "priorities.astype(np.float64) ** self.priority_exponent",
            "priorities.astype(np.float64)",
        ),
        (
            "largest-priority-forgotten",
            "max(self.max_priority, float(priorities.max()))",
            "float(priorities.max())",
        ),
    ),
    *_in(
        "ProportionalSampler.insert",
        "test_a_new_sequence_has_the_power_of_the_running_maximum_too",
        ("newcomer-without-exponent", "self.max_priority ** self.priority_exponent", "self.max_priority"),
    ),
    *_in(
        "ProportionalSampler",
        "test_samplers::test_weights_by_hand",
        ("weights-turned", "-self.importance_sampling_exponent", "self.importance_sampling_exponent"),
    ),
    *_in(
        "ProportionalSampler.sample",
        "test_samplers::test_weights_by_hand",
        ("weights-not-relative", "weights / weights.max()", "weights"),
    ),
    *_in(
        "ProportionalSampler.remove",
        "test_buffer_against_naive",
        ("removed-still-counted", "self.num_sequences -= len(slots)", "pass"),
    ),
    *_in(
        "SequenceReplay._batch",
        "test_buffer",
        (
            "burn-in-before-the-episode",
            "np.minimum(anchor_steps, self.layout.burn_in_length)",
            "np.minimum(anchor_steps + 1, self.layout.burn_in_length)",
        ),
        ("oldest-memory-row-invalid", "ages <= memory_rows[:, None]", "ages < memory_rows[:, None]"),
    ),
    *_in(
        "SequenceReplay._find",
        "test_buffer",
        (
            "stale-id-taken",
            "self._is_stored(streams, rows) & self._sampler.contains(slots)",
            "self._sampler.contains(slots)",
        ),
    ),
    *_in(
        "SequenceReplay._learned",
        "test_buffer",
        ("bootstrap-row-learned", "learn_rows - 1", "learn_rows"),
    ),
    *_in(
        "SequenceReplay.append",
        "test_buffer",
        ("cut-episode-without-last-row", "self._mark_last(which[tick.cut], tick.rows[tick.cut] - 1)", "pass"),
    ),
    *_in(
        "SequenceReplay._wrapped",
        "test_buffer_against_naive",
        (
            "ring-end-off-by-one",
            "starts[crossing, None] + offsets[crossing] >= size",
            "starts[crossing, None] + offsets[crossing] > size",
        ),
    ),
]

TRAINING = [
    *_in(
        "checkpoint:_check",
        "test_a_damaged_file_is_one_line_that_names_it",
        ("checksum-ignored", "_checksum(path) != checksum", "False"),
    ),
    *_in(
        "checkpoint:save",
        "test_checkpoint",
        (
            "pointer-before-the-checkpoint",
            "temporary.mkdir()",
            "(temporary.mkdir(), write_whole(folder / _POINTER, name + '\\n', durable=True))",
        ),
    ),
    *_in(
        "current",
        "test_without_its_pointer_a_run_goes_on_from_the_newest_whole_checkpoint",
        ("oldest-without-a-pointer", "max(whole)", "min(whole)"),
    ),
    *_in(
        "_completed",
        "test_checkpoint",
        (
            "unfinished-counts-as-whole",
            "re.fullmatch('\\\\d+(-again)?', path.name)",
            "re.search('\\\\d+', path.name)",
        ),
    ),
    *_in(
        "MetricsFile.__init__",
        "test_metrics",
        ("rows-not-cut", "self._file.truncate(sum((len(line) + 1 for line in lines)))", "pass"),
    ),
    *_in(
        "check_counted",
        "test_fewer_rows_than_the_checkpoint_counts_are_refused",
        ("missing-rows-taken", "len(lines) < rows", "False"),
    ),
    *_in(
        "_lines",
        "test_metrics",
        ("half-a-line-read", "path.read_bytes().split(b'\\n')[:-1]", "path.read_bytes().split(b'\\n')"),
    ),
    *_in(
        "Evaluations.reached",
        "test_a_run_ends_at_the_success_that_was_asked_for",
        ("early-stop-by-the-mean", "row.get('eval/success_low')", "row.get('eval/success')"),
    ),
    *_in(
        "Evaluations.keep_best",
        "test_session::test_best_weights_are_those_of_the_best_evaluation",
        ("best-is-the-last", "not as_good", "False"),
    ),
    *_in(
        "Trainer._learn",
        "test_wiring::test_a_run_is_that_of_plain_loops",
        (
            "priorities-of-the-wrong-sequences",
            "self.replay.update_priorities(info.ids, update.priorities.cpu().numpy())",
            "self.replay.update_priorities(info.ids[::-1], update.priorities.cpu().numpy())",
        ),
        ("target-published", "list(self.network.parameters())", "list(self.learner.target.parameters())"),
    ),
    *_in(
        "Trainer._act",
        "test_wiring::test_a_run_is_that_of_plain_loops",
        ("first-priorities-always", "len(ids) and from_actor", "len(ids)"),
    ),
    *_in(
        "Trainer.set_state",
        "test_resume",
        ("generator-lost-in-a-checkpoint", "self.generator.bit_generator.state = state['generator']", "pass"),
    ),
    *_in(
        "FromReplay.due",
        "test_wiring::test_a_run_is_that_of_plain_loops",
        ("update-credit-late", "self._credit >= 1", "self._credit > 1"),
        ("warmup-counts-for-updates", "max(before, self._warmup)", "before"),
    ),
    *_in(
        "FromReplay.get_state",
        "test_resume",
        ("credit-lost-in-a-checkpoint", "{'credit': self._credit}", "{'credit': 0.0}"),
    ),
    *_in(
        "FromRollouts.due",
        "test_rollouts",
        ("rollout-not-cut", "self._replay.end_sequences()", "pass"),
    ),
    *_in(
        "FromRollouts._epoch",
        "test_rollouts",
        ("epochs-dealt-alike", "self._generator.permutation", "np.arange"),
    ),
    *_in(
        "Evaluator.ask",
        "test_wiring::test_a_run_is_that_of_plain_loops",
        ("every-evaluation-alike", "self._number += 1", "pass"),
    ),
    *_in(
        "Player._play",
        "test_wiring::test_a_run_is_that_of_plain_loops",
        (
            "same-chance-in-all-evaluations",
            "seed_of(config, Stream.EVALUATION_ACTIONS, number, *stage)",
            "seed_of(config, Stream.EVALUATION_ACTIONS, *stage)",
        ),
    ),
    *_in(
        "Evaluator._value_estimate",
        "test_evaluator",
        ("estimate-of-rescaled-values", "self._learner.value_rescaling", "False"),
    ),
    *_in(
        "WorkerPool._ask",
        "test_every_stream_is_a_slow_twins",
        ("pool-leads-by-one-more", "self._taken + self._max_lead", "self._taken + self._max_lead + 1"),
    ),
    *_in(
        "WorkerPool._start",
        "test_what_cannot_be_saved_begins_anew",
        ("pool-same-seeds-again", "() if first else (number, member.incarnation)", "()"),
    ),
    *_in(
        "ActingWorker._tick",
        "test_every_stream_is_a_slow_twins",
        (
            "worker-explores-by-its-own-count",
            "self._taken * self._num_envs // self.share.num_envs",
            "self._taken",
        ),
    ),
    *_in(
        "make_actor",
        "test_the_copies_are_shared_out",
        (
            "every-worker-the-first-rungs",
            "exploration.final[share.copies]",
            "exploration.final[:share.num_envs]",
        ),
    ),
    *_in(
        "make_exploration",
        "test_wiring::test_a_run_is_that_of_plain_loops",
        ("ladder-of-another-exponent", "config.ladder_exponent", "3.5"),
    ),
    *_in(
        "setup:random_actions",
        "test_wiring::test_a_run_is_that_of_plain_loops",
        ("greedy-evaluations-always", "epsilon == 0", "epsilon < 1"),
    ),
    *_in(
        "_check_code",
        "test_an_edited_task_is_another_run",
        ("changed-code-goes-on-unasked", "change and (not accepts)", "False"),
    ),
    *_in(
        "Trainer.set_state",
        "test_a_trainings_tally_counts_every_episode_and_goes_on",
        ("tally-lost-at-a-resume", "state['tally']", "(0, 0.0, 0, 0)"),
    ),
]

ACTING = [
    *_in(
        "Actor.tick",
        "test_actor",
        ("one-draw-for-all-copies", "self.generator.random(count)", "self.generator.random()"),
        ("value-of-the-greedy-action", "q[everyone, action]", "q[everyone, greedy]"),
        ("last-row-counts-as-a-step", "count - int(rows.first.sum())", "count"),
        ("truncation-terminates", "rows.terminated", "rows.last"),
    ),
    *_in(
        "Actor._step",
        "test_actor",
        ("state-not-reset", "reset_rows(state, initial, inputs.first[:, 0])", "state"),
    ),
    *_in(
        "Actor.publish",
        "test_actor",
        ("stale-keys-after-publishing", "self.state = self._cached(self.state)", "pass"),
    ),
    *_in("epsilon_ladder", "test_exploration", ("ladder-ends-early", "num_envs - 1", "num_envs")),
    *_in(
        "Exploration.epsilon",
        "test_actor",
        ("annealing-from-the-first-step", "env_steps - self.warmup_env_steps", "env_steps"),
    ),
    *_in(
        "RandomActions.act",
        "test_evaluation",
        (
            "greedy-for-random",
            "np.where(self.generator.random(len(greedy)) < self.share, drawn, greedy)",
            "np.where(self.generator.random(len(greedy)) < self.share, greedy, drawn)",
        ),
    ),
    *_in("wilson_interval", "test_evaluation", ("wilson-as-wald", "episodes + square", "episodes")),
    *_in(
        "play_by",
        "test_evaluation",
        ("quota-without-remainder", "quota[:episodes % copies] += 1", "pass"),
        ("one-episode-too-many", "played < quota", "played <= quota"),
        ("discount-never-grows", "weight * gamma", "weight"),
    ),
    *_in(
        "agent_steps",
        "test_evaluation",
        ("evaluation-keeps-the-state", "reset_rows(state, initial, inputs.first[:, 0])", "state"),
    ),
    *_in("Stages.count", "test_stages", ("first-stage-counts-as-best", "full", "True")),
    *_in("Novelty.look", "test_novelty", ("novelty-over-episodes", "shown.clear()", "pass")),
    *_in(
        "Optimism.acted",
        "test_optimism",
        ("last-rows-count-as-tries", "self._copies[~first]", "self._copies"),
    ),
]

EXPERIMENTS = [
    *_in(
        "improvement",
        "test_intervals",
        ("ties-are-wins", "0.5 * (abs(ahead) <= _ROUNDING)", "1.0 * (abs(ahead) <= _ROUNDING)"),
    ),
    *_in(
        "run_figures",
        "test_90_percent_are_reached_where_an_evaluation_shows_it",
        ("first-evaluation-for-the-last", "evaluations[-1]", "evaluations[0]"),
    ),
    *_in(
        "Group.median",
        "test_killed_twice_it_ends_with_the_right_table",
        (
            "never-is-left-out-of-the-median",
            "[_NEVER if time is None else time for time in times]",
            "[time for time in times if time is not None]",
        ),
    ),
    *_in(
        "_shows_solved",
        "test_90_percent_are_reached_where_an_evaluation_shows_it",
        ("first-stage-solves", "is_full_evaluation(row)", "True"),
    ),
    *_in(
        "best_epoch",
        "test_mmer_is_the_best_mean_return_of_an_epoch",
        ("mmer-is-the-last-epochs", "mean if best is None else max(best, mean)", "mean"),
    ),
    *_in(
        "Record._agrees_with_itself",
        "test_a_record_that_contradicts_itself_is_none",
        ("record-cut-counted", "not steps or steps[-1] != self.result.env_steps", "False"),
    ),
    *_in(
        "Records.find",
        "test_a_run_of_a_task_that_has_changed_is_not_counted",
        ("record-of-a-changed-task-counted", "record.result.task", "digest"),
    ),
    *_in(
        "whole",
        "test_a_finished_run_whose_metrics_were_cut_is_in_no_table",
        ("metrics-cut-counted", "(last or 0) < ended", "(last or 0) < 0"),
    ),
]

SETTINGS = [
    *_in(
        "LearnerConfig.learning_rate",
        "test_the_configuration_of_a_preset_is_the_recorded_one",
        ("default-learning-rate", "Field(1e-3, gt=0)", "Field(2e-3, gt=0)"),
    ),
    *_in(
        "Group.model_config",
        "test_an_unknown_key_is_named_with_the_nearest",
        ("unknown-keys-taken", "'forbid'", "'ignore'"),
    ),
    *_in("Group.model_config", "test_values", ("infinity-taken", "False", "True")),
    *_in(
        "_own_settings_are_read",
        "test_settings_of_ones_own_that_are_wrong_are_one_line",
        ("unread-kwargs-taken", "not network.kwargs", "True"),
    ),
    *_in(
        "resolve",
        "test_an_agent_is_as_published_on_every_task",
        (
            "task-over-a-published-agent",
            "[*task, agent.preset] if agent.over_task else [agent.preset, *task]",
            "[*task, agent.preset] if not agent.preset else [agent.preset, *task]",
        ),
    ),
    *_in(
        "resolve.filled",
        "test_settings_are_the_suites_for_every_agent_with_its_shares_and_horizons",
        (
            "horizon-without-the-time-limit",
            "_with_horizon(layer.values, env, limit)",
            "_with_horizon(layer.values, env, None)",
        ),
    ),
    *_in(
        "of_task",
        "test_layers_in_their_order",
        ("shorter-env-preset-on-top", "len(path.stem)", "-len(path.stem)"),
    ),
]

ENVS = [
    *_in(
        "NativeVectorEnv.step",
        "test_success_return_and_length_are_those_of_the_rows",
        ("return-over-episodes", "self._return[first] = 0.0", "pass"),
        ("steps-over-episodes", "self._elapsed[first] = 0", "pass"),
        ("reward-of-a-first-row", "reward[first] = 0.0", "pass"),
    ),
    *_in(
        "NativeVectorEnv.step",
        "test_vector",
        ("limit-one-step-late", "self._elapsed >= self.time_limit", "self._elapsed > self.time_limit"),
        ("truncated-and-terminated", "truncated &= ~terminated", "pass"),
        ("success-in-mid-episode", "last & success", "success"),
    ),
    *_in(
        "FrameStack.apply.push",
        "test_wrappers",
        ("frames-over-episodes", "frames[first] = array[first, None]", "pass"),
    ),
    *_in(
        "ObservationWrapper._generator",
        "test_wrappers",
        ("noise-in-the-stream-of-the-task", "(*root.spawn_key, *name)", "root.spawn_key"),
    ),
    *_in("reach_exit_memory", "test_gridverse_recordings", ("exits-swapped", "own == good", "own != good")),
    *_in("move_agent", "test_gridverse_twin", ("through-walls", "moved[stays] = 0", "pass")),
    *_in(
        "PomdpDynamics.step",
        "test_pomdp_dynamics",
        ("observed-before-the-move", "first_row + self.state", "first_row + state"),
    ),
    *_in(
        "TMazeDynamics.observe",
        "test_t_maze",
        ("oracle-on-every-visit", "(x == 0) & ~self.visited", "x == 0"),
    ),
    *_in(
        "MemoryCardsDynamics.step",
        "test_memory_cards",
        ("a-card-is-its-own-mate", "same & (action != shown)", "same"),
    ),
    *_in(
        "MemoryChainDynamics.observe",
        "test_bsuite",
        ("context-in-one-row", "np.maximum(self.time - 1, 0)", "self.time"),
    ),
    *_in(
        "autoencode",
        "test_popgym",
        ("mode-one-row-later", "rows[:, :n - 1, 0] = 1", "rows[:, :n, 0] = 1"),
    ),
    *_in(
        "repeat_previous",
        "test_popgym",
        (
            "previous-is-k-rows-ago",
            "right[:, k - 1:] = cards[:, :cards.shape[1] - k + 1]",
            "right[:, k:] = cards[:, :cards.shape[1] - k]",
        ),
    ),
    *_in(
        "GuardedDynamics._lend",
        "test_the_checks_notice",
        ("written-arguments-unnoticed", "copy.tobytes() != array.tobytes()", "False"),
    ),
    *_in(
        "PlainEnv.step",
        "test_success_does_not_hang_on_rounding",
        ("success-by-rounding", "ROUNDING * self._size", "0.0"),
    ),
]

TABLE = [*LEARNING, *NETWORKS, *REPLAY, *TRAINING, *ACTING, *EXPERIMENTS, *SETTINGS, *ENVS]
