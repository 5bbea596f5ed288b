"""The breaks: a wrong line in place of a right one, and the tests that must fail then.

A name is `<subject>-<what is wrong>`. Tests are files or node ids, as narrow as they can be.
"""

from __future__ import annotations

from typing import NamedTuple


class Break(NamedTuple):
    name: str
    file: str
    """Relative to the repository's root."""
    old: str
    """Text that occurs in the file exactly once."""
    new: str
    tests: tuple[str, ...]
    """Those that must notice."""


_RETURNS = "tests/learning/test_returns.py"
_LOSSES = "tests/learning/test_losses.py"
_OBJECTIVE = "tests/learning/test_objective.py"
_LEARNER = "tests/learning/test_learner.py"
_PRECISION = "tests/learning/test_precision.py"
_TWIN = f"{_LEARNER}::test_twin"
_SKIPPED = f"{_LEARNER}::test_a_non_finite_gradient_is_skipped_too"
_FIXED = "tests/learning/test_fixed_shapes.py"
_ADAM = "tests/learning/test_adam.py"
_DISCREPANCY = "tests/learning/test_discrepancy.py"
_GATES = "tests/networks/test_gates.py"
_GTRXL = "tests/networks/test_gtrxl.py"
_CONTRACT = "tests/networks/test_contract.py"
_DELTANET = "tests/networks/test_deltanet.py"
_DELTA_CHUNKS = f"{_DELTANET}::test_chunks_are_the_papers_recurrence"
_DELTA_TWIN = "tests/networks/test_recurrent_cores.py::test_twin"
_RECALL = "tests/networks/test_recall.py"
_WINDOWED = "tests/networks/test_windowed.py"
_ACCUMULATOR = "tests/replay/test_accumulator.py"
_TREE = "tests/replay/test_sum_tree.py"
_SAMPLERS = "tests/replay/test_samplers.py"
_SHARDS = "tests/replay/test_shards.py"
_BUFFER = "tests/replay/test_buffer.py"
_NAIVE = "tests/replay/test_buffer_against_naive.py"
_CHECKPOINT = "tests/training/test_checkpoint.py"
_FAULTS = "tests/training/test_faults.py"
_EVALUATOR = "tests/training/test_evaluator.py"
_STALENESS = "tests/training/test_staleness.py"
_METRICS = "tests/training/test_metrics.py"
_SESSION = "tests/training/test_session.py"
_WIRING = "tests/training/test_wiring.py::test_a_run_is_that_of_plain_loops"
_ROLLOUTS = "tests/training/test_rollouts.py"
_RANKS = "tests/training/test_ranks.py"
_AS_ONE = f"{_RANKS}::test_ranks_are_one_rank_with_all_copies"
_LOST_RANK = f"{_RANKS}::test_a_run_that_lost_a_rank_is_one_line_and_ends_like_one_that_did_not"
_FIRST_PRIORITIES = "tests/training/test_parity.py::test_first_priorities_are_the_learners"
_ACTOR = "tests/acting/test_actor.py"
_NOVELTY = "tests/acting/test_novelty.py"
_OPTIMISM = "tests/acting/test_optimism.py"
_JUNCTION = "tests/test_junction_benchmark.py"
_EVALUATION = "tests/acting/test_evaluation.py"
_EXPLORATION = "tests/acting/test_exploration.py"
_STAGES = "tests/acting/test_stages.py"
_BOOKKEEPING = "tests/envs/test_episode_bookkeeping.py::test_success_return_and_length_are_those_of_the_rows"
_VECTOR = "tests/envs/test_vector.py"
_WRAPPERS = "tests/envs/test_wrappers.py"
_BSUITE = "tests/envs/test_bsuite.py"
_TASK_FAULTS, _NOTICED = "tests/envs/test_faults.py", "tests/envs/test_own.py::test_the_checks_notice"
_POPGYM = "tests/envs/test_popgym.py"
_INTERVALS = "tests/experiments/test_intervals.py"
_COMPARE, _COMPARISON = "tests/experiments/test_compare.py", "tests/experiments/test_comparison_table.py"
_NOTES = "tests/experiments/test_comparison_notes.py"
_SEARCH_FILE = "tests/experiments/test_search.py"
_SEARCH = f"{_SEARCH_FILE}::test_what_is_chosen_by_hand"
_SEARCH_RETURNS = f"{_SEARCH_FILE}::test_where_there_is_no_success_the_return_counts"
_CHOSEN = f"{_SEARCH_FILE}::test_what_was_chosen_is_a_file_for_config"
_COMPARED = f"{_COMPARE}::test_killed_twice_it_ends_with_the_right_table"
_SOLVED = f"{_COMPARISON}::test_90_percent_are_reached_where_an_evaluation_shows_it"
_SUITES, _SCORES = "tests/experiments/test_suites.py", "tests/experiments/test_scores.py"
_RECORDS = "tests/experiments/test_records.py"
_CORES = "tests/test_testing.py::test_a_broken_core_is_told_what_it_breaks"
_ENCODERS = "tests/test_testing.py::test_a_broken_encoder_is_told_what_it_breaks"
_PICTURES = "tests/experiments/test_suite_pictures.py"
_LAUNCHERS = "tests/experiments/test_launchers.py"
_WARNING = f"{_LAUNCHERS}::test_a_warning_never_takes_effect_at_once"
_SWEEP, _IMPORTANCE = "tests/experiments/test_sweep.py", "tests/experiments/test_importance.py"
_CONFIG, _PRESETS = "tests/settings/test_config.py", "tests/settings/test_presets.py"
_RULES, _VALUES = "tests/settings/test_rules.py", "tests/settings/test_values.py"
_CERTIFICATE, _EXPORT = "tests/export/test_certificate.py", "tests/export/test_export.py"
_RERUN, _VERIFY = "tests/export/test_rerun.py", "tests/export/test_verify.py"
_POOL, _EXCHANGE = "tests/training/test_pool.py", "tests/training/test_exchange.py"
_OWN = "tests/training/test_own_networks.py"
_CHANGED = "tests/training/test_changed_task.py"
_LOST_WORKERS = "tests/training/test_lost_workers.py"
_DEBUG, _VERDICT = "tests/inspection/test_debug.py", "tests/inspection/test_verdict.py"
_VERDICTS = "tests/test_verdict_benchmark.py"
_LAYOUTS = "tests/test_layouts_benchmark.py::test_outcomes_are_those_of_a_plain_loop"
_CHANCES = "tests/envs/test_gridverse_tasks.py::test_chances_by_hand"
_NAMES = "tests/envs/test_action_names.py"
_REPORT = "tests/inspection/test_parts.py"
_DRAWING = "tests/inspection/test_drawing.py"
_RECORDED = "tests/training/test_recorded_runs.py::test_the_configuration_of_a_preset_is_the_recorded_one"


def _in(file: str, *rows: tuple[str, str, str, str]) -> list[Break]:
    """Breaks of one file from (name, old, new, test)."""
    return [Break(name, file, old, new, (test,)) for name, old, new, test in rows]


LEARNING = [
    *_in(
        "dtqn/learning/returns.py",
        ("no-tolerance", "q_max - tolerance * scale", "q_max", _TWIN),
        (
            "trace-of-the-row-itself",
            "torch.ones_like(kept), kept)[:, 1:]",
            "torch.ones_like(kept), kept)[:, :-1]",
            f"{_RETURNS}::test_the_length_of_a_trace_by_hand",
        ),
        ("n-step-one-row-further", "step + n_step, learn_rows", "step + n_step + 1, learn_rows", _RETURNS),
        (
            "n-step-beyond-the-last-row",
            "learn_rows[:, None] - 1), step)",
            "learn_rows[:, None]), step)",
            _RETURNS,
        ),
        ("bootstrap-discounted-once", "gamma ** steps.to(value.dtype) * value", "gamma * value", _RETURNS),
        (
            "reward-discounted-once-more",
            "gamma ** (k - 1) * reward[:, k:]",
            "gamma**k * reward[:, k:]",
            _RETURNS,
        ),
        ("termination-bootstraps", "goes_on = (discount > 0)", "goes_on = (discount > -1)", _RETURNS),
        ("rescaling-without-its-line", " + 1) + epsilon * x\n", " + 1)\n", _RETURNS),
        ("double-q-takes-the-least", "q_selector.argmax(dim=-1)", "q_selector.argmin(dim=-1)", _RETURNS),
        (
            "soft-value-with-the-sign-turned",
            "-temperature * log_policy",
            "temperature * log_policy",
            _RETURNS,
        ),
        ("munchausen-unclipped", ".clamp(min=-clip, max=0)", ".clamp(max=0)", _RETURNS),
        ("lambda-mixes-nothing", "rest = reward + (1 - kept) * value", "rest = reward + value", _RETURNS),
        (
            "lambda-reads-beyond-the-end",
            "for count in (learn_rows, learn_rows - 1))",
            "for count in (learn_rows, learn_rows))",
            _RETURNS,
        ),
    ),
    *_in(
        "dtqn/experiments/local_launcher.py",
        (
            "first-gpu-for-all",
            "key=busy.count",
            "key=gpus.index",
            "tests/experiments/test_local_launcher.py::test_each_training_takes_the_gpu_with_the_fewest",
        ),
    ),
    *_in(
        "dtqn/learning/losses.py",
        ("shares-below-nothing", ".abs()).clamp(min=0),)", ".abs()),)", _LOSSES),
        (
            "mixture-with-the-row-before",
            "(now[:, 1:], kept",
            "(now[:, :-1], kept",
            f"{_OBJECTIVE}::test_a_mixture_of_returns_has_the_expected_value_of_the_returns",
        ),
        ("huber-jumps", "(size - 0.5 * threshold))", "(size - threshold))", _LOSSES),
        ("quantiles-shifted", "+ 0.5) / count", "+ 1.0) / count", _LOSSES),
        ("quantiles-mirrored", "(error < 0).to", "(error > 0).to", _LOSSES),
        ("quantile-loss-sums-targets", ".mean(dim=-1).sum(dim=-1)", ".sum(dim=-1).mean(dim=-1)", _LOSSES),
        ("projection-swaps-neighbours", "up = mass * share", "up = mass * (1 - share)", _LOSSES),
        ("projection-unclipped", ".clamp(0, last)", ".clamp(0)", _LOSSES),
        (
            "priority-mean-for-max",
            "max_weight * size.amax(dim=1) + (1 - max_weight) * mean",
            "max_weight * mean + (1 - max_weight) * size.amax(dim=1)",
            _LOSSES,
        ),
        ("priority-mean-counts-padding", "size.sum(dim=1) / mask.sum(dim=1)", "size.mean(dim=1)", _LOSSES),
        ("importance-weights-unread", "(weights[:, None] * loss).sum()", "loss.sum()", _LOSSES),
    ),
    *_in(
        "dtqn/learning/objective.py",
        (
            "first-priority-without-novelty",
            "reward = self._reward(reward, novel, novel_share)",
            "reward = self._reward(reward, None, novel_share)",
            _WIRING,
        ),
        (
            "no-reward-for-novelty",
            "scaled + weight * is_novel - cost",
            "scaled",
            _TWIN,
        ),
        ("repeats-cost-nothing", "weight * is_novel - cost", "weight * is_novel", _TWIN),
        ("novelty-keeps-its-mean", "(is_novel - share[:, None].to(scaled.dtype))", "is_novel", _TWIN),
        ("argmax-of-the-wrong-network", "(chooser if config.double_q else target).q", "target.q", _TWIN),
        (
            "reward-unscaled",
            "reward * self.config.reward_scale, self.config",
            "reward, self.config",
            f"{_LEARNER}::test_rewards_are_scaled_in_the_loss_only",
        ),
        ("action-of-the-row-before", "prev_action[:, 1:].long()", "prev_action[:, :-1].long()", _TWIN),
        (
            "one-step-too-many-learned",
            "first_rows(batch.learned_steps, action.shape[1])",
            "first_rows(batch.learned_steps + 1, action.shape[1])",
            _TWIN,
        ),
        ("watkins-is-peng", "torch.where(near, continuation, 0.0)", "continuation", _OBJECTIVE),
        ("atoms-of-the-next-row", "returns.at_rows(probabilities, rows)", "probabilities[:, 1:]", _OBJECTIVE),
        (
            "first-priority-of-raw-rewards",
            "reward = self._reward(reward, novel, novel_share)",
            "",
            _FIRST_PRIORITIES,
        ),
    ),
    *_in(
        "dtqn/learning/precision.py",
        ("head-rounded", 'if name != "head":', "if True:", _PRECISION),
        ("head-reads-rounded-features", "x.float()", "x", _PRECISION),
        ("rounded-once", "torch._foreach_copy_(self._copies, self._parameters)", "pass", _PRECISION),
    ),
    *_in(
        "dtqn/learning/adam.py",
        ("radam-not-rectified", "learning_rate = learning_rate * share", "pass", _ADAM),
        ("decay-of-biases-too", "if learns and x.dim() > 1 else 0.0", "if learns else 0.0", _ADAM),
        (
            "decay-of-frozen-matrices",
            "if learns and x.dim() > 1",
            "if x.dim() > 1",
            "tests/training/test_own_networks.py::test_frozen_parameters_stay_as_they_were_made",
        ),
        ("decay-where-nothing-is-finite", "(decay * finite)", "(decay * 1)", _ADAM),
        ("radam-adaptive-from-the-start", "if share is None:", "if share is not None and False:", _ADAM),
    ),
    *_in(
        "dtqn/learning/batches.py",
        (
            "first-row-of-the-next-window",
            "return Outputs(output, chooser, chooser, trace)",
            "return Outputs(output, *[online.learn_values(later)[0]] * 2, trace)",
            "tests/learning/test_windows.py::test_without_a_target_network_the_first_row_is_of_the_first_window",
        ),
    ),
    *_in(
        "dtqn/learning/padded.py",
        ("padding-counts-as-memory", "held.trace_valid.fill_(False)", "pass", _FIXED),
        ("memory-padded-behind", "to[:, to.shape[1] - x.shape[1] :]", "to[:, : x.shape[1]]", _FIXED),
    ),
    *_in(
        "dtqn/graphs.py",
        (
            "warmed-up-arguments-replayed",
            "held = self._hold(*arguments)",
            "held = self._hold(*arguments) if self._replay is None else ()",
            _FIXED,
        ),
    ),
    *_in(
        "dtqn/shapes.py",
        (
            "lengths-are-read",
            "return int(counts.max()) if follow_data(counts) else most",
            "return int(counts.max())",
            _FIXED,
        ),
    ),
    *_in(
        "dtqn/learning/learner.py",
        (
            "rounded-trace-handed-out",
            "name: x.float() for name, x in trace.items()",
            "name: x for name, x in trace.items()",
            _PRECISION,
        ),
        ("target-is-the-online-network", "copy.deepcopy(network).requires_grad_(False)", "network", _TWIN),
        (
            "learning-rate-share-unread",
            "self.config.learning_rate * learning_rate_share",
            "self.config.learning_rate",
            f"{_LEARNER}::test_the_step_is_a_share_of_the_learning_rate",
        ),
        ("gradient-unclipped", "torch.where(norm > most,", "torch.where(norm > 1e9,", _TWIN),
        (
            "target-moves-almost-whole",
            "rate = self.config.target_ema_rate * finite",
            "rate = (1 - self.config.target_ema_rate) * finite",
            _TWIN,
        ),
        (
            "target-copied-late",
            "self.config.target_update_period == 0",
            "self.config.target_update_period == 1",
            _TWIN,
        ),
        ("wrong-gradients-stepped-by", "learning_rate, finite)", "learning_rate, finite | True)", _SKIPPED),
        ("wrong-gradients-averaged", "target_ema_rate * finite", "target_ema_rate", _SKIPPED),
        (
            "loss-by-sequences",
            "batch.importance_weights) / num_learned",
            "batch.importance_weights) / len(batch.learn_rows)",
            _TWIN,
        ),
        ("recall-unweighted", "self._recall.weight * recall", "recall", _TWIN),
        (
            "step-size-forgotten",
            'state.get("learning_rate", 0.0)',
            "0.0",
            "tests/training/test_trainer.py::test_a_run_that_goes_on_at_any_tick_logs_the_same_rows",
        ),
        (
            "skips-in-a-row-unending",
            "self._skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW",
            "self._skipped_in_a_row > MAX_SKIPPED_IN_A_ROW",
            f"{_LEARNER}::test_ten_in_a_row_raise",
        ),
    ),
    *_in(
        "dtqn/learning/discrepancy.py",
        (
            "delta-q-without-burn-in",
            "anchor = (batch.episode_step + batch.burn_in_rows)",
            "anchor = batch.episode_step",
            _DISCREPANCY,
        ),
        ("ties-are-stale-actions", "(lost > 0)[clear]", "lost > 0", _DISCREPANCY),
        (
            "stale-loss-by-stored-values",
            "exact.gather(-1, chosen)",
            "self.stored[rows].gather(-1, chosen)",
            _DISCREPANCY,
        ),
    ),
]

NETWORKS = [
    *_in(
        "dtqn/networks/distinct.py",
        (
            "distinct-by-a-part",
            'data.itemsize * data.shape[1]}")[:, 0]',
            'data.itemsize}")[:, 0]',
            "tests/networks/test_distinct.py::test_values_and_gradients_are_those_of_all_pictures",
        ),
        (
            "distinct-sums-in-half",
            "features.float() if features.dtype is torch.bfloat16 else features",
            "features",
            "tests/networks/test_distinct.py::test_gradients_of_equal_pictures_add_up_in_single_precision",
        ),
        (
            "distinct-where-shapes-are-fixed",
            " or not follow_data(pictures)",
            "",
            "tests/networks/test_distinct.py::test_all_run_where_shapes_are_fixed",
        ),
    ),
    Break(
        "no-action-behind-layers",
        "dtqn/networks/encoders.py",
        "return features + action if is_behind else features",
        "return features",
        ("tests/networks/test_encoders.py::test_the_previous_action_is_added_behind_layers",),
    ),
    Break(
        "first-layer-begins-small",
        "dtqn/networks/encoders.py",
        "nn.init.normal_(self.join.weight, std=joined**-0.5)",
        "pass",
        ("tests/networks/test_encoders.py::test_the_previous_action_is_added_behind_layers",),
    ),
    Break(
        "images-minigrid-pooled-late",
        "dtqn/networks/images.py",
        "if side >= 7:",
        "if side > 7:",
        ("tests/networks/test_encoders.py::test_minigrids_network_is_the_loops",),
    ),
    Break(
        "images-minigrid-parts-pooled",
        "dtqn/networks/darqn.py",
        " if not isinstance(layer, nn.MaxPool2d)]",
        "]",
        (
            "tests/networks/test_recurrent_cores.py::test_the_parts_of_a_small_grid_are_the_cells_before_the_pool",
        ),
    ),
    *_in(
        "dtqn/networks/rnn.py",
        (
            "cells-by-the-output-gate",
            "weights[:-of_output]",
            "weights[of_output:]",
            f"{_CONTRACT}::test_any_split_into_calls_is_the_same_function",
        ),
        (
            "orthogonal-as-a-whole",
            "in weight_hh.split(weight_hh.shape[1])",
            "in [weight_hh]",
            "tests/networks/test_recurrent_cores.py::test_orthogonal_initialisation",
        ),
    ),
    *_in(
        "dtqn/networks/delta_rule.py",
        (
            "delta-rule-sees-the-next-step",
            "device=v.device).triu_(1)",
            "device=v.device).triu_(2)",
            _DELTA_CHUNKS,
        ),
        ("delta-rule-writes-all-of-a-value", "(beta * v, beta * g * k,", "(v, beta * g * k,", _DELTA_CHUNKS),
        (
            "delta-rule-forgets-nothing-between-chunks",
            "torch.baddbmm(keep * now, ek, u)",
            "torch.baddbmm(now, ek, u)",
            _DELTA_CHUNKS,
        ),
        (
            "delta-rule-learns-from-the-diagonal",
            "d_mix[:, 1].tril_(-1)",
            "d_mix[:, 1].tril_()",
            _DELTA_CHUNKS,
        ),
        (
            "delta-rule-decay-learns-nothing-from-a-chunk's-end",
            "d_log_end.sum(1) + g[:, -1] *",
            "0 * g[:, -1] *",
            _DELTA_CHUNKS,
        ),
        (
            "delta-step-forgets-nothing",
            "kept = start * torch.exp(log_alpha)",
            "kept = start",
            f"{_DELTANET}::test_a_step_is_the_papers",
        ),
        (
            "delta-rule-sums-lose-their-digits",
            "    log_alpha = log_alpha.clamp(min=FORGOTTEN)\n",
            "",
            f"{_DELTANET}::test_float32_is_stable",
        ),
    ),
    *_in(
        "dtqn/networks/deltanet.py",
        ("keys-of-any-length", "qk, v = unit(qk, 1e-6), v", "qk, v = qk, v", _DELTA_TWIN),
        ("unit-without-its-own-share", "torch.addcmul(grad, y, along, value=-1)", "grad", _DELTA_TWIN),
        (
            "heads-forget-what-they-should-keep",
            "-chrono_bias(num_heads",
            "chrono_bias(num_heads",
            f"{_DELTANET}::test_chrono_initialisation",
        ),
    ),
    *_in(
        "dtqn/networks/gates.py",
        ("gru-gate-swapped", "torch.lerp(x, h, z)", "torch.lerp(h, x, z)", _GATES),
        ("gru-gate-bias-turned", "z.sub_(bias)", "z.add_(bias)", _GATES),
        ("gru-gate-gradient-of-the-reset-lost", "addcmul_(d_rx, r)", "add_(d_rx)", _GATES),
        ("highway-gate-swapped", "torch.lerp(y, x, torch", "torch.lerp(x, y, torch", _GATES),
        ("output-gate-bias-turned", "self.w, -self.bias)), y)", "self.w, self.bias)), y)", _GATES),
        ("sigtanh-gate-swapped", "w, u = linear", "u, w = linear", _GATES),
        ("gate-open-at-first", '{"gru": 2.0', '{"gru": 0.0', _GATES),
    ),
    *_in(
        "dtqn/networks/attention.py",
        (
            "rounded-distances",
            "self.share.to(torch.promote_types(self.share.dtype, torch.float32))",
            "self.share",
            "tests/networks/test_gtrxl_options.py::test_distances_are_whole_beside_a_core_in_bfloat16",
        ),
        (
            "one-block-of-weights-for-a-backward-of-all",
            "kept = heads if any(ctx.needs_input_grad) else 1",
            "kept = 1",
            f"{_GTRXL}::test_packed_rows_are_padded_ones",
        ),
        (
            "weights-of-the-head-before-show-through",
            "d_by_key = torch.zeros_like(weights[0])",
            "d_by_key = torch.ones_like(weights[0])",
            f"{_GTRXL}::test_packed_rows_are_padded_ones",
        ),
        (
            "positions-shifted",
            "torch.arange(first, first + length,",
            "torch.arange(first + 1, first + length + 1,",
            f"{_GTRXL}::test_twin",
        ),
        ("attention-biases-swapped", "(self.v - self.u)", "(self.u - self.v)", f"{_GTRXL}::test_twin"),
        (
            "scores-slide-not",
            "(steps * keys, keys + 1, 1)",
            "(steps * keys, keys, 1)",
            f"{_GTRXL}::test_twin",
        ),
        (
            "queries-unscaled",
            "w[:heads], beta=scale, alpha=scale",
            "w[:heads], beta=scale, alpha=1.0",
            f"{_GTRXL}::test_twin",
        ),
        (
            "packed-gradient-of-the-queries-lost",
            "d_rows[len(rows) - len(new) :].addmm_(",
            "d_rows[len(rows) - len(new) :].addmm(",
            f"{_GTRXL}::test_packed_rows_are_padded_ones",
        ),
        (
            "packed-scores-of-another-head",
            "r, rv = relative[:, head * size : (head + 1) * size].T",
            "r, rv = relative[:, :size].T",
            f"{_GTRXL}::test_packed_rows_are_padded_ones",
        ),
        (
            "gradient-of-the-queries-lost",
            "ctx.shape[1] - steps :] +=",
            "ctx.shape[1] - steps :] *=",
            f"{_GTRXL}::test_twin",
        ),
        (
            "span-ramp-too-long",
            "self.ramp + z - distance",
            "self.ramp + 1 + z - distance",
            _GTRXL[:-3] + "_options.py",
        ),
    ),
    *_in(
        "dtqn/networks/recall.py",
        (
            "recall-of-what-may-have-been-shown",
            "(batch.episode_step == 0)",
            "(batch.episode_step >= 0)",
            _RECALL,
        ),
        (
            "recall-without-the-burn-in",
            ".cummax(dim=1).values[:, burned:]",
            "[:, burned:].cummax(dim=1).values",
            _RECALL,
        ),
        (
            "recall-alike-in-all-cases",
            "numbers[key] + case * size",
            "numbers[key]",
            f"{_RECALL}::test_the_values_of_a_space",
        ),
        ("recall-of-padding", "shown & real[..., None]", "shown", _RECALL),
    ),
    *_in(
        "dtqn/networks/packing.py",
        (
            "packed-gradient-of-another-row",
            "torch.index_select(grad.flatten(0, 1), 0, place,",
            "torch.index_select(grad.flatten(0, 1), 0, place.flip(0),",
            f"{_GTRXL}::test_packed_rows_are_padded_ones",
        ),
        (
            "packed-burn-in-one-step-late",
            "self._batch.burn_in.first.shape[1]), -count)",
            "self._batch.burn_in.first.shape[1]), 1 - count)",
            f"{_GTRXL}::test_packed_rows_are_padded_ones",
        ),
        (
            "packed-rows-that-fill-up-are-seen",
            "value=NOWHERE",
            "value=0",
            f"{_GTRXL}::test_packed_rows_are_padded_ones",
        ),
    ),
    *_in(
        "dtqn/networks/gtrxl.py",
        (
            "memory-unnormalised",
            "project_memory(self.normalised(memory))",
            "project_memory(memory)",
            _CONTRACT,
        ),
        ("positions-from-the-far-end", "len(self.positions) - reach - 1 :]", ": reach + 1]", _GTRXL),
        (
            "memory-shorter-by-one",
            "min(self.memory_length, num_memory",
            "min(self.memory_length - 1, num_memory",
            _CONTRACT,
        ),
        ("empty-memory-seen", "distance > held[", "distance > 1 + held[", _CONTRACT),
        ("newest-memory-hidden", "distance > held[", "distance >= held[", _CONTRACT),
        (
            "padding-of-a-burn-in-seen",
            "memory.counts + burn_in.counts + first_query",
            "memory.counts + first_query",
            f"{_GTRXL}::test_packed_rows_are_padded_ones",
        ),
        (
            "gradient-enters-the-state",
            "state.memory.detach(), state.filled",
            "state.memory, state.filled",
            f"{_GTRXL}::test_gradient_does_not_enter_the_state_but_its_projections_learn",
        ),
        (
            "memory-one-row-off",
            "memory.shape[1] + steps - self.window)",
            "memory.shape[1] + steps - self.window - 1)",
            _CONTRACT,
        ),
        ("fill-counted-once-a-call", "(filled + steps).clamp", "(filled + 1).clamp", _CONTRACT),
        (
            "attention-without-relu",
            "self.attention_gate(x, F.relu(y))",
            "self.attention_gate(x, y)",
            f"{_GTRXL}::test_twin",
        ),
        ("mlp-without-norm", "self.mlp(self.mlp_norm(x))", "self.mlp(x)", f"{_GTRXL}::test_twin"),
        (
            "invalid-trace-rows-count",
            "GTrXLState(memory, valid.sum(dim=1), ",
            "GTrXLState(memory, valid.sum(dim=1) * 0 + valid.shape[1], ",
            _CONTRACT,
        ),
        (
            "stale-cache-kept",
            "pairs = [layer.project_memory(recent[:, :, i])",
            "pairs = [layer.project_memory(recent[:, :, 0])",
            _CONTRACT,
        ),
    ),
    *_in(
        "dtqn/networks/windowed.py",
        ("window-shorter-by-one", "self.context_length - 1\n", "self.context_length - 2\n", _CONTRACT),
        ("window-slides-late", "(ends >= size)", "(ends > size)", _CONTRACT),
        ("context-after-the-block", "place, place - before + context)", "place, place)", _WINDOWED),
        (
            "second-window-one-row-early",
            "(total - size).clamp(min=0)",
            "(total - size - 1).clamp(min=0)",
            _WINDOWED,
        ),
        ("second-window-learns", "with torch.no_grad():", "with torch.enable_grad():", _WINDOWED),
    ),
]

REPLAY = [
    *_in(
        "replay/accumulator.py",
        (
            "anchor-a-row-late",
            "(self._layout.max_learn_rows - 1)",
            "self._layout.max_learn_rows",
            _ACCUMULATOR,
        ),
        (
            "anchors-by-length-not-period",
            "% self._layout.sequence_period",
            "% self._layout.learn_length",
            _ACCUMULATOR,
        ),
        ("anchor-on-the-last-row", "real = steps < transitions", "real = steps <= transitions", _ACCUMULATOR),
        (
            "tail-short-by-a-row",
            "transitions[:, None] - steps + 1, whole",
            "transitions[:, None] - steps, whole",
            _ACCUMULATOR,
        ),
        ("episode-left-open", "self._open[streams] = ~last", "self._open[streams] = True", _ACCUMULATOR),
        (
            "next-sequence-a-row-late",
            "_origin[streams] = last_rows",
            "_origin[streams] = last_rows + 1",
            _ACCUMULATOR,
        ),
        ("tail-repeats-an-anchor", "whole + 1) // period + 1, 0)", "whole + 1) // period, 0)", _ACCUMULATOR),
    ),
    *_in(
        "replay/sum_tree.py",
        ("tree-finds-the-leaf-before", 'side="right"', 'side="left"', _TREE),
        ("tree-takes-an-empty-leaf", "before[:, 1:] > mass", "before[:, 1:] >= mass", _TREE),
        ("tree-runs-over-a-node", "np.minimum(mass, before[:, -1] * BELOW_ONE, out=mass)", "pass", _TREE),
        ("tree-drifts", "self._top[block] = _children", "self._top[block] += _children", _TREE),
        ("tree-not-rebuilt", "self._top[:] = self._nodes", "self._top[:] += self._nodes", _TREE),
    ),
    *_in(
        "replay/samplers.py",
        ("priority-without-exponent", "(np.float64) ** self.priority_exponent", "(np.float64)", _SAMPLERS),
        (
            "newcomer-without-exponent",
            "self.max_priority**self.priority_exponent",
            "self.max_priority",
            f"{_SAMPLERS}::test_a_new_sequence_has_the_power_of_the_running_maximum_too",
        ),
        ("weights-turned", "** -self.importance", "** self.importance", f"{_SAMPLERS}::test_weights_by_hand"),
        (
            "weights-not-relative",
            "(weights / weights.max())",
            "weights",
            f"{_SAMPLERS}::test_weights_by_hand",
        ),
        (
            "largest-priority-forgotten",
            "max(self.max_priority, float(priorities.max()))",
            "float(priorities.max())",
            _SAMPLERS,
        ),
        (
            "draws-not-stratified",
            "np.arange(batch_size) + generator.random(batch_size)",
            "batch_size * generator.random(batch_size)",
            _SAMPLERS,
        ),
        ("removed-still-counted", "self.num_sequences -= len(slots)", "pass", _NAIVE),
    ),
    *_in(
        "replay/buffer.py",
        (
            "burn-in-before-the-episode",
            "np.minimum(anchor_steps, self.layout",
            "np.minimum(anchor_steps + 1, self.layout",
            _BUFFER,
        ),
        ("oldest-memory-row-invalid", "ages <= memory_rows[:, None]", "ages < memory_rows[:, None]", _BUFFER),
        (
            "ids-of-the-first-round",
            "newest - (newest - positions) % self.steps_per_stream",
            "positions",
            _NAIVE,
        ),
        ("stale-id-taken", "self._is_stored(streams, rows) & self._sampler", "self._sampler", _BUFFER),
        ("forgotten-a-row-late", "rows + self._reach)", "rows + self._reach - 1)", _NAIVE),
        (
            "forgets-not-at-a-first-row",
            "self._slots(streams, rows)] == 0",
            "self._slots(streams, rows)] < 0",
            _NAIVE,
        ),
        ("bootstrap-row-learned", "np.minimum(learn_rows - 1, self", "np.minimum(learn_rows, self", _BUFFER),
        (
            "cut-episode-without-last-row",
            "self._mark_last(which[tick.cut], tick.rows[tick.cut] - 1)",
            "pass",
            _BUFFER,
        ),
        ("ring-end-off-by-one", "offsets[crossing] >= size)", "offsets[crossing] > size)", _NAIVE),
    ),
]

TRAINING = [
    *_in(
        "dtqn/training/session.py",
        (
            "a-tick-before-the-evaluation-under-way",
            "self._record(signals)  # what",
            "None  # what",
            _EVALUATOR,
        ),
    ),
    *_in(
        "dtqn/training/staleness.py",
        (
            "memory-age-of-raw-rows",
            "np.minimum(batch.trace_valid.sum(dim=1).cpu().numpy(), self._schema.trace_window)",
            "batch.trace_valid.sum(dim=1).cpu().numpy()",
            f"{_STALENESS}::test_memory_age_is_of_stored_memory_alone",
        ),
        ("age-of-the-tail-too", "(row < end[:, None])", "(row < prefix.row_counts[:, None])", _STALENESS),
    ),
    Break(
        "tracker-ctrl-c-is-preemption",
        "dtqn/training/wandb_tracker.py",
        "not in (None, signal.SIGINT)",
        "is not None",
        ("tests/training/test_tracker.py::test_a_run_that_was_preempted_says_so_at_its_end",),
    ),
    *_in(
        "dtqn/training/checkpoint.py",
        (
            "checksum-ignored",
            "if _checksum(path) != checksum:",
            "if False:",
            f"{_CHECKPOINT}::test_a_damaged_file_is_one_line_that_names_it",
        ),
        (
            "checksum-of-the-skeleton-ignored",
            'if content["checksum"] != _checksum_of(content):',
            "if False:",
            f"{_FAULTS}::test_no_changed_bit_of_a_checkpoint_is_taken_for_the_truth",
        ),
        (
            "checksum-of-the-best-ignored",
            'if int(metadata["checksum"]) != _checksum_of_tensors(text, tensors):',
            "if False:",
            f"{_FAULTS}::test_no_changed_bit_of_a_checkpoint_is_taken_for_the_truth",
        ),
        (
            "pointer-before-the-checkpoint",
            "temporary.mkdir()\n",
            'temporary.mkdir(), write_whole(folder / _POINTER, name + "\\n", durable=True)\n',
            _CHECKPOINT,
        ),
        (
            "older-checkpoints-stay",
            "_remove(*(other for other in folder.iterdir() if other.is_dir() and other != whole))",
            "pass",
            f"{_CHECKPOINT}::test_the_newest_is_current_and_older_ones_go",
        ),
        (
            "same-step-overwritten",
            'f"{env_steps}-again" if',
            "str(env_steps) if",
            f"{_FAULTS}::test_the_same_step_twice_without_a_pointer_keeps_a_checkpoint_at_any_moment",
        ),
        (
            "oldest-without-a-pointer",
            "return max(whole)[1]",
            "return min(whole)[1]",
            f"{_FAULTS}::test_without_its_pointer_a_run_goes_on_from_the_newest_whole_checkpoint",
        ),
        (
            "scalars-become-arrays",
            '"scalar" if isinstance(node, np.generic) else "numpy"',
            '"numpy"',
            _CHECKPOINT,
        ),
        (
            "rows-copied-at-once",
            "pieces: Iterable[np.ndarray] = array.blocks()",
            "pieces: Iterable[np.ndarray] = [np.asarray(array)]",
            f"{_CHECKPOINT}::test_rows_of_replay_are_written_piece_by_piece",
        ),
        ("shape-lost", "tensor = arrays[path].reshape(shape)", "tensor = arrays[path]", _CHECKPOINT),
        ("views-not-copied", "tensor = tensor.clone()", "pass", _CHECKPOINT),
        (
            "unfinished-counts-as-whole",
            r're.fullmatch(r"\d+(-again)?", path.name)',
            r're.search(r"\d+", path.name)',
            _CHECKPOINT,
        ),
        (
            "failed-save-leaves-its-folder",
            "_remove(temporary, *([] if _pointed(folder) == name else [whole]))",
            "pass",
            f"{_FAULTS}::test_no_space_at_any_stage_of_a_save_leaves_nothing_behind",
        ),
    ),
    *_in(
        "dtqn/training/metrics.py",
        (
            "an-evaluation-without-a-stage-is-short",
            'row.get("eval/stage") in (None, 2)',
            'row.get("eval/stage") == 2',
            _COMPARED,
        ),
        ("rows-not-cut", "self._file.truncate(sum(len(line) + 1 for line in lines))", "pass", _METRICS),
        (
            "missing-rows-taken",
            "if len(lines) < rows:",
            "if False:",
            f"{_FAULTS}::test_fewer_rows_than_the_checkpoint_counts_are_refused",
        ),
        (
            "damaged-row-skipped",
            "        if row is None:\n            raise ConfigError(",
            "        if row is None:\n            continue\n            raise ConfigError(",
            f"{_FAULTS}::test_a_bad_row_in_the_middle_is_named_by_its_line",
        ),
        ("half-a-line-read", 'split(b"\\n")[:-1]', 'split(b"\\n")', _METRICS),
    ),
    *_in(
        "dtqn/training/evaluations.py",
        (
            "early-stop-by-the-mean",
            'goal.is_met(row.get("eval/success_low")',
            'goal.is_met(row.get("eval/success")',
            f"{_SESSION}::test_a_run_ends_at_the_success_that_was_asked_for",
        ),
        (
            "early-stop-never",
            'goal.is_met(row.get("eval/success_low"), of_return - NORMAL_QUANTILE * error)',
            "False",
            f"{_SESSION}::test_a_run_ends_at_the_success_that_was_asked_for",
        ),
        (
            "early-stop-by-the-mean-return",
            "of_return - NORMAL_QUANTILE * error",
            "of_return",
            f"{_SESSION}::test_a_run_ends_at_the_return_that_was_asked_for",
        ),
        (
            "best-is-the-last",
            "if self.best and not as_good and score",
            "if self.best and False and score",
            f"{_SESSION}::test_best_weights_are_those_of_the_best_evaluation",
        ),
    ),
    *_in(
        "dtqn/training/trainer.py",
        (
            "priorities-of-the-wrong-sequences",
            "update_priorities(info.ids, update",
            "update_priorities(info.ids[::-1], update",
            _WIRING,
        ),
        (
            "target-published",
            "list(self.network.parameters())",
            "list(self.learner.target.parameters())",
            _WIRING,
        ),
        ("the-policy-does-not-act", "publish(list(self.network", "publish(list(self.learner.online", _WIRING),
        ("the-online-network-is-evaluated", "ask(self.network,", "ask(self.learner.online,", _WIRING),
        ("first-priorities-always", "if len(ids) and from_actor:", "if len(ids):", _WIRING),
        ("first-rows-are-shown-by-a-step", "rows.novel[~rows.first]", "rows.novel", _WIRING),
        (
            "share-of-novelty-lost-in-a-checkpoint",
            'self.novel_share.set_state(state["novel_share"])',
            "pass",
            "tests/training/test_resume.py",
        ),
        (
            "generator-lost-in-a-checkpoint",
            'self.generator.bit_generator.state = state["generator"]',
            "pass",
            "tests/training/test_resume.py",
        ),
    ),
    *_in(
        "dtqn/training/updates.py",
        ("update-credit-late", "while self._credit >= 1:", "while self._credit > 1:", _WIRING),
        ("warmup-counts-for-updates", "max(before, self._warmup)", "before", _WIRING),
        (
            "credit-lost-in-a-checkpoint",
            '{"credit": self._credit}',
            '{"credit": 0.0}',
            "tests/training/test_resume.py",
        ),
        (
            "rollout-a-tick-late",
            "if self._ticks < self._length:",
            "if self._ticks <= self._length:",
            _ROLLOUTS,
        ),
        ("rollout-learned-again", "self._replay.forget(ids)", "pass", _ROLLOUTS),
        ("rollout-not-cut", "self._replay.end_sequences()", "pass", _ROLLOUTS),
        (
            "epochs-dealt-alike",
            "self._generator.permutation(self._replay.num_streams)",
            "np.arange(self._replay.num_streams)",
            _ROLLOUTS,
        ),
        (
            "rollout-learned-in-the-warmup",
            "if env_steps > self._warmup:\n            for",
            "if True:\n            for",
            _ROLLOUTS,
        ),
        (
            "ticks-lost-in-a-checkpoint",
            '{"ticks": self._ticks}',
            '{"ticks": 0}',
            f"{_ROLLOUTS}::test_it_goes_on_in_the_middle_of_a_rollout",
        ),
    ),
    *_in(
        "dtqn/training/evaluator.py",
        ("deaf-in-an-evaluation", "(stopped,) if isinstance", "() if isinstance", _EVALUATOR),
        ("every-evaluation-alike", "self._number += 1", "pass", _WIRING),
        ("same-chance-in-all-evaluations", "ACTIONS, number, *stage", "ACTIONS, *stage", _WIRING),
        ("estimate-on-the-learners-scale", " / self._learner.reward_scale", "", _EVALUATOR),
        (
            "estimate-of-rescaled-values",
            "value_transform(self._learner.value_rescaling)",
            "value_transform(False)",
            _EVALUATOR,
        ),
        (
            "returns-not-discounted",
            "stopped, config.learner.gamma, chance)",
            "stopped, 1.0, chance)",
            _EVALUATOR,
        ),
        ("endless-estimate-told", "mean if math.isfinite(mean) else None", "mean", _EVALUATOR),
    ),
    *_in(
        "dtqn/training/pool.py",
        (
            "pool-leads-by-one-more",
            "self._taken + self._max_lead:",
            "self._taken + self._max_lead + 1:",
            f"{_POOL}::test_every_stream_is_a_slow_twins",
        ),
        (
            "pool-overwrites-parameters-in-use",
            "if self._parameters in in_use:",
            "if False:",
            f"{_EXCHANGE}::test_parameters_in_use_are_not_overwritten",
        ),
        (
            "pool-forgets-rows-ahead",
            "self._asked if workers else self._taken",
            "self._taken",
            f"{_POOL}::test_a_resumed_run_goes_on_bit_for_bit",
        ),
        (
            "pool-same-seeds-again",
            "key=() if first else (number, member.incarnation)",
            "key=()",
            f"{_POOL}::test_what_cannot_be_saved_begins_anew",
        ),
        (
            "pool-counts-every-loss",
            "                member.losses = 0",
            "                pass",
            f"{_LOST_WORKERS}::test_an_episode_between_two_losses_makes_them_single_ones",
        ),
        (
            "pool-owes-nothing",
            "for request in member.asked:\n            self._send",
            "for request in []:\n            self._send",
            f"{_LOST_WORKERS}::test_a_lost_worker_is_replaced_and_its_episodes_are_cut",
        ),
        (
            "pool-uncounted-last-rows",
            "int((~rows.last).sum())",
            "len(rows.last)",
            f"{_POOL}::test_one_worker_in_lock_step_is_the_inline_run",
        ),
        (
            "pool-keeps-what-is-dropped",
            "        self._asked = self._taken\n\n    def metrics",
            "\n    def metrics",
            f"{_POOL}::test_a_short_run_with_workers_ends_with_an_update",
        ),
    ),
    *_in(
        "dtqn/training/acting_worker.py",
        (
            "worker-explores-by-its-own-count",
            "self._taken * self._num_envs // self.share.num_envs",
            "self._taken",
            f"{_POOL}::test_every_stream_is_a_slow_twins",
        ),
        (
            "worker-deaf-to-publishing",
            "if request.version != actor.version:",
            "if False:",
            f"{_POOL}::test_one_worker_in_lock_step_is_the_inline_run",
        ),
        (
            "worker-steps-a-broken-task",
            "if self._fault is not None:",
            "if False:",
            f"{_POOL}::test_a_fault_names_the_copy_of_the_run",
        ),
        (
            "worker-loses-its-parameters",
            "self._actor.publish(self.exchange.parameters[parameters], -1)",
            "pass",
            f"{_POOL}::test_a_resumed_run_goes_on_bit_for_bit",
        ),
    ),
    *_in(
        "dtqn/training/setup.py",
        (
            "every-worker-the-first-rungs",
            "exploration.final[share.copies]",
            "exploration.final[: share.num_envs]",
            f"{_POOL}::test_the_copies_are_shared_out",
        ),
    ),
    *_in(
        "dtqn/training/setup.py",
        ("greedy-evaluations-always", "if epsilon == 0:", "if epsilon < 1:", _WIRING),
        ("ladder-of-another-base", "config.ladder_base", "0.4 * 0.5", _WIRING),
        ("ladder-of-another-exponent", "config.ladder_exponent", "3.5", _WIRING),
    ),
]

ACTING = [
    *_in(
        "dtqn/acting/novelty.py",
        ("novelty-over-episodes", "shown.clear()", "pass", _NOVELTY),
        ("nothing-is-shown-twice", "shown.add(fingerprint)", "pass", _NOVELTY),
        ("share-of-all-steps", "min(self._steps + steps, _RECENT_STEPS)", "self._steps + steps", _NOVELTY),
        (
            "fingerprints-of-sums",
            "_factors(numbers.shape[1])",
            "_factors(1).repeat(numbers.shape[1])",
            _NOVELTY,
        ),
    ),
    *_in(
        "dtqn/acting/actor.py",
        ("one-draw-for-all-copies", "self.generator.random(count) <", "self.generator.random() <", _ACTOR),
        (
            "novelty-of-nobody",
            "if self.novelty is not None:\n            emitted",
            "if False:\n            emitted",
            _NOVELTY,
        ),
        ("optimism-of-nobody", "greedy if self.optimism is None else", "greedy if True else", _OPTIMISM),
        (
            "optimism-begins-anew-at-a-resume",
            'self.optimism.set_state(state["optimism"])',
            "pass",
            "tests/training/test_resume.py",
        ),
        ("what-optimism-did-is-forgotten", "self.optimism.acted(action, rows.first)", "pass", _OPTIMISM),
        ("value-of-the-greedy-action", "q_taken=q[everyone, action]", "q_taken=q[everyone, greedy]", _ACTOR),
        (
            "last-row-counts-as-a-step",
            "self.env_steps += count - int(rows.first.sum())",
            "self.env_steps += count",
            _ACTOR,
        ),
        (
            "state-not-reset",
            "reset_rows(state, initial, inputs.first[:, 0])",
            "state",
            _ACTOR,
        ),
        ("stale-keys-after-publishing", "self.state = self._cached(self.state)", "pass", _ACTOR),
        ("truncation-terminates", "discount=~rows.terminated", "discount=~rows.last", _ACTOR),
    ),
    *_in(
        "dtqn/acting/optimism.py",
        ("last-rows-count-as-tries", "self._copies[~first]", "self._copies", _OPTIMISM),
        ("no-try-is-infinitely-good", "(counts + 1.0)", "(counts + 0.5)", _OPTIMISM),
        (
            "copies-share-counters",
            "np.where(known[:, None], self._counts[self._copies,",
            "np.where(known[:, None], self._counts[0,",
            _OPTIMISM,
        ),
        ("counts-of-whose-place-it-was", "np.where(known[:, None], self", "np.where(True, self", _OPTIMISM),
        ("a-new-owner-keeps-counts", "self._counts[copies[new], at[new]] = 0", "pass", _OPTIMISM),
        ("one-place-for-all", "% np.uint64(self._places)", "% np.uint64(1)", _OPTIMISM),
        ("counts-of-the-saved-go-on", 'np.array(state["counts"])', 'state["counts"]', _OPTIMISM),
    ),
    *_in(
        "dtqn/acting/exploration.py",
        ("ladder-ends-early", "/ (num_envs - 1))", "/ num_envs)", _EXPLORATION),
        ("annealing-from-the-first-step", "env_steps - self.warmup_env_steps", "env_steps", _ACTOR),
        ("greedy-for-random", "< self.share, drawn, greedy)", "< self.share, greedy, drawn)", _EVALUATION),
    ),
    *_in(
        "dtqn/acting/statistics.py",
        ("wilson-as-wald", "2 * (episodes + square)", "2 * episodes", _EVALUATION),
        (
            "wilson-one-sided",
            "NORMAL_QUANTILE = 1.959963984540054",
            "NORMAL_QUANTILE = 1.6448536269514722",
            _EVALUATION,
        ),
    ),
    *_in(
        "dtqn/acting/evaluation.py",
        ("quota-without-remainder", "quota[: episodes % copies] += 1", "pass", _EVALUATION),
        ("one-episode-too-many", "wanted[:] = played < quota", "wanted[:] = played <= quota", _EVALUATION),
        ("discount-never-grows", "weight * gamma)", "weight)", _EVALUATION),
        ("discount-of-the-episode-before", "weight = np.where(rows.first, 1.0, ", "weight = (", _EVALUATION),
        (
            "q-of-the-last-decision",
            "(begins := rows.first[acting]).any()",
            "len(begins := acting >= 0)",
            _EVALUATION,
        ),
        (
            "evaluation-keeps-the-state",
            "reset_rows(state, initial, inputs.first[:, 0])",
            "state",
            _EVALUATION,
        ),
        ("stages-are-free", "self._spent += round(result.episodes * result.length)", "pass", _STAGES),
        ("first-stage-counts-as-best", "        if full:\n", "        if True:\n", _STAGES),
        (
            "rest-by-the-mean",
            "result.score_interval.high >= self._best",
            "result.score >= self._best",
            _STAGES,
        ),
        ("one-return-is-enough", "result.episodes < self.FEWEST)", "result.episodes < 0)", _STAGES),
        ("stages-forget-what-was-spent", '{"spent": self._spent', '{"spent": 0', _STAGES),
        ("goal-unread", "or self._goal.is_met(", "or Goal().is_met(", _STAGES),
        (
            "goal-of-return-by-the-mean",
            "result.episode_return + result.return_half_width)",
            "result.episode_return)",
            _STAGES,
        ),
    ),
    *_in(
        "dtqn/schedules.py",
        ("line-goes-on", "min(1.0, max(0.0, fraction))", "fraction", _EXPLORATION),
        (
            "exponential-too-slow",
            "(1 - 1 / duration) ** steps",
            "(1 - 1 / duration) ** (steps / 2)",
            _EXPLORATION,
        ),
    ),
]

EXPERIMENTS = [
    *_in(
        "dtqn/plots.py",
        (
            "note-wider-than-its-picture",
            "textwrap.fill(note, letters)",
            "note",
            "tests/test_plots.py::test_a_long_note_stays_within_the_picture",
        ),
        ("lines-that-hide-others", '+ above, "', ', "', "tests/test_plots.py"),
        ("learning-curves-of-other-widths", "if single or curve.marker:", "if True:", "tests/test_plots.py"),
    ),
    *_in(
        "dtqn/experiments/jobs.py",
        (
            "trainings-share-a-gpu",
            "else min(cores, len(gpus))",
            "else cores",
            "tests/experiments/test_jobs.py::test_by_default_each_training_has_a_cpu_and_a_gpu_of_its_own",
        ),
        (
            "killed-unsaved-where-an-error-follows-a-signal",
            "if kind is not KeyboardInterrupt:",
            "if self.caught is None:",
            "tests/experiments/test_jobs.py",
        ),
        ("a-lost-machine-is-a-killed-training", "len(self.rows) > self._begun_with", "False", _LAUNCHERS),
        (
            "a-lost-machine-may-always-go",
            "not self.killed and (handle.lost or",
            "(handle.lost or",
            _LAUNCHERS,
        ),
        (
            "a-loss-is-never-forgiven",
            'self.state, self.killed, self.news = "waiting", "", f"{why}; it goes on elsewhere"',
            'self.state, self.news = "waiting", f"{why}; it goes on elsewhere"',
            f"{_LAUNCHERS}::test_a_training_goes_on_as_often_as_its_machine_goes_if_it_gets_on",
        ),
        ("what-waits-elsewhere-runs", "if self._handle.where is None else", "if False else", _LAUNCHERS),
        (
            "a-closed-terminal-ends-all",
            "return closed and self._launcher.detached",
            "return False",
            _LAUNCHERS,
        ),
        ("nothing-is-adopted", "job._take(adopted)", "begun.append(job)", _LAUNCHERS),
        ("a-search-fills-the-queue", 'all(job.state == "running" for', "bool(1 for", _LAUNCHERS),
    ),
    *_in(
        "dtqn/experiments/transfer.py",
        ("current-before-whole", "key=lambda name: name == _POINTER", "key=str", _LAUNCHERS),
        ("all-travels-each-time", "if known.get(name) == stamps[name]", "if False", _LAUNCHERS),
        ("old-checkpoints-stay", "and path.name != current", "and False", _LAUNCHERS),
    ),
    *_in(
        "dtqn/experiments/launchers.py",
        (
            "all-of-the-environment-travels",
            'if name in kept or name.startswith("WANDB_")',
            "if name",
            _LAUNCHERS,
        ),
    ),
    *_in(
        "dtqn/experiments/slurm_launcher.py",
        ("slurm-warns-in-vain", "self._process.end(signal.SIGUSR1)", "self._process.kill()", _LAUNCHERS),
        (
            "queued-again-is-another-command",
            "DelayedSubmission(Training(self.command))",
            "DelayedSubmission(int)",
            _LAUNCHERS,
        ),
    ),
    *_in(
        "dtqn/signals.py",
        ("a-warning-kills", "if other not in _SCHEDULERS and not repeated", "if not repeated", _WARNING),
        ("sigterm-after-a-warning-kills", "not repeated and not warned", "not repeated", _WARNING),
    ),
    *_in(
        "dtqn/experiments/intervals.py",
        (
            "interval-of-four-runs",
            "LEAST_RUNS = 5\n",
            "LEAST_RUNS = 4\n",
            f"{_INTERVALS}::test_fewer_than_five_runs_have_no_interval",
        ),
        ("profile-of-rounding-errors", "levels[:, None] + _ROUNDING", "levels[:, None]", _PICTURES),
        ("interval-of-90-percent", "confidence_level=0.95", "confidence_level=0.9", _INTERVALS),
        ("mean-of-the-middle-80-percent", "axis=axis), 0.25, axis", "axis=axis), 0.1, axis", _INTERVALS),
        ("ties-are-wins", "0.5 * (abs(ahead) <= _ROUNDING)", "1.0 * (abs(ahead) <= _ROUNDING)", _INTERVALS),
        ("rounding-wins", "(ahead > _ROUNDING)", "(ahead > 0)", _INTERVALS),
        (
            "band-is-the-mean",
            "values.mean(axis=1), values.min(axis=1)",
            "values.mean(axis=1), values.mean(axis=1)",
            _INTERVALS,
        ),
    ),
    *_in(
        "dtqn/experiments/search.py",
        (
            "search-better-with-one-seed",
            "and all(own == value or mine",
            "and any(own == value or mine",
            _SEARCH,
        ),
        ("search-a-tie-is-better", "mine[i] > standings[own][i]", "mine[i] >= standings[own][i]", _SEARCH),
        ("search-steps-for-evaluations", "else at // period", "else at", _SEARCH),
        (
            "search-the-last-evaluation-ties-with-the-one-before",
            "-(-total // period) if at >= total else at // period",
            "at // period",
            f"{_SEARCH_FILE}::test_the_evaluation_at_the_end_is_later_than_the_one_before_it",
        ),
        (
            "search-what-is-no-agents",
            "if setting_of(setting) not in known:",
            "if setting_of(setting) is None:",
            f"{_SEARCH_FILE}::test_what_cannot_be_searched_is_refused",
        ),
        (
            "search-variants-misled-unsaid",
            "if agent in misled else",
            "if False else",
            f"{_SEARCH_FILE}::test_a_variant_is_not_given_what_was_chosen_for_another_unsaid",
        ),
        ("search-fallen-runs-got-there", "run.success >= SOLVED", "run.success >= 0", _SEARCH),
        ("search-worst-rank-is-chosen", "(theirs > mine)", "(theirs < mine)", _SEARCH),
        ("search-missing-runs-are-zero", "        if self.lacking:\n            return None\n", "", _SEARCH),
        (
            "search-no-goal-without-success",
            "run.env_steps < total",
            "run.env_steps < 0",
            _SEARCH_RETURNS,
        ),
        (
            "search-chosen-lies-below-the-given-file",
            "layers.merge(singles.get(agent, {}), values)",
            "layers.merge(values, singles.get(agent, {}))",
            _CHOSEN,
        ),
        (
            "search-variants-get-what-was-chosen-for-another",
            "elif finding.value is not None:",
            "elif finding.chosen is not None:",
            _CHOSEN,
        ),
    ),
    *_in(
        "dtqn/acting/rows.py",
        (
            "resume-loses-terminating-rows",
            "self._begins_with = generator",
            "self.begin(generator)",
            "tests/training/test_any_task.py::test_no_terminating_row_is_lost_by_a_resume_with_new_episodes",
        ),
    ),
    *_in(
        "dtqn/training/trained.py",
        (
            "changed-spaces-blamed-on-settings",
            "if directory.read_task_digest() is None or not directory.task_change(config):",
            "if True:",
            "tests/training/test_changed_task.py::test_a_task_whose_spaces_have_changed_does_not_fit",
        ),
    ),
    *_in(
        "dtqn/training/evaluations.py",
        (
            "best-weights-of-rows-that-are-gone",
            "is_exact or _is_of(figures, evaluations)",
            "True",
            "tests/training/test_faults.py::"
            "test_best_weights_of_rows_that_are_gone_are_lost_unless_they_come_out_again",
        ),
    ),
    *_in(
        "dtqn/training/evaluator.py",
        (
            "old-tasks-score-is-a-bar",
            "self._stages.forget_scores()",
            "pass",
            "tests/training/test_changed_task.py::test_what_another_task_was_worth_is_no_goal_and_no_bar",
        ),
    ),
    *_in(
        "dtqn/training/session.py",
        (
            "old-tasks-score-reaches-the-goal",
            "if about and not has_changed else {}",
            "if about else {}",
            "tests/training/test_changed_task.py::test_what_another_task_was_worth_is_no_goal_and_no_bar",
        ),
    ),
    *_in(
        "dtqn/experiments/sweep_file.py",
        (
            "sweep-parameter-twice",
            'if name in engine["parameters"]:',
            "if False:",
            "tests/experiments/test_sweep_file.py",
        ),
    ),
    *_in(
        "dtqn/commands/experiments.py",
        (
            "search-values-scaled-with-the-budget",
            "suite._replace(share=1.0)",
            "suite",
            f"{_SEARCH_FILE}::test_a_share_of_the_budget_leaves_the_values_as_they_are_given",
        ),
    ),
    *_in(
        "dtqn/experiments/comparison_table.py",
        (
            "first-evaluation-for-the-last",
            "last, solved = evaluations[-1]",
            "last, solved = evaluations[0]",
            _SOLVED,
        ),
        (
            "never-is-left-out-of-the-median",
            'float("inf") if time is None else time for time in times]',
            "time for time in times if time is not None]",
            _COMPARED,
        ),
        (
            "returns-of-all-tasks-averaged",
            "comparable = single or scale is not None",
            "comparable = True",
            f"{_COMPARISON}::test_returns_of_different_tasks_are_not_averaged",
        ),
        (
            "pooled-scores-not-normalised",
            "run.normalised if scale == NORMALISED else run.score for",
            "run.score for",
            f"{_SUITES}::test_the_tables_of_a_suite_by_hand",
        ),
    ),
    *_in(
        "dtqn/experiments/scores.py",
        ("solved-too-early", "SOLVED = 0.9\n", "SOLVED = 0.5\n", _COMPARED),
        ("first-stage-solves", "if is_full_evaluation(row):", "if True:", _SOLVED),
        ("short-evaluation-never-solves", "return episodes > 0 and", "return False and", _SOLVED),
        (
            "bsuite-counts-all-episodes",
            'if 0 < (row.get("train/episodes") or 0) <= episodes]',
            'if 0 < (row.get("train/episodes") or 0)]',
            f"{_SCORES}::test_bsuites_score_is_that_of_its_own_analysis",
        ),
        (
            "mmer-is-the-last-epochs",
            "best = mean if best is None else max(best, mean)",
            "best = mean",
            f"{_SCORES}::test_mmer_is_the_best_mean_return_of_an_epoch",
        ),
        (
            "mmer-is-the-mean-since-the-start",
            'episodes, total = float(row["train/episodes"] or 0), float(row["train/total_return"] or 0)',
            "episodes, total = 0.0, 0.0",
            f"{_SCORES}::test_mmer_is_the_best_mean_return_of_an_epoch",
        ),
        (
            "mmer-of-runs-that-ended-early",
            "if ended >= total_env_steps else None",
            "if ended else None",
            f"{_SCORES}::test_mmer_is_the_best_mean_return_of_an_epoch",
        ),
    ),
    *_in(
        "dtqn/inspection/sources.py",
        (
            "another-run-than-the-tables",
            "elif (end := _end(outcome[0])) != figures:",
            "elif (end := figures) != figures:",
            "tests/inspection/test_report.py::test_the_page_of_a_comparison",
        ),
        (
            "run-of-the-present-folder-first",
            "for base in (*folder.resolve().parents, Path()):",
            "for base in (Path(), *folder.resolve().parents):",
            "tests/inspection/test_report.py::test_a_run_is_looked_for_beside_its_comparison_first",
        ),
        (
            "exported-agent-reported-as-unfinished",
            "if directory.is_exported:",
            "if False:",
            "tests/inspection/test_report.py::test_what_is_refused",
        ),
    ),
    *_in(
        "dtqn/experiments/compare.py",
        (
            "no-score-in-common",
            "if one != other:",
            "if False:",
            "tests/experiments/test_compare.py::"
            "test_runs_with_and_without_a_success_are_refused_before_any_is_trained",
        ),
    ),
    *_in(
        "dtqn/experiments/suite_pictures.py",
        (
            "zero-on-a-logarithmic-axis",
            "log=all_positive",
            "log=True",
            "tests/experiments/test_suite_pictures.py::test_lengths_from_1_on_are_on_a_logarithmic_axis",
        ),
    ),
    *_in(
        "envs/wrappers.py",
        (
            "single-value-becomes-a-vector-in-the-dark",
            "return Box(lowest, highest, space.shape, space.dtype.type)",
            "return Box(np.minimum(space.low, 0), np.maximum(space.high, 0), dtype=space.dtype.type)",
            "tests/envs/test_wrappers.py::test_flicker_darkens_whole_rows_at_random",
        ),
    ),
    *_in(
        "dtqn/experiments/comparison_forms.py",
        (
            "empty-columns-kept",
            "if not (name.endswith(_MAY_BE_EMPTY) and",
            "if not (False and",
            "tests/experiments/test_comparison_forms.py::test_a_column_that_no_row_fills_is_left_out",
        ),
    ),
    *_in(
        "dtqn/experiments/comparison_table.py",
        (
            "env-steps-as-updates",
            "learner_steps=_median_time([run.learner_steps for",
            "learner_steps=_median_time([run.env_steps for",
            "tests/experiments/test_compare.py::test_killed_twice_it_ends_with_the_right_table",
        ),
        (
            "success-of-random-play-hidden",
            "and (single or beside.score",
            "and (False or beside.score",
            "tests/experiments/test_comparison_table.py::"
            "test_random_play_has_a_success_beside_the_return_that_a_suite_scores_by",
        ),
    ),
    *_in(
        "dtqn/experiments/suites.py",
        (
            "suite-built-on-lies-over-its-own-keys",
            "return {**base, **content}",
            "return {**content, **base}",
            f"{_SUITES}::test_a_suite_that_builds_on_another_has_its_keys_but_for_its_own",
        ),
        (
            "two-scores-in-one-column",
            "if twice := [kind for kind in kinds if kinds.count(kind) > 1]:",
            "if twice := []:",
            _SUITES,
        ),
        (
            "share-of-all-tasks-over-a-tasks-setting",
            "shares[0] = without(shares[0], settings[1])",
            "pass",
            f"{_SUITES}::test_a_tasks_settings_lie_over_the_shares_of_all_tasks",
        ),
        (
            "warm-up-of-a-share-not-scaled",
            '"warmup_env_steps": round(config.warmup * self.share)',
            '"warmup_env_steps": config.warmup',
            f"{_SUITES}::test_a_share_of_the_budget_scales_all_that_depends_on_it",
        ),
        (
            "episodes-of-a-share-not-scaled",
            "episodes=max(1, round(score.episodes * share))",
            "episodes=score.episodes",
            f"{_SUITES}::test_a_share_of_the_budget_scales_all_that_depends_on_it",
        ),
    ),
    *_in(
        "dtqn/training/metrics.py",
        (
            "metrics-cut-counted",
            "(last or 0) < ended",
            "(last or 0) < 0",
            f"{_RECORDS}::test_a_finished_run_whose_metrics_were_cut_is_in_no_table",
        ),
    ),
    *_in(
        "dtqn/training/session.py",
        (
            "failing-core-is-a-traceback",
            "if (fault := own.fault(error)) is None:",
            "if (fault := own.fault(error)) or True:",
            "tests/training/test_own_networks.py::test_a_core_that_fails_amid_a_run_is_one_line",
        ),
    ),
    *_in(
        "envs/errors.py",
        ("exit-of-a-task-ends-the-run", "(Exception, SystemExit)", "(Exception,)", _TASK_FAULTS),
    ),
    *_in(
        "dtqn/training/worker.py",
        (
            "worker-ends-by-what-tasks-raise",
            "            raise _Ended",
            "            raise SystemExit",
            "tests/training/test_worker.py::test_what_catches_an_exit_does_not_hold_a_worker",
        ),
    ),
    *_in(
        "envs/guard.py",
        ("written-arguments-unnoticed", "if copy.tobytes() != array.tobytes():", "if False:", _NOTICED),
        (
            "task-writes-to-stored-actions",
            "copies = [array.copy() for array in arrays.values()]",
            "copies = list(arrays.values())",
            _NOTICED,
        ),
    ),
    *_in("envs/testing.py", ("copies-not-compared", "if count >= 20:", "if count >= 60:", _NOTICED)),
    *_in(
        "envs/adapters/spaces.py",
        (
            "parts-of-one-path-lost",
            "if keys.count(key) > 1",
            "if keys.count(key) > 2",
            "tests/envs/test_adapters.py::test_what_has_no_place_is_named",
        ),
    ),
    *_in(
        "envs/adapters/plain.py",
        (
            "text-is-success",
            " or value not in (0, 1):",
            ":",
            f"{_TASK_FAULTS}::test_success_is_either_true_or_false",
        ),
        (
            "failing-close-is-a-traceback",
            'self._attempt("close", self.env.close)',
            "self.env.close()",
            f"{_TASK_FAULTS}::test_a_trial_names_task_and_field",
        ),
        (
            "any-picture-will-do",
            "if problem := picture_problem(picture):",
            "if problem := None:",
            "tests/envs/test_pictures.py::test_what_is_no_picture_is_one_line",
        ),
    ),
    *_in(
        "dtqn/networks/own.py",
        (
            "own-function-spoils-the-settings",
            "mine = config.model_copy(deep=True)  # a",
            "mine = config  # a",
            "tests/training/test_own_networks.py::"
            "test_settings_of_ones_own_reach_both_functions_whatever_they_do_to_them",
        ),
    ),
    *_in(
        "dtqn/settings/rules.py",
        (
            "unread-kwargs-taken",
            "if not network.kwargs or is_own",
            "if True or is_own",
            f"{_CONFIG}::test_settings_of_ones_own_that_are_wrong_are_one_line",
        ),
    ),
    *_in(
        "dtqn/settings/presets.py",
        (
            "own-task-gets-a-preset",
            "if entry_points.split(str(env)):",
            "if False:",
            f"{_PRESETS}::test_the_presets_of_a_task_begin_its_name_up_to_the_end_of_a_word",
        ),
        (
            "settings-of-single-agents-unread",
            "return [self.layer, own] if own else [self.layer]",
            "return [self.layer]",
            f"{_PRESETS}::test_a_files_settings_of_single_agents_lie_over_those_of_all",
        ),
        (
            "task-of-a-single-agent",
            'if "task" in layer.values:\n        raise ConfigError(f"{source}',
            'if False:\n        raise ConfigError(f"{source}',
            f"{_PRESETS}::test_a_mistake_in_settings_of_single_agents_is_one_line",
        ),
        (
            "horizon-of-no-length",
            "return NO_HORIZON if found is None else found",
            "return found",
            f"{_PRESETS}::test_the_horizon_of_a_task_without_one_is_one_line_unless_a_flag_gives_a_number",
        ),
    ),
    *_in(
        "dtqn/experiments/jobs.py",
        (
            "ended-well-without-a-result",
            "if self.directory.read_result() is not None:",
            "if code == 0:",
            "tests/experiments/test_jobs.py::test_a_training_that_ends_well_without_a_result_has_failed",
        ),
    ),
    *_in(
        "dtqn/policy.py",
        (
            "picture-of-floats-is-black",
            'floats = "f" if dtype.kind == "f" else ""',
            'floats = "f"',
            "tests/test_policy.py::test_a_picture_is_of_the_bytes_of_its_space",
        ),
    ),
    *_in(
        "dtqn/training/setup.py",
        (
            "policy-takes-any-category",
            "            check(observation)",
            "            pass",
            "tests/test_policy.py::test_what_the_task_cannot_show_is_one_line",
        ),
    ),
    *_in(
        "dtqn/testing/cores.py",
        ("trace-checked-as-it-is", "x.to(self.stored_as.get(name, x.dtype))", "x", _CORES),
        ("windows-checked-to-64", "LONGEST_WINDOW: Final = 2048", "LONGEST_WINDOW: Final = 64", _CORES),
        ("call-without-trace-may-write", "in (True, False):", "in (True,):", _CORES),
        (
            "state-from-trace-may-write",
            "given, lambda: core.state_from_trace(rows, valid, steps)",
            "given, lambda: None",
            _CORES,
        ),
        (
            "checked-in-float64-alone",
            "torch.float32, promises.MANY)",
            "torch.float64, promises.MANY)",
            _CORES,
        ),
        ("frozen-core-passes", "core.must(bool(of_x.any()), contract", "core.must(True, contract", _CORES),
    ),
    *_in(
        "dtqn/testing/promises.py",
        ("small-batches-alone", "MANY: Final = 33", "MANY: Final = 4", _CORES),
        ("stale-weights-pass", "    output(other)  # what", "    # what", _CORES),
        ("encoder-may-write-to-its-inputs", "leaf, kept[path], 0.0)", "leaf, leaf, 0.0)", _ENCODERS),
    ),
    *_in(
        "dtqn/experiments/records.py",
        (
            "an-edited-result-counts",
            "return of_record(config, of_run(config, result, rows), where)",
            'return Outcome(config, "finished", rows, result, where, "", metrics=late_means(rows))',
            f"{_RECORDS}::test_a_result_that_was_edited_is_one_line",
        ),
        (
            "record-of-a-changed-task-counted",
            "if record.result.task != digest:",
            "if False:",
            f"{_RECORDS}::test_a_run_of_a_task_that_has_changed_is_not_counted",
        ),
        (
            "record-without-the-ends-of-epochs",
            "for row in reversed(rows)}",
            "for row in rows}",
            f"{_RECORDS}::test_a_record_has_the_ends_of_all_epochs_of_the_longest_published_budget",
        ),
        (
            "record-cut-counted",
            "if not steps or steps[-1] != self.result.env_steps:",
            "if False:",
            f"{_RECORDS}::test_a_record_that_contradicts_itself_is_none",
        ),
        (
            "record-of-other-settings-counted",
            "if self.settings_hash not in (",
            "if None in (",
            f"{_RECORDS}::test_a_record_that_contradicts_itself_is_none",
        ),
        (
            "record-that-is-damaged-overwritten",
            "        if file.exists():\n",
            "        if False:\n",
            f"{_RECORDS}::test_a_damaged_or_foreign_file_costs_one_line_and_is_left_as_it_is",
        ),
        (
            "record-without-its-last-row",
            "found = found[::-2][::-1]",
            "found = found[::2]",
            f"{_RECORDS}::test_a_long_run_has_a_small_record_with_its_last_rows",
        ),
        (
            "record-without-the-means-of-metrics",
            '"metrics": late_means(rows),',
            '"metrics": {},',
            f"{_RECORDS}::test_a_table_of_a_long_run_is_that_of_its_record",
        ),
    ),
    *_in(
        "dtqn/training/metrics.py",
        (
            "means-of-the-whole-run",
            'if 2 * int(row["env_steps"] or 0) >= last',
            "if True",
            "tests/training/test_metrics.py::test_the_means_of_the_second_half",
        ),
    ),
    *_in(
        "dtqn/training/trainer.py",
        (
            "tally-lost-at-a-resume",
            '*tally, self._told = state["tally"]',
            "*tally, self._told = 0, 0.0, 0, 0",
            f"{_SCORES}::test_a_trainings_tally_counts_every_episode_and_goes_on",
        ),
        (
            "replay-of-categories-that-have-moved",
            "if fault := setup.observation_fault(setup.task_spec(self.config))(shown):",
            "if fault := None:",
            f"{_CHANGED}::test_a_task_whose_categories_have_moved_does_not_fit",
        ),
    ),
    *_in(
        "dtqn/experiments/importance.py",
        (
            "fitted-to-what-is-held-out",
            ".fit(table[fitted], result[fitted])",
            ".fit(table, result)",
            f"{_IMPORTANCE}::test_noise_depends_on_nothing",
        ),
        (
            "least-important-first",
            "key=lambda share: -share.importance",
            "key=lambda share: share.importance",
            f"{_IMPORTANCE}::test_importance_finds_what_matters",
        ),
        (
            "best-division-counts",
            "r2 = float(min(whole))",
            "r2 = float(max(whole))",
            f"{_IMPORTANCE}::test_held_out_figures_by_hand",
        ),
        (
            "importance-of-few-runs",
            "LEAST_RUNS = 20\n",
            "LEAST_RUNS = 5\n",
            f"{_IMPORTANCE}::test_importance_finds_what_matters",
        ),
    ),
]

SETTINGS = [
    *_in(
        "dtqn/settings/config.py",
        (
            "default-learning-rate",
            "learning_rate: float = Field(1e-3",
            "learning_rate: float = Field(2e-3",
            _RECORDED,
        ),
        ("default-discount", "gamma: float = Field(0.99", "gamma: float = Field(0.98", _RECORDED),
        (
            "default-reward-scale",
            "reward_scale: float = Field(0.2",
            "reward_scale: float = Field(1.0",
            _RECORDED,
        ),
        (
            "unknown-keys-taken",
            'extra="forbid"',
            'extra="ignore"',
            f"{_PRESETS}::test_an_unknown_key_is_named_with_the_nearest",
        ),
        (
            "settings-change-later",
            "frozen=True",
            "frozen=False",
            f"{_CONFIG}::test_settings_cannot_be_changed_after",
        ),
        ("infinity-taken", "allow_inf_nan=False", "allow_inf_nan=True", _VALUES),
    ),
    *_in(
        "dtqn/settings/layers.py",
        (
            "whole-mapping-laid-over-another",
            "and not isinstance(value, Whole)",
            "",
            "tests/settings/test_config.py::test_one_setting_of_ones_own_is_laid_over_the_others",
        ),
        (
            "whole-mapping-written-as-one-to-be-laid-over-others",
            "return dumper.represent_str(",
            "return dumper.represent_dict(value) or str(",
            "tests/settings/test_config.py::test_a_mapping_given_as_text_is_written_as_text",
        ),
    ),
    *_in(
        "dtqn/settings/presets.py",
        (
            "a-whole-file-under-another-agents-name",
            "if agent.name != other and agent.preset.source != str(_agent_file(other, configs)):",
            "if False:",
            f"{_COMPARE}::test_a_file_that_makes_two_agents_one_is_refused",
        ),
        (
            "preset-of-a-task-ends-amid-a-word",
            "(?![a-z])",
            "",
            f"{_PRESETS}::test_the_presets_of_a_task_begin_its_name_up_to_the_end_of_a_word",
        ),
        (
            "horizon-without-the-time-limit",
            "_with_horizon(layer.values, env, limit)",
            "_with_horizon(layer.values, env, None)",
            f"{_SUITES}::test_settings_are_the_suites_for_every_agent_with_its_shares_and_horizons",
        ),
        (
            "shorter-env-preset-on-top",
            "key=lambda path: len(path.stem)",
            "key=lambda path: -len(path.stem)",
            f"{_PRESETS}::test_layers_in_their_order",
        ),
        (
            "task-over-a-published-agent",
            "[*task, agent.preset] if agent.over_task else",
            "[*task, agent.preset] if not agent.preset else",
            "tests/settings/test_paper_configs.py::test_an_agent_is_as_published_on_every_task",
        ),
        (
            "suite-over-a-published-agent",
            "kept = agent.preset.values if agent.over_task else {}",
            "kept: dict[str, Any] = {}",
            f"{_PRESETS}::test_a_suites_settings_change_nothing_of_a_published_agent",
        ),
    ),
    *_in(
        "dtqn/settings/rules.py",
        (
            "heads-rule-dropped",
            "    _heads_divide_the_width,\n",
            "",
            f"{_RULES}::test_sizes_that_contradict_each_other",
        ),
        ("atoms-rule-dropped", "    _atoms_have_a_range,\n", "", _RULES),
        ("entropy-rule-dropped", "    _entropies_are_not_rescaled,\n", "", _RULES),
        ("policy-rule-dropped", "    _a_policy_is_a_running_mean,\n", "", _RULES),
        ("centre-rule-dropped", "    _only_novelty_is_centred,\n", "", _RULES),
        (
            "own-modules-are-recorded",
            " and not (is_own(network.core) or is_own(network.encoder))",
            "",
            f"{_RULES}::test_graphs_are_recorded_where_they_hold_the_run_for_certain",
        ),
        ("period-rule-dropped", "= (_every_step_is_learned,)", "= ()", _RULES),
    ),
]

ENVS = [
    *_in(
        "envs/vector.py",
        ("return-over-episodes", "            self._return[first] = 0.0\n", "", _BOOKKEEPING),
        ("steps-over-episodes", "            self._elapsed[first] = 0\n", "", _BOOKKEEPING),
        ("reward-of-a-first-row", "            reward[first] = 0.0\n", "", _BOOKKEEPING),
        (
            "limit-one-step-late",
            "self._elapsed >= self.time_limit",
            "self._elapsed > self.time_limit",
            _VECTOR,
        ),
        ("truncated-and-terminated", "            truncated &= ~terminated\n", "", _VECTOR),
        (
            "secret-of-the-first-copies",
            "x[rows] for name, x in",
            "x[: len(rows)] for name, x in",
            "tests/envs/test_other.py",
        ),
        ("success-in-mid-episode", '{"is_success": last & success}', '{"is_success": success}', _VECTOR),
    ),
    *_in(
        "envs/adapters/plain.py",
        (
            "adapted-return-over-episodes",
            "        self._return = self._size = 0.0\n        return self._seen",
            "        return self._seen",
            _BOOKKEEPING,
        ),
    ),
    *_in(
        "envs/wrappers.py",
        ("frames-over-episodes", "            frames[first] = array[first, None]\n", "", _WRAPPERS),
        (
            "noise-in-the-stream-of-the-task",
            "spawn_key=(*root.spawn_key, *name)",
            "spawn_key=root.spawn_key",
            _WRAPPERS,
        ),
        ("flicker-of-what-is-seen", ">= self.probability", "< self.probability", _WRAPPERS),
    ),
    *_in(
        "envs/gridverse/rewards.py",
        (
            "exits-swapped",
            "own == good, reward_good",
            "own != good, reward_good",
            "tests/envs/test_gridverse_recordings.py",
        ),
    ),
    *_in(
        "envs/gridverse/transitions.py",
        ("through-walls", "    moved[stays] = 0\n", "", "tests/envs/test_functions.py"),
    ),
    *_in(
        "envs/pomdp/dynamics.py",
        (
            "observed-before-the-move",
            "self._observation.draw(first_row + self._state,",
            "self._observation.draw(first_row + state,",
            "tests/envs/test_pomdp_dynamics.py",
        ),
    ),
    *_in(
        "envs/t_maze.py",
        (
            "oracle-on-every-visit",
            "shown = (self._x == 0) & ~self._visited",
            "shown = self._x == 0",
            "tests/envs/test_t_maze.py",
        ),
        (
            "late-a-step-later",
            "self._time - self._start",
            "self._time - self._start - 1",
            "tests/envs/test_t_maze.py",
        ),
    ),
    *_in(
        "envs/memory_cards.py",
        (
            "a-card-is-its-own-mate",
            "match = same & (action != shown)",
            "match = same",
            "tests/envs/test_memory_cards.py",
        ),
    ),
    *_in(
        "envs/own.py",
        ("any-number-of-names", "if names and len(names) != actions:", "if False:", _NAMES),
    ),
    *_in(
        "envs/numpad.py",
        (
            "names-anticlockwise",
            '"no push", "up", "up right", "right"',
            '"no push", "up", "up left", "left"',
            _NAMES,
        ),
    ),
    *_in(
        "envs/car_flag.py",
        (
            "side-is-never-out-of-earshot",
            "np.where(heard, self._heaven, 0.0)",
            "self._heaven",
            "tests/envs/test_car_flag.py",
        ),
        (
            "sign-of-zero-tells",
            "np.where(heard, self._heaven, 0.0)",
            "self._heaven * heard",
            "tests/envs/test_car_flag.py",
        ),
    ),
    *_in(
        "envs/bsuite.py",
        ("context-in-one-row", "np.maximum(self._time - 1, 0)", "self._time", _BSUITE),
        (
            "another-bit-is-asked-for",
            "self._context[np.arange(len(action)), self._query]",
            "self._context[:, 0]",
            _BSUITE,
        ),
        ("chain-changes-later", "np.where(self._time == 0, action, self._chain)", "action", _BSUITE),
    ),
    *_in(
        "envs/popgym.py",
        ("mode-one-row-later", "rows[:, : n - 1, 0] = 1", "rows[:, :n, 0] = 1", _POPGYM),
        ("named-forwards", "cards[:, ::-1]", "cards", _POPGYM),
        ("counted-before-the-card", "axis=1, dtype=np.int8)", "axis=1, dtype=np.int8) - 1", _POPGYM),
        (
            "previous-is-k-rows-ago",
            "right[:, k - 1 :] = cards[:, : cards.shape[1] - k + 1]",
            "right[:, k:] = cards[:, : cards.shape[1] - k]",
            _POPGYM,
        ),
        (
            "queries-are-the-cards",
            "self._dealt[name][rows] = rng.permuted(",
            "self._dealt[name][rows] = np.random.default_rng(0).permuted(",
            _POPGYM,
        ),
        ("a-card-turned-twice-is-a-pair", " & (action != first)", "", _POPGYM),
        ("a-found-card-is-found-again", " & ~found_before", "", _POPGYM),
        ("a-found-card-opens-a-turn", "np.where(found_before, -1, action)", "action", _POPGYM),
        (
            "the-second-card-is-not-seen",
            "for turned in (self._first, self._second):",
            "for turned in (self._first,):",
            _POPGYM,
        ),
    ),
    *_in(
        "benchmarks/junction.py",
        ("late-at-the-junction", "whole & (at_junction[rows, last - 1] == 1)", "whole", _JUNCTION),
        ("goals-seen-again", "(at_junction == 0), y, 0.0)", "(at_junction >= 0), y, 0.0)", _JUNCTION),
        ("own-actions-at-the-cue", "policy.acted(taken)", "pass", _JUNCTION),
    ),
    *_in(
        "benchmarks/shuffled.py",
        ("never-shuffled", "rng.random(len(action)) < 0.5", "rng.random(len(action)) < 0", _VERDICTS),
    ),
    *_in(
        "benchmarks/verdict_tasks.py",
        ("lamp-lit-at-the-end", "(asked & self.shown_again)", "asked", _VERDICTS),
    ),
    *_in(
        "benchmarks/verdicts.py",
        ("any-stack-is-short", "needs.stack <= case.most_steps", "True", _VERDICTS),
    ),
    *_in(
        "benchmarks/layouts.py",
        (
            "layouts-of-the-last-episode",
            "start[rows.first] = part[rows.first]",
            "start[rows.last] = part[rows.last]",
            _LAYOUTS,
        ),
        ("layouts-seen-from-an-exit", "(reached & ~exits)[:, :-1]", "reached[:, :-1]", _CHANCES),
    ),
    *_in(
        "benchmarks/popgym.py",
        (
            "known-pairs-at-once",
            "np.where(unseen > 0, unseen_first, -np.inf)",
            "np.where((unseen > 0) & ~(self.seen > 1).any(axis=1), unseen_first, -np.inf)",
            _POPGYM,
        ),
        ("no-step-is-wasted", "np.maximum(value, wasted)", "value", _POPGYM),
    ),
]

SHARED: list[Break] = [
    *_in(
        "dtqn/export/certificate.py",
        (
            "digest-with-clocks",
            "json.dumps(without_clocks(row), sort_keys=True)",
            "json.dumps(row)",
            _CERTIFICATE,
        ),
        ("certified-rows-of-no-update", 'if "learner/loss" in row]', "]", _CERTIFICATE),
    ),
    *_in(
        "dtqn/export/rerun.py",
        ("rerun-without-evaluations", "row = row | evaluated.metrics", "pass", _RERUN),
        ("rerun-without-figures-so-far", "row | evaluations.tally(row)", "row", _RERUN),
    ),
    *_in(
        "dtqn/export/verify.py",
        ("any-file-is-the-file", "(found := certificate.file_digest(path)) != digest", "not path", _VERIFY),
        ("any-setting-is-the-setting", "stated.get(name) != value", "name not in stated", _VERIFY),
        ("elsewhere-a-row-must-be-the-same", "if why else Finding", "if not why else Finding", _VERIFY),
        (
            "intervals-always-overlap",
            "and other_low <= high + close",
            "or other_low <= high + close",
            _VERIFY,
        ),
    ),
    *_in(
        "dtqn/training/directory.py",
        (
            "an-exported-agent-is-trained-anew",
            "if self.is_exported:\n            raise",
            "if False:\n            raise",
            _EXPORT,
        ),
    ),
    *_in(
        "dtqn/inspection/measures.py",
        (
            "a-cue-is-held-from-its-first-row",
            "np.maximum.accumulate(np.where(found.rows, steps, -1))",
            "np.flatnonzero(found.rows)[0]",
            "tests/inspection/test_debug.py::test_a_cue_in_sight_is_not_remembered",
        ),
        (
            "the-last-row-is-exchanged-too",
            "before = rows & (np.arange(len(rows)) < last)",
            "before = rows",
            "tests/inspection/test_debug.py::test_a_network_without_memory_holds_no_cue",
        ),
    ),
    *_in(
        "dtqn/inspection/episodes.py",
        ("reward-of-the-step-before", "rows.reward))", "inputs.reward[:, 0].numpy()))", _REPORT),
        ("secret-of-all-copies", "if asked and others[0]", "if others[0]", _REPORT),
    ),
    *_in(
        "dtqn/inspection/verdict.py",
        ("stacks-of-any-length-do", "if x.low >= best_agent.high - margin]", "]", _VERDICT),
        ("rival-by-its-upper-end", "memoryless[run].low)", "memoryless[run].high)", _VERDICT),
    ),
    *_in(
        "dtqn/inspection/trials.py",
        ("stacks-count-as-no-memory", "if steps > 1:", "if steps > 99:", _DEBUG),
        ("any-core-is-no-memory", 'other.network.core != "none"', "False", _DEBUG),
    ),
    *_in(
        "docs/reference.py",
        (
            "any-name-is-there",
            "            except ImportError:\n                return False",
            "            except ImportError:\n                return True",
            "tests/test_reference.py",
        ),
    ),
    *_in(
        "dtqn/inspection/sending.py",
        ("untracked-runs-sent", " or not run.directory.has_wandb_id", "", "tests/inspection/test_sending.py"),
        ("page-loses-the-rows", "run.outcome.rows, say", "[], say", "tests/inspection/test_sending.py"),
    ),
    *_in(
        "dtqn/inspection/curves.py",
        ("rows-weigh-alike", "weights=part[:, 2]", "weights=None", _REPORT),
    ),
    *_in(
        "dtqn/inspection/drawing.py",
        (
            "the-next-decision-is-named",
            "episode.dependence[t, : t + 1]",
            "episode.dependence[-1, : t + 1]",
            _DRAWING,
        ),
        (
            "halves-upside-down",
            "(_colour(upper), _colour(lower))",
            "(_colour(lower), _colour(upper))",
            _DRAWING,
        ),
    ),
    *_in(
        "dtqn/training/tracker.py",
        ("one-refusal-ends-a-tracker", "if lost is None:", "if True:", "tests/training/test_tracker.py"),
    ),
    *_in(
        "dtqn/training/tensorboard_tracker.py",
        ("rows-twice-after-a-resume", "old.unlink()", "pass", "tests/training/test_tensorboard.py"),
    ),
]

RANKS = [
    *_in(
        "replay/samplers.py",
        (
            "weights-of-the-shard",
            "largest = exchange.gather([weights.max(initial=0.0)]).max()",
            "largest = weights.max(initial=0.0)",
            f"{_SHARDS}::test_weights_by_hand",
        ),
        (
            "probabilities-of-the-shard",
            "leaves[slots] / total\n        weights = self._weights(counts",
            "leaves[slots] / totals[exchange.rank]\n        weights = self._weights(counts",
            f"{_SHARDS}::test_a_joint_draw_is_that_of_one_replay",
        ),
        ("sequences-of-the-shard", "_weights(counts.sum()", "_weights(self.num_sequences", _SHARDS),
    ),
    *_in(
        "replay/shards.py",
        (
            "means-of-shards-unweighted",
            "np.average(mean, weights=counts)",
            "np.average(mean)",
            f"{_SHARDS}::test_statistics_are_of_all_shards",
        ),
    ),
    *_in(
        "dtqn/learning/learner.py",
        ("gradient-of-one-rank", "self._ranks.add_(gradients)", "pass", _AS_ONE),
        ("loss-over-own-steps", "torch.tensor(int(learned.sum())", "torch.tensor(int(num_learned)", _AS_ONE),
        (
            "own-place-in-the-batch",
            "_DROPOUT, before + size)[before:]",
            "_DROPOUT, size)",
            _AS_ONE,
        ),
        ("metrics-of-one-rank", "self._of_all_ranks(sums, highest)", "sums | highest", _AS_ONE),
        (
            "checksum-without-target",
            "(self.get_state()).items()",
            "(self.online.state_dict()).items()",
            f"{_RANKS}::test_other_parameters_on_a_rank_are_noticed",
        ),
    ),
    *_in(
        "dtqn/training/trainer.py",
        ("env-steps-of-one-rank", "self.actor.env_steps += steps - taken", "pass", _AS_ONE),
        ("novelty-of-one-rank", "shown, novel = self._count_others(", "self._count_others(", _AS_ONE),
        (
            "largest-priority-of-one-rank",
            "self.replay.raise_max_priority(float(counts[:, 3].max()))",
            "pass",
            _AS_ONE,
        ),
        ("totals-averaged", "if name in _TOTALS else", "if False else", _AS_ONE),
    ),
    *_in(
        "dtqn/training/setup.py",
        ("neighbours-on-a-rank", "key, ranks.count)", "key)", _AS_ONE),
    ),
    *_in(
        "dtqn/training/leader.py",
        ("shards-without-streams", '("actor", "replay",', '("replay",', _LOST_RANK),
        (
            "nobody-lets-ranks-go",
            "group.from_first(None)",
            "pass",
            f"{_RANKS}::test_a_finished_run_lets_its_ranks_go",
        ),
        (
            "any-number-of-processes",
            "if ranks != here.ranks:",
            "if False:",
            f"{_RANKS}::test_another_number_of_ranks_is_refused_in_one_line",
        ),
    ),
    *_in(
        "dtqn/training/checkpoint.py",
        (
            "shards-unchecked",
            "for json_file in (_JSON, *shards):",
            "for json_file in (_JSON,):",
            f"{_RANKS}::test_a_damaged_shard_is_one_line",
        ),
    ),
]

RECORDED = [
    *_in(
        "dtqn/experiments/sweep.py",
        (
            "ranks-by-runs-of-the-best-line",
            "if min(len(line.trials) for line in board if line.rank is not None) < COMPARABLE:",
            "if len(best.trials) < COMPARABLE:",
            f"{_SWEEP}::test_ranks_need_five_runs_of_every_line",
        ),
        (
            "other-settings-unnamed",
            "if directory.holds_run else {}",
            "if False else {}",
            f"{_SWEEP}::test_a_sweep_does_not_rank_runs_of_other_settings",
        ),
        (
            "runs-that-are-gone-count",
            "        if not trial.rows:\n",
            "        if False:\n",
            f"{_SWEEP}::test_runs_that_have_moved_are_found_and_those_that_are_gone_made_again",
        ),
    ),
    *_in(
        "dtqn/experiments/sweep_file.py",
        (
            "searched-within-what-is-given",
            'f"{name}.".startswith(f"{setting}.")',
            "name == setting",
            "tests/experiments/test_sweep_file.py::test_a_mistake_is_one_line_that_names_it",
        ),
        (
            "other-parameters-are-seeds",
            "            if name not in specs:\n",
            "            if False:\n",
            f"{_SWEEP}::test_what_is_no_longer_searched_is_told",
        ),
    ),
    *_in(
        "envs/guard.py",
        (
            "a-failed-task-is-gone-on-from",
            "return None if self._guard.has_failed else super().get_state()",
            "return super().get_state()",
            "tests/training/test_own_task.py",
        ),
        (
            "rewards-unseen",
            "lambda: check_reward(self._task, row[1])",
            "lambda: None",
            "tests/envs/test_own.py",
        ),
    ),
    *_in(
        "dtqn/training/session.py",
        (
            "changed-code-goes-on-unasked",
            "if change and not accepts:",
            "if False:",
            f"{_CHANGED}::test_an_edited_task_is_another_run",
        ),
        (
            "changed-code-is-forgotten",
            'self._changed_at.append(int(about["env_steps"]))',
            "pass",
            f"{_CHANGED}::test_a_run_may_go_on_with_an_edited_task",
        ),
        (
            "a-finished-run-takes-over-changed-code",
            "if not accept_changed_code:  # none of which it has run",
            "if True:",
            f"{_CHANGED}::test_a_run_may_go_on_with_an_edited_task",
        ),
    ),
    *_in(
        "dtqn/experiments/records.py",
        (
            "a-stale-record-hides-a-good-one",
            'others.append(f"{file}: {why}; the run is not counted")',
            "break",
            f"{_RECORDS}::test_a_stale_record_hides_no_good_one",
        ),
        (
            "a-changed-task-from-outside-is-not-told-of",
            'self.problems.append(f"{file}: {why}, so the run is not counted")',
            "self.problems += [f\"{file}: {why}, so the run is not counted\"] * ('settings' in why)",
            f"{_RECORDS}::test_a_record_of_an_own_task_that_has_changed_is_told_of",
        ),
        (
            "a-newer-record-is-to-be-moved-away",
            "self._newer.add(file)",
            "pass",
            f"{_RECORDS}::test_a_record_of_a_newer_version_is_left_without_advice_to_move_it",
        ),
        (
            "settings-of-a-newer-version-are-not-told-of",
            "for name in _unknown(record.settings)",
            "for name in ()",
            f"{_RECORDS}::test_a_record_with_a_setting_of_a_newer_version_is_told_of",
        ),
    ),
    *_in(
        "dtqn/settings/presets.py",
        (
            "todays-defaults-in-a-record",
            "merge(*groups) | run",
            "dict(groups[1]) | run",
            f"{_RECORDS}::test_a_record_is_a_whole_file_of_settings",
        ),
    ),
    *_in(
        "dtqn/learning/batches.py",
        (
            "greedy-actions-of-burn-in-forgotten",
            "acted_greedily=joined_flags(batch.acted_greedily)",
            "acted_greedily=None",
            "tests/learning/test_windows.py::test_a_whole_sequence_joins_real_rows",
        ),
    ),
    *_in(
        "dtqn/experiments/comparison_notes.py",
        (
            "seeds-named-where-they-are-alike",
            "if len(of_task[of.env, of.agent]) > 1:",
            "if True:",
            f"{_NOTES}::test_runs_that_differ_are_named_by_no_more_than_it_takes",
        ),
        (
            "task-left-out-where-an-agent-differs-by-it",
            "if is_suite and not is_alike else",
            "if False else",
            f"{_NOTES}::test_runs_that_differ_are_named_by_no_more_than_it_takes",
        ),
        (
            "most-runs-not-counted",
            "Counter(of.value for of in values).most_common()",
            "Counter({of.value for of in values}).most_common()",
            f"{_NOTES}::test_runs_that_differ_are_named_by_no_more_than_it_takes",
        ),
        (
            "changed-code-is-not-told",
            "return [f\"{what}: {'; '.join(told)}.\"] if told else []",
            "return []",
            f"{_NOTES}::test_settings_of_single_agents_and_code_that_changed_are_told",
        ),
    ),
    *_in(
        "dtqn/inspection/charts.py",
        (
            "random-actions-off-the-chart",
            "level_too = [] if chart.level is None else [chart.level[1]]",
            "level_too = []",
            f"{_REPORT}::test_random_actions_are_within_the_chart_and_agents_are_told_apart",
        ),
    ),
    *_in(
        "envs/identity.py",
        (
            "a-package-in-a-folder-of-its-own-is-a-users",
            " or file in _installed_elsewhere())",
            ")",
            "tests/envs/test_identity.py::test_a_package_is_the_same_wherever_it_is_installed",
        ),
    ),
    *_in(
        "envs/checks.py",
        (
            "rewards-beyond-float32",
            "return np.abs(number) <= _LARGEST",
            "return np.isfinite(number)",
            f"{_TASK_FAULTS}::test_a_trial_names_task_and_field",
        ),
    ),
    *_in(
        "envs/adapters/plain.py",
        (
            "numbers-wrap",
            "wrong = found[found != found.astype(dtype)]",
            "wrong = found[:0]",
            f"{_TASK_FAULTS}::test_what_goes_wrong_later_is_named_too",
        ),
        (
            "success-by-rounding",
            "ROUNDING * self._size",
            "0.0",
            f"{_TASK_FAULTS}::test_success_does_not_hang_on_rounding",
        ),
    ),
    *_in(
        "envs/adapters/family.py",
        (
            "a-constructor-moves-the-run",
            'with contextlib.chdir("."):',
            "if True:",
            f"{_TASK_FAULTS}::test_a_constructor_does_not_move_the_run",
        ),
    ),
    *_in(
        "envs/options.py",
        (
            "infinite-arguments",
            "return math.isfinite(value)",
            "return True",
            f"{_TASK_FAULTS}::test_arguments_are_finite",
        ),
    ),
    *_in(
        "dtqn/settings/own.py",
        (
            "faults-of-helpers-are-nobodys",
            "_LOADED.setdefault(file, whose)",
            "pass",
            f"{_OWN}::test_a_fault_of_a_module_that_a_core_is_made_with_is_the_cores",
        ),
    ),
    *_in(
        "dtqn/export/verify.py",
        (
            "an-unseeded-task-is-a-forgery",
            "if text and not others and _compared(",
            "if False and _compared(",
            f"{_VERIFY}::test_a_training_that_does_not_repeat_itself_tells_nothing",
        ),
    ),
    *_in(
        "dtqn/export/verify.py",
        (
            "a-longer-run-by-its-last-length",
            "config = config.model_copy(update=dict(zip(ENDS, [*ends, None], strict=False)))",
            "pass",
            f"{_VERIFY}::test_rows_of_a_run_that_was_made_longer_are_those_of_its_first_length",
        ),
    ),
]

TABLE = [
    *(*LEARNING, *NETWORKS, *REPLAY, *TRAINING, *ACTING, *EXPERIMENTS, *SETTINGS, *ENVS, *SHARED, *RANKS),
    *RECORDED,
]
