"""The value of a setting by its name, and the one line that refuses settings."""

import pytest

from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve


def value_of(config, name):
    for part in name.split("."):
        config = getattr(config, part)
    return config


def error_of(flags, file=None, environment=None):
    with pytest.raises(ConfigError) as error:
        resolve(file, flags, environment or {})
    assert "\n" not in str(error.value)
    return str(error.value)
