import pytest

from dtqn.training import preflight, session
from tests.training import fake


@pytest.fixture
def trainer(monkeypatch):
    """The fake in place of the real trainer, for the test to change."""

    class Trainer(fake.FakeTrainer):
        pass

    monkeypatch.setattr(session, "Trainer", Trainer)
    monkeypatch.setattr(preflight, "plan_bytes", lambda config: {"replay": 1000, "networks": 500})
    # No picture, so W&B gets no row of pictures.
    monkeypatch.setattr("dtqn.plots.learning_curve", lambda rows, path, *_: path.write_bytes(b"a picture"))
    return Trainer
