"""The values that an episode has shown before a sequence, beside a plain list of all that was ever stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dtqn.training import history
from dtqn.training.trainer import Trainer
from dtqn.types import Sequences
from tests.training.test_trainer import make_trainer

RECALLING: dict[str, Any] = {"core": "gru", "width": 8, "recall_weight": 0.4}


def recorded(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[bool, list[int]]]]:
    """Stream -> (first, observation) of each row ever stored."""
    streams: list[list[tuple[bool, list[int]]]] = [[] for _ in range(trainer.replay.num_streams)]
    append = trainer.replay.append

    def appending(rows: Any) -> Any:
        for kept, first, seen in zip(streams, rows["first"], rows["observation"], strict=True):
            kept.append((bool(first), seen.tolist()))
        return append(rows)

    monkeypatch.setattr(trainer.replay, "append", appending)
    return streams


@pytest.mark.parametrize("chunk", [3, 256])
def test_it_is_what_a_plain_list_of_all_rows_says(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all sequences there are, those included whose episode's first row is overwritten."""
    monkeypatch.setattr(history, "CHUNK_ROWS", chunk)
    trainer = make_trainer(
        1_000,
        {"env_steps_per_update": 10**6},
        network=RECALLING,
        replay={"capacity": 160, "learn_length": 6, "burn_in_length": 2},
    )
    streams = recorded(trainer, monkeypatch)
    while trainer.env_steps < 900:
        trainer.advance()
    ids = trainer.replay.ids()
    batch = trainer.replay.take(ids)
    assert trainer._history is not None
    found = trainer._history.shown_before(ids, batch.episode_step).tolist()
    kinds = set()
    for place, one in enumerate(ids.tolist()):
        row, stream = divmod(one, trainer.replay.num_streams)
        rows = streams[stream]
        start = max(t for t in range(row + 1) if rows[t][0])
        end = row - int(batch.burn_in_rows[place])
        shown = {value for _, seen in rows[start:end] for value in seen}
        expected = [int(value in shown) for value in range(len(found[place]))]
        if start < len(rows) - trainer.replay.steps_per_stream and end > start:
            expected = [-1] * len(expected)
        assert found[place] == expected
        kinds |= {expected[0] == -1, start == end or "later"}
    assert kinds == {True, False, "later"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, True),
        ({"replay": {"memory": "zero", "capacity": 2_000, "learn_length": 6, "burn_in_length": 0}}, False),
        ({"network": RECALLING | {"core": "dtqn", "context_length": 8}}, False),
    ],
)
def test_who_carries_no_memory_into_a_sequence_is_not_asked_what_was_before(
    settings: dict[str, Any], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(400, {"env_steps_per_update": 20}, **({"network": RECALLING} | settings))
    batches: list[Sequences] = []
    update = trainer.learner.update
    monkeypatch.setattr(
        trainer.learner, "update", lambda batch, share: (batches.append(batch), update(batch, share))[1]
    )
    while not trainer.finished:
        trainer.advance()
    for batch in batches:
        assert (batch.shown_before is not None) is told
        if batch.shown_before is not None:
            assert batch.shown_before.dtype == torch.int8 and len(batch.shown_before) == 4
            assert not batch.shown_before[batch.episode_step == 0].any()
    assert len(batches) > 10
    if told:
        all_rows = np.concatenate([batch.shown_before.numpy() for batch in batches])  # type: ignore[union-attr]
        assert all_rows.max() == 1
