"""A stand-in for the trainer, so that tests of a run's files, signals and reports take no time."""

import contextlib
import io
import json
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dtqn.settings.presets import resolve
from dtqn.training import checkpoint, random_play, session
from dtqn.training.directory import RunDir
from dtqn.training.evaluator import Evaluated
from dtqn.training.metrics import CLOCK_KEYS, read_rows


class Terminal(io.StringIO):
    """Text that is written to a terminal."""

    def isatty(self):
        return True


class FakeEvaluator:
    """Has every evaluation at once."""

    def __init__(self):
        self.over = []

    @property
    def waiting(self):
        return [evaluated.env_steps for evaluated in self.over]

    def evaluated(self, timeout, stopped):
        return self.over.pop(0) if self.over else None

    def forget_scores(self):
        """It never knew any."""


class FakeTrainer:
    """Ten env steps at a time, a row every 50, an evaluation every 100 whose success goes by chance."""

    has_success = True
    resume_is_exact = True
    learner = SimpleNamespace(skipped_updates=0)
    at_step = staticmethod(lambda trainer: None)

    def __init__(self, config, is_new=True):
        for name in random_play.SETTLED:
            if getattr(config.learner, name) == "auto":
                config = config.replaced(f"learner.{name}", 0.5)
        self.config = config
        self.env_steps, self.learner_steps, self._owed = 0, 0, True
        torch.manual_seed(config.seed)
        self.network = torch.nn.Linear(2, 2)
        self.evaluator = FakeEvaluator()
        self.generator = np.random.default_rng(config.seed)

    @property
    def finished(self):
        return self.env_steps >= self.config.total_env_steps

    def news(self):
        return []

    def close(self):
        pass

    def advance(self):
        self.env_steps += 10
        self.learner_steps += 1
        with torch.no_grad():
            self.network.weight.fill_(float(self.generator.random()))
        row = {}
        if self.env_steps % 50 == 0:
            row |= {"learner/loss": self.generator.random(), "train/success": self.generator.random()}
        if self.env_steps % 100 == 0:
            self._evaluate()
        type(self).at_step(self)
        return self._clocks() | row if row or self.evaluator.waiting else None

    def _clocks(self):
        return {"env_steps": self.env_steps, "learner_steps": self.learner_steps}

    def _evaluate(self):
        weights = {name: x.clone() for name, x in self.network.state_dict().items()}
        self.evaluator.over.append(Evaluated(self.env_steps, self._evaluation(), weights))

    def _evaluation(self):
        success = float(self.generator.random())
        row = {
            "eval/success": success,
            "eval/success_low": success - 0.05,
            "eval/success_high": success + 0.05,
        }
        if not self.has_success:
            row = dict.fromkeys(row)
        return row | {"eval/return": 10 * success, "eval/length": 5.0, "eval/episodes": 20}

    def finish(self):
        if self.env_steps % 100 == 0:
            return []
        self._evaluate()
        return [self._clocks()]

    def film(self, file):
        file.write_bytes(b"a film")

    def get_state(self, lazily=False):
        return {
            "counters": [self.env_steps, self.learner_steps],
            "network": dict(self.network.state_dict()),
            "generator": self.generator.bit_generator.state,
            "replay": np.arange(self.env_steps)[::2],
        }

    def set_state(self, state):
        self.env_steps, self.learner_steps = state["counters"]
        self.network.load_state_dict(state["network"])
        self.generator.bit_generator.state = state["generator"]
        np.testing.assert_array_equal(state["replay"], np.arange(self.env_steps)[::2])


def config_of(**flags):
    return resolve(None, {"total_env_steps": 1000, "checkpoint_every": 200, "wandb": "disabled"} | flags, {})


def start(path, **flags):
    out = io.StringIO()
    code = session.start(config_of(**flags), RunDir(path), out)
    return code, out.getvalue().splitlines()


def resume(path, **flags):
    out = io.StringIO()
    directory = RunDir(path)
    code = session.resume(directory.resumed_config(flags, {}), directory, out)
    return code, out.getvalue().splitlines()


def rows(path):
    """The metrics without clocks."""
    found = read_rows(path / "metrics.jsonl")
    return [{key: value for key, value in row.items() if key not in CLOCK_KEYS} for row in found]


def tree(path):
    """The parts that must be the same in a run and its killed and resumed twin."""
    state = checkpoint.load_state(path / "checkpoint")
    return (
        rows(path),
        json.dumps(state, default=lambda leaf: leaf.tolist()),
        checkpoint.best_figures(path / "checkpoint"),
    )


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it is saved."""


def at(trainer, env_steps, then):
    """Do something at these env steps, whatever it is, and nothing at any other."""

    def at_step(running):
        if running.env_steps == env_steps:
            then()

    trainer.at_step = staticmethod(at_step)


def fail_at(trainer, env_steps, error):
    def fail():
        raise error

    at(trainer, env_steps, fail)


def killed(path, trainer, env_steps=470, begin=start, **flags):
    """Start a run that is killed at these env steps, or let it go on so far by `resume`."""
    fail_at(trainer, env_steps, Killed())
    with pytest.raises(Killed):
        begin(path, **flags)
    fail_at(trainer, None, Killed())
    return path


def assert_goes_on(path, **flags):
    """A resume ends as a run that nothing has happened to."""
    assert resume(path)[0] == 0
    start(path.with_name("whole"), **flags)
    assert tree(path) == tree(path.with_name("whole"))


@contextlib.contextmanager
def edited_checkpoint(folder):
    """The content of `state.json`, to be changed; its checksum is made right again."""
    file = folder / "state.json"
    content = json.loads(file.read_text())
    yield content
    del content["checksum"]
    content["checksum"] = zlib.crc32(json.dumps(content).encode())
    file.write_text(json.dumps(content))
