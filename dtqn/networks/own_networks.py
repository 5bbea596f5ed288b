"""Cores and encoders of a user's own, by the settings `network.core` and `network.encoder`.

Checks that need no call are made here: the thing can be made, and has the members that the protocols of
`dtqn.networks.q_network` ask for. `dtqn.testing` calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
from torch import nn

from dtqn.networks.q_network import CONTRACT_VERSION, Core, Encoder
from dtqn.settings import named_code
from dtqn.settings.config import ConfigError, NetworkConfig, wrong
from dtqn.settings.named_code import ANY_FAULT, located
from dtqn.types import MemorySpec, leaves

_CORE_METHODS = ("initial_state", "state_from_memory", "memory_spec", "cache")
_MOVED = {
    "Trace": "StoredMemory", "TraceSpec": "MemorySpec",
    "state_from_trace": "state_from_memory", "trace_spec": "memory_spec",
}  # fmt: skip
"""Names in the contract's first version -> today's names."""


def core(config: NetworkConfig) -> Core:
    """`make_core(config)` of the module that `network.core` names.

    Raises:
        ConfigError: it cannot be made, or is no core of this version of the contract.
    """
    setting, value = "network.core", config.core.name
    mine = config.model_copy(deep=True)  # a function may take what it has read out of `kwargs`
    made: Core = _made(setting, value, _CORE_METHODS, mine)
    try:
        fields = leaves(made.memory_spec())
    except ANY_FAULT as error:  # whatever a user's class raises
        raise wrong(setting, value, f"its memory_spec failed: {located(error)}") from None
    for path, field in fields.items():
        if not isinstance(field, MemorySpec) or field.window < 1:
            why = f"its memory_spec has {field!r} at {path or 'its root'}"
            raise wrong(setting, value, f"{why}; it must be a MemorySpec with a window of at least 1")
        if not path:
            why = "its memory_spec is one MemorySpec"
            raise wrong(setting, value, f"{why}; it must be a NamedTuple or a dict of such, with a name each")
    return made


def encoder(config: NetworkConfig, observation_space: gymnasium.Space, num_actions: int) -> Encoder:
    """`make_encoder(config, observation_space, num_actions)` of the module that `network.encoder` names.

    Raises:
        ConfigError: it cannot be made, or is no encoder of this version of the contract.
    """
    mine, setting = config.model_copy(deep=True), "network.encoder"
    return _made(setting, config.encoder.name, (), mine, observation_space, num_actions)


def _made(setting: str, value: str, methods: Sequence[str], *arguments: Any) -> Any:
    try:
        make = named_code.load(setting, value)
    except ConfigError as error:  # it may import what has another name today
        raise ConfigError(f"{error}{_moved(str(error))}") from None
    try:
        made = make(*arguments)
    except ConfigError:
        raise
    except ANY_FAULT as error:  # whatever a user's function raises
        raise wrong(setting, value, f"making it failed: {located(error)}") from None
    if not isinstance(made, nn.Module):
        raise wrong(setting, value, f"it made a {type(made).__name__}; it must make a torch.nn.Module")
    if missing := [name for name in methods if not callable(getattr(made, name, None))]:
        why = f"it made a {type(made).__name__} without {', '.join(missing)}"
        right = f"it must have the methods of dtqn.networks.q_network.Core{_moved(str(dir(made)))}"
        raise wrong(setting, value, f"{why}; {right}")
    version = getattr(made, "contract_version", CONTRACT_VERSION)
    if version != CONTRACT_VERSION:
        why = f"its contract_version is {version!r}; this suite's is {CONTRACT_VERSION}"
        raise wrong(setting, value, f"{why} (dtqn.networks.q_network)")
    return made


def _moved(text: str) -> str:
    """What became of the old names that are quoted in a text."""
    return "".join(f"; {old} is {new} now" for old, new in _MOVED.items() if f"'{old}'" in text)
