"""Prioritised sequence replay for memory agents. It needs only NumPy, no torch, tasks or losses.

Five small nouns: `storage` (per-step rings), `accumulator` (timesteps of a stream -> legal sequences),
`sum_tree`, `samplers` (priorities, importance weights), and `buffer`, which joins them. See docs/memory.md.
"""

from replay.accumulator import SequenceLayout
from replay.buffer import Prefix, SampleInfo, SequenceBatch, SequenceReplay, replay_bytes
from replay.samplers import ProportionalSampler, Sampler, UniformSampler
from replay.storage import Field, Gathered

__all__ = [
    "Field",
    "Gathered",
    "Prefix",
    "ProportionalSampler",
    "SampleInfo",
    "Sampler",
    "SequenceBatch",
    "SequenceLayout",
    "SequenceReplay",
    "UniformSampler",
    "replay_bytes",
]
