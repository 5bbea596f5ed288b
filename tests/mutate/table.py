"""The breaks: a wrong expression in place of a right one, and the tests that must fail then.

A name is `<subject>-<what is wrong>`; tests are as narrow as they can be. `places` says how symbols,
expressions and tests are found.
"""

from __future__ import annotations

from collections.abc import Callable
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


TABLE: list[Break] = []


def noticed_by(test: str) -> Callable[[str, str, str, str], None]:
    """What adds breaks (name, symbol, old, new) that a test must notice."""
    return lambda name, symbol, old, new: TABLE.append(Break(name, symbol, old, new, test))


# Learning
broken = noticed_by("test_the_length_of_a_trace_by_hand")
broken(
    "trace-of-the-row-itself",
    "traces",
    "_backwards(torch.ones_like(kept), kept)[:, 1:]",
    "_backwards(torch.ones_like(kept), kept)[:, :-1]",
)
broken = noticed_by("test_returns")
broken("n-step-one-row-further", "bootstrap_rows", "step + n_step", "step + n_step + 1")
broken("n-step-beyond-the-last-row", "bootstrap_rows", "learn_rows[:, None] - 1", "learn_rows[:, None]")
broken("bootstrap-discounted-once", "n_step_targets", "gamma ** steps.to(value.dtype)", "gamma")
broken("reward-discounted-once-more", "n_step_targets", "k - 1", "k")
broken("termination-bootstraps", "n_step_targets", "discount > 0", "discount > -1")
broken("rescaling-without-its-line", "signed_hyperbolic", "epsilon * x", "0.0")
broken("double-q-takes-the-least", "double_q_value", "q_selector.argmax", "q_selector.argmin")
broken("lambda-mixes-nothing", "lambda_targets", "(1 - kept) * value", "value")
broken("lambda-reads-beyond-the-end", "lambda_targets", "learn_rows - 1", "learn_rows")
broken = noticed_by("test_losses")
broken("projection-swaps-neighbours", "_scattered", "mass * share", "mass * (1 - share)")
broken("priority-mean-for-max", "sequence_priority", "ETA * size.amax(dim=1)", "ETA * mean")
broken(
    "priority-mean-counts-padding",
    "sequence_priority",
    "size.sum(dim=1) / mask.sum(dim=1)",
    "size.mean(dim=1)",
)
broken("importance-weights-unread", "weighted_loss", "weights[:, None] * loss", "loss")
broken = noticed_by("test_learner::test_twin")
broken("argmax-of-the-wrong-network", "Objective.errors", "chooser if config.double_q else target", "target")
broken(
    "action-of-the-row-before",
    "Objective.errors",
    "batch.learn.prev_action[:, 1:]",
    "batch.learn.prev_action[:, :-1]",
)
broken("one-step-too-many-learned", "Objective.errors", "batch.learned_steps", "batch.learned_steps + 1")
broken("no-reward-for-novelty", "Objective._reward", "scaled + weight * is_novel - cost", "scaled")
broken(
    "target-is-the-online-network",
    "Learner.__init__",
    "copy.deepcopy(network).requires_grad_(False)",
    "network",
)
broken("gradient-unclipped", "Learner._step", "norm > most", "norm > 1e9")
broken(
    "target-moves-almost-whole",
    "Learner._average_target",
    "self.config.target_update.rate",
    "1 - self.config.target_update.rate",
)
broken(
    "target-copied-late",
    "Learner._copy_target",
    "self.learner_steps % update.period == 0",
    "self.learner_steps % update.period == 1",
)
broken("loss-by-sequences", "Learner._gradient.weighted", "num_learned", "len(batch.learn_rows)")
broken = noticed_by("test_rewards_are_scaled_in_the_loss_only")
broken("reward-unscaled", "Objective._reward", "reward * self.config.reward_scale", "reward")
broken = noticed_by("test_objective")
broken(
    "watkins-is-peng",
    "watkins_trace",
    "torch.where(near, torch.full_like(q_max, settings.q_lambda), 0.0)",
    "torch.full_like(q_max, settings.q_lambda)",
)
broken(
    "atoms-of-the-next-row",
    "Following.distributions",
    "returns.at_rows(probabilities, rows)",
    "probabilities[:, 1:]",
)
broken = noticed_by("test_first_priorities_are_the_learners")
broken(
    "first-priority-of-raw-rewards",
    "Objective.first_td_errors",
    "reward = self._reward(reward, novel, novel_share)",
    "pass",
)
broken = noticed_by("test_a_non_finite_gradient_is_skipped_too")
broken(
    "wrong-gradients-stepped-by",
    "Learner._step",
    "self.optimizer.step(self._gradients, learning_rate, finite)",
    "self.optimizer.step(self._gradients, learning_rate, finite | True)",
)
broken = noticed_by("test_ten_in_a_row_raise")
broken(
    "skips-in-a-row-unending",
    "Learner._skip",
    "self._skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW",
    "self._skipped_in_a_row > MAX_SKIPPED_IN_A_ROW",
)
broken = noticed_by("test_a_run_that_goes_on_at_any_tick_logs_the_same_rows")
broken("step-size-forgotten", "Learner.set_state", "state.get('learning_rate', 0.0)", "0.0")
broken = noticed_by("test_a_whole_sequence_joins_real_rows")
broken("greedy-actions-of-burn-in-forgotten", "whole_sequence", "joined_flags(batch.acted_greedily)", "None")
broken = noticed_by("test_without_a_target_network_the_first_row_is_of_the_first_window")
broken(
    "first-row-of-the-next-window",
    "next_window",
    "Outputs(output, chooser, chooser, trace)",
    "Outputs(output, *[online.learn_values(later)[0]] * 2, trace)",
)
broken = noticed_by("test_fixed_shapes")
broken("padding-counts-as-memory", "Padded.__call__", "held.trace_valid.fill_(False)", "pass")
broken = noticed_by("test_discrepancy")
broken(
    "delta-q-without-burn-in", "discrepancy", "batch.episode_step + batch.burn_in_rows", "batch.episode_step"
)

# Networks
broken = noticed_by("test_contract")
broken("memory-shorter-by-one", "GTrXL._distances", "self.memory_length", "self.memory_length - 1")
broken(
    "newest-memory-hidden", "GTrXL._distances", "distance > held[..., None]", "distance >= held[..., None]"
)
broken("empty-memory-seen", "GTrXL._distances", "held[..., None]", "1 + held[..., None]")
broken(
    "invalid-trace-rows-count",
    "GTrXL.state_from_trace",
    "valid.sum(dim=1)",
    "valid.sum(dim=1) * 0 + valid.shape[1]",
)
broken("stale-cache-kept", "GTrXL.cache", "recent[:, :, i]", "recent[:, :, 0]")
broken(
    "window-shorter-by-one", "WindowedQNetwork.__init__", "self.context_length - 1", "self.context_length - 2"
)
broken = noticed_by("test_gradient_does_not_enter_the_state_but_its_projections_learn")
broken("gradient-enters-the-state", "GTrXL.forward", "state.memory.detach()", "state.memory")
broken = noticed_by("test_gtrxl::test_twin")
broken(
    "positions-shifted",
    "sinusoid",
    "torch.arange(first, first + length, dtype=torch.float64)",
    "torch.arange(first + 1, first + length + 1, dtype=torch.float64)",
)
broken = noticed_by("test_gates")
broken("gru-gate-swapped", "_GRUGate.forward", "torch.lerp(x, h, z)", "torch.lerp(h, x, z)")
broken(
    "gate-open-at-first",
    "GATE_BIAS",
    "{'gru': 2.0, 'output': 1.0, 'highway': 1.0, 'sigtanh': 1.0, 'input': None, 'residual': None}",
    "dict.fromkeys(['gru', 'output', 'highway', 'sigtanh', 'input', 'residual'], 0.0)",
)
broken = noticed_by("test_packed_rows_are_padded_ones")
broken(
    "padding-of-a-burn-in-seen", "GTrXL._make_packed_call", "memory.counts + burn_in.counts", "memory.counts"
)
broken = noticed_by("test_any_split_into_calls_is_the_same_function")
broken("cells-by-the-output-gate", "LSTMLayer._gates_of_cells", "weights[:-of_output]", "weights[of_output:]")
broken = noticed_by("test_windowed")
broken("second-window-one-row-early", "learn_in_windows", "total - size", "total - size - 1")
broken = noticed_by("test_recall")
broken("recall-of-padding", "Shown.forward", "shown & real[..., None]", "shown")

# Replay
broken = noticed_by("test_accumulator")
broken(
    "anchor-a-row-late",
    "Accumulator.append",
    "self._layout.max_learn_rows - 1",
    "self._layout.max_learn_rows",
)
broken(
    "anchors-by-length-not-period",
    "Accumulator.append",
    "self._layout.sequence_period",
    "self._layout.learn_length",
)
broken("episode-left-open", "Accumulator.append", "~last", "True")
broken(
    "anchor-on-the-last-row",
    "Accumulator._tail",
    "steps < transitions[:, None]",
    "steps <= transitions[:, None]",
)
broken(
    "tail-short-by-a-row",
    "Accumulator._tail",
    "transitions[:, None] - steps + 1",
    "transitions[:, None] - steps",
)
broken(
    "next-sequence-a-row-late",
    "Accumulator.end_sequences",
    "self._origin[streams] = last_rows",
    "self._origin[streams] = last_rows + 1",
)
broken = noticed_by("test_sum_tree")
broken("tree-finds-the-leaf-before", "SumTree.find", "'right'", "'left'")
broken(
    "tree-drifts",
    "SumTree.set",
    "self._top[block] = _children(self._nodes, block).sum(axis=1)",
    "self._top[block] += _children(self._nodes, block).sum(axis=1)",
)
broken = noticed_by("test_samplers")
broken(
    "priority-without-exponent",
    "ProportionalSampler.update",
    "priorities.astype(np.float64) ** self.priority_exponent",
    "priorities.astype(np.float64)",
)
broken(
    "largest-priority-forgotten",
    "ProportionalSampler.update",
    "max(self.max_priority, float(priorities.max()))",
    "float(priorities.max())",
)
broken = noticed_by("test_a_new_sequence_has_the_power_of_the_running_maximum_too")
broken(
    "newcomer-without-exponent",
    "ProportionalSampler.insert",
    "self.max_priority ** self.priority_exponent",
    "self.max_priority",
)
broken = noticed_by("test_samplers::test_weights_by_hand")
broken(
    "weights-turned",
    "ProportionalSampler",
    "-self.importance_sampling_exponent",
    "self.importance_sampling_exponent",
)
broken("weights-not-relative", "ProportionalSampler.sample", "weights / weights.max()", "weights")
broken = noticed_by("test_buffer_against_naive")
broken("removed-still-counted", "ProportionalSampler.remove", "self.num_sequences -= len(slots)", "pass")
broken(
    "ring-end-off-by-one",
    "SequenceReplay._wrapped",
    "starts[crossing, None] + offsets[crossing] >= size",
    "starts[crossing, None] + offsets[crossing] > size",
)
broken = noticed_by("test_buffer")
broken(
    "burn-in-before-the-episode",
    "SequenceReplay._batch",
    "np.minimum(anchor_steps, self.layout.burn_in_length)",
    "np.minimum(anchor_steps + 1, self.layout.burn_in_length)",
)
broken(
    "oldest-memory-row-invalid",
    "SequenceReplay._batch",
    "ages <= memory_rows[:, None]",
    "ages < memory_rows[:, None]",
)
broken(
    "stale-id-taken",
    "SequenceReplay._find",
    "self._is_stored(streams, rows) & self._sampler.contains(slots)",
    "self._sampler.contains(slots)",
)
broken("bootstrap-row-learned", "SequenceReplay._learned", "learn_rows - 1", "learn_rows")
broken(
    "cut-episode-without-last-row",
    "SequenceReplay.append",
    "self._mark_last(which[tick.cut], tick.rows[tick.cut] - 1)",
    "pass",
)

# Training
broken = noticed_by("test_a_damaged_file_is_one_line_that_names_it")
broken("checksum-ignored", "checkpoint:_check", "_checksum(path) != checksum", "False")
broken = noticed_by("test_checkpoint")
broken(
    "pointer-before-the-checkpoint",
    "checkpoint:save",
    "temporary.mkdir()",
    "(temporary.mkdir(), write_whole(folder / _POINTER, name + '\\n', durable=True))",
)
broken(
    "unfinished-counts-as-whole",
    "_completed",
    "re.fullmatch('\\\\d+(-again)?', path.name)",
    "re.search('\\\\d+', path.name)",
)
broken = noticed_by("test_without_its_pointer_a_run_goes_on_from_the_newest_whole_checkpoint")
broken("oldest-without-a-pointer", "current", "max(whole)", "min(whole)")
broken = noticed_by("test_metrics")
broken(
    "rows-not-cut",
    "MetricsFile.__init__",
    "self._file.truncate(sum((len(line) + 1 for line in lines)))",
    "pass",
)
broken(
    "half-a-line-read", "_lines", "path.read_bytes().split(b'\\n')[:-1]", "path.read_bytes().split(b'\\n')"
)
broken = noticed_by("test_fewer_rows_than_the_checkpoint_counts_are_refused")
broken("missing-rows-taken", "check_counted", "len(lines) < rows", "False")
broken = noticed_by("test_a_run_ends_at_the_success_that_was_asked_for")
broken(
    "early-stop-by-the-mean", "Evaluations.reached", "row.get('eval/success_low')", "row.get('eval/success')"
)
broken = noticed_by("test_session::test_best_weights_are_those_of_the_best_evaluation")
broken("best-is-the-last", "Evaluations.keep_best", "not as_good", "False")
broken = noticed_by("test_wiring::test_a_run_is_that_of_plain_loops")
broken(
    "priorities-of-the-wrong-sequences",
    "Trainer._learn",
    "self.replay.update_priorities(info.ids, update.priorities.cpu().numpy())",
    "self.replay.update_priorities(info.ids[::-1], update.priorities.cpu().numpy())",
)
broken("target-published", "Trainer._learn", "self.network.parameters()", "self.learner.target.parameters()")
broken("first-priorities-always", "Trainer._act", "len(ids) and from_actor", "len(ids)")
broken("update-credit-late", "FromReplay.due", "self._credit >= 1", "self._credit > 1")
broken("warmup-counts-for-updates", "FromReplay.due", "max(before, self._warmup)", "before")
broken("every-evaluation-alike", "Evaluator.ask", "self._number += 1", "pass")
broken(
    "same-chance-in-all-evaluations",
    "Player._play",
    "seed_of(config, Stream.EVALUATION_ACTIONS, number, *stage)",
    "seed_of(config, Stream.EVALUATION_ACTIONS, *stage)",
)
broken("ladder-of-another-exponent", "make_exploration", "config.exploration.exponent", "3.5")
broken("greedy-evaluations-always", "setup:random_actions", "epsilon == 0", "epsilon < 1")
broken = noticed_by("test_resume")
broken(
    "generator-lost-in-a-checkpoint",
    "Trainer.set_state",
    "self.generator.bit_generator.state = state['generator']",
    "pass",
)
broken("credit-lost-in-a-checkpoint", "FromReplay.get_state", "{'credit': self._credit}", "{'credit': 0.0}")
broken = noticed_by("test_rollouts")
broken("rollout-not-cut", "FromRollouts.due", "self._replay.end_sequences()", "pass")
broken("epochs-dealt-alike", "FromRollouts._epoch", "self._generator.permutation", "np.arange")
broken = noticed_by("test_evaluator")
broken("estimate-of-rescaled-values", "Evaluator._value_estimate", "self._learner.value_rescaling", "False")
broken = noticed_by("test_every_stream_is_a_slow_twins")
broken(
    "pool-leads-by-one-more",
    "WorkerPool._ask",
    "self._taken + self._max_lead",
    "self._taken + self._max_lead + 1",
)
broken(
    "worker-explores-by-its-own-count",
    "ActingWorker._tick",
    "self._taken * self._num_envs // self.share.num_envs",
    "self._taken",
)
broken = noticed_by("test_what_cannot_be_saved_begins_anew")
broken("pool-same-seeds-again", "WorkerPool._start", "() if first else (number, member.incarnation)", "()")
broken = noticed_by("test_the_copies_are_shared_out")
broken(
    "every-worker-the-first-rungs",
    "make_actor",
    "exploration.final[share.copies]",
    "exploration.final[:share.num_envs]",
)
broken = noticed_by("test_an_edited_task_is_another_run")
broken("changed-code-goes-on-unasked", "_check_code", "change and (not accepts)", "False")
broken = noticed_by("test_a_trainings_tally_counts_every_episode_and_goes_on")
broken("tally-lost-at-a-resume", "Trainer.set_state", "state['tally']", "(0, 0.0, 0, 0)")

# Acting
broken = noticed_by("test_wiring::test_a_run_is_that_of_plain_loops")
broken("one-draw-for-all-copies", "Actor.tick", "self.generator.random(count)", "self.generator.random()")
broken("value-of-the-greedy-action", "Actor.tick", "q[everyone, action]", "q[everyone, greedy]")
broken("last-row-counts-as-a-step", "Actor.tick", "count - int(rows.first.sum())", "count")
broken("state-not-reset", "Actor._step", "reset_rows(state, initial, inputs.first[:, 0])", "state")
broken = noticed_by("test_actor")
broken("truncation-terminates", "Actor.tick", "rows.terminated", "rows.last")
broken("stale-keys-after-publishing", "Actor.publish", "self.state = self._cached(self.state)", "pass")
broken(
    "annealing-from-the-first-step", "Exploration.epsilon", "env_steps - self.warmup_env_steps", "env_steps"
)
broken = noticed_by("test_exploration")
broken("ladder-ends-early", "epsilon_ladder", "num_envs - 1", "num_envs")
broken = noticed_by("test_evaluation")
broken(
    "greedy-for-random",
    "RandomActions.act",
    "np.where(self.generator.random(len(greedy)) < self.share, drawn, greedy)",
    "np.where(self.generator.random(len(greedy)) < self.share, greedy, drawn)",
)
broken("wilson-as-wald", "wilson_interval", "episodes + square", "episodes")
broken("quota-without-remainder", "play_by", "quota[:episodes % copies] += 1", "pass")
broken("one-episode-too-many", "play_by", "played < quota", "played <= quota")
broken("discount-never-grows", "play_by", "weight * gamma", "weight")
broken("evaluation-keeps-the-state", "agent_steps", "reset_rows(state, initial, inputs.first[:, 0])", "state")
broken = noticed_by("test_episode_plan")
broken("few-episodes-count-as-best", "EpisodePlan.count", "full", "True")
broken = noticed_by("test_novelty")
broken("novelty-over-episodes", "Novelty.look", "shown.clear()", "pass")
broken = noticed_by("test_optimism")
broken("last-rows-count-as-tries", "Optimism.acted", "self._copies[~first]", "self._copies")

# Experiments
broken = noticed_by("test_intervals")
broken("ties-are-wins", "improvement", "0.5 * (abs(ahead) <= _ROUNDING)", "1.0 * (abs(ahead) <= _ROUNDING)")
broken = noticed_by("test_90_percent_are_reached_where_an_evaluation_shows_it")
broken("first-evaluation-for-the-last", "run_figures", "evaluations[-1]", "evaluations[0]")
broken("few-episodes-solve", "_shows_solved", "is_full_evaluation(row)", "True")
broken = noticed_by("test_killed_twice_it_ends_with_the_right_table")
broken(
    "never-is-left-out-of-the-median",
    "Group.median",
    "[_NEVER if time is None else time for time in times]",
    "[time for time in times if time is not None]",
)
broken = noticed_by("test_mmer_is_the_best_mean_return_of_an_epoch")
broken("mmer-is-the-last-epochs", "best_epoch", "mean if best is None else max(best, mean)", "mean")
broken = noticed_by("test_a_record_that_contradicts_itself_is_none")
broken(
    "record-cut-counted",
    "Record._agrees_with_itself",
    "not steps or steps[-1] != self.result.env_steps",
    "False",
)
broken = noticed_by("test_a_run_of_a_task_that_has_changed_is_not_counted")
broken("record-of-a-changed-task-counted", "Records.find", "record.result.task", "digest")
broken = noticed_by("test_a_finished_run_whose_metrics_were_cut_is_in_no_table")
broken("metrics-cut-counted", "whole", "(last or 0) < ended", "(last or 0) < 0")

# Settings
broken = noticed_by("test_the_configuration_of_a_preset_is_the_recorded_one")
broken("default-learning-rate", "LearnerConfig.learning_rate", "Field(1e-3, gt=0)", "Field(2e-3, gt=0)")
broken = noticed_by("test_an_unknown_key_is_named_with_the_nearest")
broken("unknown-keys-taken", "Group.model_config", "'forbid'", "'ignore'")
broken = noticed_by("test_values")
broken("infinity-taken", "Group.model_config", "False", "True")
broken = noticed_by("test_a_setting_of_something_else_is_refused_where_it_was_typed")
broken("settings-of-another-taken", "_check_is_shared", "layer.is_for_all", "True")
broken = noticed_by("test_an_agent_is_as_published_on_every_task")
broken(
    "task-over-a-published-agent",
    "resolve",
    "[*task, agent.preset] if agent.over_task else [agent.preset, *task]",
    "[*task, agent.preset] if not agent.preset else [agent.preset, *task]",
)
broken = noticed_by("test_settings_are_the_suites_for_every_agent_with_its_shares_and_horizons")
broken("horizon-without-the-time-limit", "resolve.filled", "limit", "None")
broken = noticed_by("test_layers_in_their_order")
broken("shorter-env-preset-on-top", "of_task", "len(path.stem)", "-len(path.stem)")

# Tasks
broken = noticed_by("test_success_return_and_length_are_those_of_the_rows")
broken("return-over-episodes", "NativeVectorEnv.step", "self._return[first] = 0.0", "pass")
broken("steps-over-episodes", "NativeVectorEnv.step", "self._elapsed[first] = 0", "pass")
broken("reward-of-a-first-row", "NativeVectorEnv.step", "reward[first] = 0.0", "pass")
broken = noticed_by("test_vector")
broken(
    "limit-one-step-late",
    "NativeVectorEnv.step",
    "self._elapsed >= self.time_limit",
    "self._elapsed > self.time_limit",
)
broken("truncated-and-terminated", "NativeVectorEnv.step", "truncated &= ~terminated", "pass")
broken("success-in-mid-episode", "NativeVectorEnv.step", "last & success", "success")
broken = noticed_by("test_wrappers")
broken("frames-over-episodes", "FrameStack.apply.push", "frames[first] = array[first, None]", "pass")
broken = noticed_by("test_gridverse_recordings")
broken("exits-swapped", "reach_exit_memory", "own == good", "own != good")
broken = noticed_by("test_gridverse_twin")
broken("through-walls", "move_agent", "moved[stays] = 0", "pass")
broken = noticed_by("test_pomdp_dynamics")
broken("observed-before-the-move", "PomdpDynamics.step", "first_row + self.state", "first_row + state")
broken = noticed_by("test_t_maze")
broken("oracle-on-every-visit", "TMazeDynamics.observe", "(x == 0) & ~self.visited", "x == 0")
broken = noticed_by("test_memory_cards")
broken("a-card-is-its-own-mate", "MemoryCardsDynamics.step", "same & (action != shown)", "same")
broken = noticed_by("test_bsuite")
broken("context-in-one-row", "MemoryChainDynamics.observe", "np.maximum(self.time - 1, 0)", "self.time")
broken = noticed_by("test_popgym")
broken("mode-one-row-later", "autoencode", "rows[:, :n - 1, 0] = 1", "rows[:, :n, 0] = 1")
broken(
    "previous-is-k-rows-ago",
    "repeat_previous",
    "right[:, k - 1:] = cards[:, :cards.shape[1] - k + 1]",
    "right[:, k:] = cards[:, :cards.shape[1] - k]",
)
broken = noticed_by("test_the_checks_notice")
broken("written-arguments-unnoticed", "GuardedDynamics._lend", "copy.tobytes() != array.tobytes()", "False")
broken = noticed_by("test_success_does_not_hang_on_rounding")
broken("success-by-rounding", "PlainEnv.step", "ROUNDING * self._size", "0.0")
