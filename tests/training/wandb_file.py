"""Reads the records of a `.wandb` file: LevelDB's log format with protocol buffers inside."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import wandb
from wandb.proto import wandb_internal_pb2

_BLOCK = 32768
_HEADER = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def wait() -> None:
    """Until every file of this process is whole, as it is when a program has ended.

    W&B writes in a process of its own, which goes on for a moment after a run's `finish` has returned.
    """
    wandb.teardown()


def records(path: Path) -> Iterator[wandb_internal_pb2.Record]:
    """All whole records; the file begins with a header of 7 bytes, `:W&B` and a version."""
    data = path.read_bytes()
    assert data.startswith(b":W&B")
    position, parts = _HEADER, b""
    while position + _HEADER <= len(data):
        left = _BLOCK - position % _BLOCK
        if left < _HEADER:  # no header fits: zeros up to the next block
            position += left
            continue
        length, kind = struct.unpack("<HB", data[position + 4 : position + 7])
        start = position + _HEADER
        position = start + length
        if position > len(data) or kind == 0:
            return
        parts = data[start:position] if kind in (_FULL, _FIRST) else parts + data[start:position]
        if kind in (_FULL, _LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            yield record


def _items(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def history(path: Path) -> list[dict[str, Any]]:
    """The timesteps that were logged."""
    return [_items(record.history.item) for record in records(path) if record.HasField("history")]


def summary(path: Path) -> dict[str, Any]:
    """The summary as it was set, the last value of each key."""
    result: dict[str, Any] = {}
    for record in records(path):
        if record.HasField("summary"):
            result |= _items(record.summary.update)
    return result


def config(path: Path) -> dict[str, Any]:
    """The configuration of the run."""
    result: dict[str, Any] = {}
    for record in records(path):
        if record.HasField("run"):
            result |= _items(record.run.config.update)
    return result


def step_metrics(path: Path) -> dict[str, str]:
    """Metric (or pattern) -> the metric it is drawn against."""
    return {
        record.metric.name or record.metric.glob_name: record.metric.step_metric
        for record in records(path)
        if record.HasField("metric")
    }


def run(path: Path) -> wandb_internal_pb2.RunRecord:
    """The run itself: its id, name, group, job type, project, sweep."""
    return next(record.run for record in records(path) if record.HasField("run"))


def environment(path: Path) -> wandb_internal_pb2.EnvironmentRecord:
    """The machine, the program and its commit, which come in parts."""
    merged = wandb_internal_pb2.EnvironmentRecord()
    for record in records(path):
        if record.HasField("environment"):
            merged.MergeFrom(record.environment)
    return merged


def artifacts(path: Path) -> list[wandb_internal_pb2.ArtifactRecord]:
    """The artifacts that were logged."""
    sent = (record.request.log_artifact.artifact for record in records(path) if record.HasField("request"))
    return [artifact for artifact in sent if artifact.name] + [
        record.artifact for record in records(path) if record.HasField("artifact")
    ]


def preempted(path: Path) -> bool:
    """Whether the run was marked as one that its machine has ended."""
    return any(record.HasField("preempting") for record in records(path))
