"""Cores and encoders of a user's own, from a folder that holds only the user's files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dtqn import cli
from dtqn.settings import named_code
from dtqn.settings.config import Config, NetworkConfig, ReplayConfig
from dtqn.training import trained
from dtqn.training.directory import RunDir
from dtqn.training.setup import check_own
from tests import tiny

CORE = '''
from typing import NamedTuple

import torch
from torch import nn

from dtqn.types import MemorySpec


class Hidden(NamedTuple):
    hidden: torch.Tensor


class Average(nn.Module):
    """h_t = a h_{t-1} + (1 - a) x_t with a learned a for each feature; the output is x_t + h_t."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.keep = nn.Parameter(torch.linspace(0, 3, width))

    def memory_spec(self):
        return Hidden(MemorySpec((self.width,), 1))

    def initial_state(self, batch_size):
        return Hidden(self.keep.new_zeros(batch_size, self.width))

    def state_from_memory(self, memory, valid, episode_step):
        if valid.shape[1] == 0:
            return self.initial_state(len(valid))
        last = memory.hidden[:, -1].to(self.keep.dtype)
        return Hidden(last.masked_fill(~valid[:, -1:], 0.0))

    def cache(self, state):
        return state

    def forward(self, x, state, want_memory=True):
        keep, hidden, steps = torch.sigmoid(self.keep), state.hidden, []
        for now in x.unbind(dim=1):
            hidden = keep * hidden + (1 - keep) * now
            steps.append(hidden)
        memory = torch.stack(steps, dim=1)
        return x + memory, Hidden(hidden.detach()), Hidden(memory)


def make_core(config):
    return Average(config.width)
'''
ENCODER = '''
import torch
from torch import nn


class Cells(nn.Module):
    """The mean embedding of what is in sight."""

    def __init__(self, values, width):
        super().__init__()
        self.embedding = nn.Embedding(values, width)

    def forward(self, inputs):
        return self.embedding(inputs.observation.long()).flatten(2, -2).mean(dim=2)


def make_encoder(config, observation_space, num_actions):
    return Cells(int(observation_space.nvec.max()), config.width)
'''
BROKEN = (
    CORE
    + """

class Broken(Average):
    def __init__(self, config):
        super().__init__(config.width)


class Leaks(Broken):
    def forward(self, x, state, want_memory=True):
        return super().forward(x + x.mean(dim=1, keepdim=True), state, want_memory)


class Stays(Broken):
    def forward(self, x, state, want_memory=True):
        output, after, memory = super().forward(x, getattr(self, "left", None) or state, want_memory)
        if x.shape[0] == 4:
            self.left = after
        return output, after, memory


class Wide(Broken):
    def forward(self, x, state, want_memory=True):
        output, after, memory = super().forward(x, state, want_memory)
        return output, Hidden(after.hidden[:, None]), memory


class Far(Broken):
    def memory_spec(self):
        return Hidden(MemorySpec((self.width,), 3000))


class Counts(Broken):
    def forward(self, x, state, want_memory=True):
        steps = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None].expand(x.shape)
        count = state.hidden[:, None] + 0.01 * steps
        return x + self.keep * torch.cos(300 * count), Hidden(count[:, -1]), Hidden(count)


class Later(Broken):
    contract_version = 3


class Former(Average):
    state_from_trace, trace_spec = Average.state_from_memory, Average.memory_spec
    state_from_memory = memory_spec = None

    def __init__(self, config):
        super().__init__(config.width)


class Lost(Broken):
    def memory_spec(self):
        return Hidden(MemorySpec((self.width,), 0))


class Bare(nn.Module):
    def __init__(self, config):
        super().__init__()

    def initial_state(self, batch_size):
        return None


def nothing(config):
    return None


def fails(config):
    return config.no_such_setting


def takes_nothing():
    return None


def two_cells(config, observation_space, num_actions):
    return nn.Linear(2, 2)


number = 3
"""
)
_FLAGS = """
    --total-env-steps 300 --metrics-every 100 --warmup-env-steps 100 --evaluation.period 150
    --evaluation.episodes 4 --evaluation.num-envs 4 --actor.num-envs 4 --replay.capacity 4000
    --network.width 8 --task.time-limit 20 --network.head-width 8 --learner.batches.size 2
    --learner.batches.env_steps_per_update 20 --wandb disabled --evaluator inline
"""
SMALL = _FLAGS.split()


def test_an_own_core_and_encoder_train_and_go_on(own_folder: Path) -> None:
    """Each start of the program imports them anew."""
    (own_folder / "my_core.py").write_text(CORE)
    (own_folder / "my_encoder.py").write_text(ENCODER)
    Path("mine.yaml").write_text("network: {core: 'my_core:make_core', encoder: 'my_encoder:make_encoder'}\n")
    mine = ("--agent", "mine.yaml", "--trust-code")
    beside = ("--evaluator", "process")  # which finds them too
    for arguments in (
        (*mine, *SMALL, *beside, "--run-dir", "run", "--checkpoint-every", "150"),
        ("--resume", "run", "--total-env-steps", "400", "--evaluator", "inline"),
    ):
        assert cli.main(list(arguments)) == 0
        assert Path(sys.modules.pop("my_core").__file__).parent == own_folder
        del sys.modules["my_encoder"]
        sys.path.remove(str(own_folder))
    rows = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["env_steps"] >= 400
    assert rows[-1]["learner_steps"] >= 10


@pytest.mark.parametrize(
    ("frozen", "flags"),
    [
        ("self.embedding", ()),
        (
            "self.embedding",
            ("--learner.precision", "bfloat16", "--threads", "2", "--learner.batches.size", "4"),
        ),
        ("self", ()),
    ],
)
def test_frozen_parameters_stay_as_they_were_made(
    own_folder: Path, frozen: str, flags: tuple[str, ...]
) -> None:
    """Those of pretrained weights, say: no gradient, no decay; what is not frozen learns."""
    text = ENCODER.replace("(2, -2).mean(dim=2)", "(2, -2).mean(dim=2) * self.gain").replace(
        "nn.Embedding(values, width)",
        f"nn.Embedding(values, width)\n        self.gain = nn.Parameter(torch.ones(width))\n"
        f"        nn.init.constant_(self.embedding.weight, 0.5)\n        {frozen}.requires_grad_(False)",
    )
    (own_folder / "pretrained.py").write_text(text)
    flags = (*flags, "--network.encoder", "pretrained:make_encoder", "--learner.weight-decay", "0.1")
    assert cli.main([*SMALL, *flags, "--run-dir", "run"]) == 0
    directory = RunDir(Path("run"))
    network = trained.load_network(directory, directory.read_config(), "last")
    assert (network.encoder.embedding.weight == 0.5).all()
    assert bool((network.encoder.gain == 1.0).all()) == (frozen == "self")
    assert any(bool((x != 0).any()) for name, x in network.named_parameters() if name.endswith("bias"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    line = tiny.refused(capsys, *SMALL, "--run-dir", "run", *arguments)
    assert not Path("run").exists()
    return line


@pytest.fixture
def broken(own_folder: Path) -> None:
    """The working directory holds `broken_cores.py`, `broken_import.py` and `former_import.py`."""
    (own_folder / "broken_cores.py").write_text(BROKEN)
    (own_folder / "broken_import.py").write_text("import no_such_package\n")
    (own_folder / "former_import.py").write_text("from dtqn.types import TraceSpec\n")


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Leaks", "it breaks the contract 'causality'"),
        ("Stays", "it breaks the contract 'a reset equals a fresh start'"),
        ("Wide", "it breaks the contract 'shapes and dtypes': the state after 1 steps is"),
        ("Later", "its contract_version is 3; this suite's is 2"),
        ("Lost", "its memory_spec has MemorySpec(shape=(8,), window=0, dtype=None) at hidden; it must be"),
        ("Former", "Core; state_from_trace is state_from_memory now; trace_spec is memory_spec now"),
        ("former_import:make", "cannot import name 'TraceSpec' from 'dtqn.types' "),
        ("former_import:make", "(former_import.py, line 1); TraceSpec is MemorySpec now"),
        ("Bare", "it made a Bare without state_from_memory, memory_spec, cache"),
        ("nothing", "it made a NoneType; it must make a torch.nn.Module"),
        ("fails", "making it failed: AttributeError: 'NetworkConfig' object has no attribute"),
        ("takes_nothing", "making it failed: TypeError: takes_nothing() takes 0 positional arguments"),
        ("number", "it is of type int; it must be a function or a class"),
        ("Leak", "broken_cores has no Leak; did you mean Leaks?"),
        ("no_such_module:make", "no_such_module cannot be imported"),
        ("broken_import:make", "broken_import cannot be imported: it needs no_such_package, which is not "
         "installed (broken_import.py, line 1)"),
        ("broken_cores.py:Leaks", "; write broken_cores:Leaks"),
        ("sub/my.py", "; write sub.my:make_core"),
        ("Far", "replay.capacity is 4000"),
        ("two_cells", "it breaks the contract 'shapes and dtypes': its call failed"),
    ],
)  # fmt: skip
def test_a_core_or_an_encoder_that_cannot_be_used_is_one_line(
    name: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    core = name if ":" in name or "/" in name else f"broken_cores:{name}"
    setting = "network.encoder" if name == "two_cells" else "network.core"
    errors = refused(capsys, f"--{setting}", core)
    assert problem in errors and (f"{setting} is {core}" in errors or name == "Far")


@pytest.mark.usefixtures("broken")
def test_stored_memory_is_held_to_the_dtype_that_replay_stores(capsys: pytest.CaptureFixture[str]) -> None:
    """A count grows too coarse for float16, and not for float32."""
    errors = refused(capsys, "--network.core", "broken_cores:Counts")
    assert "it breaks the contract 'the state made of stored memory is the carried one'" in errors
    assert "of float16 memory, differ" in errors
    network = NetworkConfig(core="broken_cores:Counts", width=8)
    check_own(Config(network=network, replay=ReplayConfig(memory_dtype="float32")))


def test_settings_of_ones_own_reach_both_functions_whatever_they_do_to_them(own_folder: Path) -> None:
    """Each call has them all, and the run's stay as they were."""
    core = CORE.replace("Average(config.width)", "Average(config.kwargs.pop('widths')[0])")
    encoder = ENCODER.replace("config.width", "config.kwargs.pop('widths')[0]")
    assert "pop" in core and "pop" in encoder
    (own_folder / "my_core.py").write_text(core)
    (own_folder / "my_encoder.py").write_text(encoder)
    Path("mine.yaml").write_text(
        "network: {core: 'my_core:make_core', encoder: 'my_encoder:make_encoder', kwargs: {widths: [8]}}\n"
    )
    assert cli.main(["--agent", "mine.yaml", "--trust-code", *SMALL, "--run-dir", "run"]) == 0
    assert "    kwargs:\n      widths:\n      - 8\n" in Path("run/config.yaml").read_text()


def test_a_fault_of_a_module_that_a_core_is_made_with_is_the_cores(own_folder: Path) -> None:
    """A package's own module, and one beside it."""
    (own_folder / "pack").mkdir()
    (own_folder / "pack/__init__.py").write_text("from pack.core import make_core\n")
    (own_folder / "pack/core.py").write_text(
        "from own_helper import fail\n\n\ndef make_core():\n    fail()\n\n\ndef breaks():\n    {}[1]\n"
    )
    (own_folder / "own_helper.py").write_text("def fail():\n    raise RuntimeError('boom')\n")
    make_core = named_code.load("network.core", "pack:make_core")
    for call, place in (
        (make_core, "own_helper.py, line 2"),
        (sys.modules["pack.core"].breaks, "core.py, line 9"),
    ):
        with pytest.raises((RuntimeError, KeyError)) as error:
            call()
        told = named_code.fault(error.value)
        assert told is not None
        assert told.startswith("network.core is pack:make_core, which failed: ") and place in told
    with pytest.raises(ZeroDivisionError) as other:
        _ = 1 / 0
    assert named_code.fault(other.value) is None


@pytest.mark.parametrize("failure", ["[0.0][x.shape[1]]", "sys.exit(0)"])
def test_a_core_that_fails_amid_a_run_is_one_line(
    failure: str, own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once there are a checkpoint and a file. Nothing is saved amid a step; the run goes on from before."""
    files = ("fails", "run/checkpoint/latest")
    later = f"\n        if all(map(os.path.exists, {files})):\n            {failure}\n"
    text = CORE.replace("\n        keep, hidden, steps = ", f"{later}        keep, hidden, steps = ")
    (own_folder / "late_core.py").write_text(f"import os\nimport sys\n{text}")
    Path("fails").touch()
    saved = ("--checkpoint-every", "150", "--run-dir", "run")
    assert cli.main([*SMALL, *saved, "--network.core", "late_core:make_core"]) == 1
    told = capsys.readouterr().out.strip().splitlines()[-1]
    name = "SystemExit: 0" if "exit" in failure else "IndexError: list index out of range"
    assert told.startswith(
        f"error: network.core is late_core:make_core, which failed: {name} (late_core.py, line "
    )
    assert "; what the run had at 151 env steps is kept; to continue: " in told
    told = tiny.refused(capsys, "eval", "run", "--episodes", "4")
    assert told.startswith("network.core is late_core:make_core, which failed: ")
    Path("fails").unlink()
    assert cli.main(["--resume", "run"]) == 0
