"""The one line that refuses settings."""

import pytest

from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve


def error_of(flags, file=None, environment=None):
    with pytest.raises(ConfigError) as error:
        resolve(file, flags, environment or {})
    assert "\n" not in str(error.value)
    return str(error.value)
