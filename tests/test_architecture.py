"""The rules of the design that sources and files must keep."""

import ast
import functools
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import dtqn

_ROOT = Path(__file__).parents[1]
_SOURCES = sorted(path for top in ("dtqn", "replay", "envs") for path in (_ROOT / top).rglob("*.py"))
_SOURCES.append(_ROOT / "run.py")

# The imports that each package may have, ours and others, by the longest prefix of a module's name; the
# standard library is free. Learning and acting never meet.
_BASE = {"dtqn.types", "dtqn.text", "dtqn.files", "dtqn.signals", "dtqn.program"}
_NETWORKS = {*_BASE, "torch", "numpy", "gymnasium", "dtqn.settings", "dtqn.networks", "dtqn.shapes"}
_NETWORKS.add("dtqn.choices")
_TRAINING = {*_BASE, "dtqn", "dtqn.plots", "dtqn.testing", "dtqn.settings", "dtqn.training", "envs", "numpy"}
_ALLOWED = {
    "envs": {"numpy", "gymnasium", "yaml", "PIL", "gym_gridverse", "envs"},
    "replay": {"numpy", "replay"},
    "run": {"dtqn.__main__"},
    "dtqn": {"dtqn.policy", "dtqn.program"},
    "dtqn.types": {"torch", "numpy", "dtqn.shapes"},
    "dtqn.shapes": {"torch", "numpy"},
    "dtqn.graphs": {"torch", "dtqn.types"},
    "dtqn.__main__": {"dtqn.cli", "dtqn.program"},
    "dtqn.program": set(),
    "dtqn.text": set(),
    "dtqn.files": set(),
    "dtqn.signals": set(),
    "dtqn.plots": {"matplotlib", "numpy", "dtqn.files"},
    "dtqn.settings": {*_BASE, "pydantic", "yaml", "envs", "dtqn.settings", "dtqn.choices"},
    "dtqn.choices": {"pydantic", "dtqn.settings.group", "dtqn.settings.values"},
    "dtqn.networks": _NETWORKS,
    "dtqn.testing": {*_NETWORKS, "dtqn.testing"},
    "dtqn.learning": {*_NETWORKS, "dtqn.learning", "dtqn.graphs"},
    "dtqn.acting": {*_NETWORKS, "envs", "dtqn.acting"},
    "dtqn.training": {
        *_NETWORKS,
        *_TRAINING,
        *("replay", "dtqn.graphs", "ray"),
        *("dtqn.learning", "dtqn.acting"),
        *("wandb", "safetensors", "rich", "pydantic", "pandas"),
    },
    "dtqn.inspection": {
        *_NETWORKS,
        *("dtqn", "dtqn.acting", "dtqn.training", "dtqn.plots", "dtqn.experiments", "dtqn.inspection"),
        *("envs", "scipy", "PIL"),
    },
    "dtqn.export": {
        *_BASE,
        *("yaml", "pydantic"),
        *("dtqn.settings", "dtqn.acting.evaluation", "dtqn.training", "dtqn.export"),
    },
    "dtqn.experiments": {
        *_TRAINING,
        *("dtqn.acting", "dtqn.experiments", "pydantic", "scipy", "optuna"),
    },
    "dtqn.policy": {
        *_NETWORKS,
        *("dtqn.training.trained", "dtqn.training.setup", "dtqn.training.directory"),
        *("dtqn.training.objects", "envs"),
    },
    "dtqn.api": {
        *("dtqn.policy", "dtqn.settings", "dtqn.training", "dtqn.acting.evaluation"),
        *("dtqn.experiments", "dtqn.program", "envs.options", "yaml"),
    },
    "dtqn.cli": {*_BASE, "dtqn.settings", "dtqn.commands", "envs.errors"},
    "dtqn.commands": {
        *_BASE,
        "pydantic",
        "dtqn",
        "dtqn.settings",
        "dtqn.commands",
        "dtqn.training",
        "dtqn.inspection",
        "dtqn.export",
        "dtqn.experiments",
        "envs",
    },
}
_ONE_FILE_ONLY = {
    *("wandb", "ray", "matplotlib", "gym_gridverse", "safetensors", "rich", "optuna"),
}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def _imports(path: Path) -> frozenset[str]:
    """Dotted names of all modules that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = node.module or ""
            parent = module.partition(".")[0] in ("dtqn", "envs", "replay")
            # `from dtqn import plots` imports dtqn.plots, `from replay import SequenceReplay` a name.
            found |= {
                f"{module}.{a.name}" if parent and _is_module(module, a.name) else module for a in node.names
            }
    return frozenset(name for name in found if name.partition(".")[0] not in sys.stdlib_module_names)


def _is_module(package: str, name: str) -> bool:
    folder = _ROOT.joinpath(*package.split("."))
    return (folder / f"{name}.py").exists() or (folder / name).is_dir()


def _covers(allowed: str, name: str) -> bool:
    return name == allowed or name.startswith(f"{allowed}.")


def _allows(good: str, used: str) -> bool:
    """A row covers all below it; `dtqn` alone is the package's version."""
    return good == used or (_covers(good, used) and (good != "dtqn"))


@pytest.mark.parametrize("path", _SOURCES, ids=_name)
def test_a_module_imports_only_what_the_design_lets_it(path):
    name = _name(path)
    rule = max((rule for rule in _ALLOWED if _covers(rule, name)), key=len)
    assert rule != "dtqn" or name == "dtqn", f"{name} has no row in the table of imports"
    allowed = _ALLOWED[rule]
    wrong = {used for used in _imports(path) if not any(_allows(good, used) for good in allowed)}
    assert not wrong, f"{name} may not import {sorted(wrong)}"


def test_no_two_files_import_each_other():
    """Nor do more of them in a circle: what imports nothing that is left is taken away, until all are."""
    names = {_name(path): path for path in _SOURCES}
    left = {name: {used for used in _imports(path) if used in names} - {name} for name, path in names.items()}
    while free := [name for name, used in left.items() if not used & left.keys()]:
        for name in free:
            del left[name]
    assert not left, {name: sorted(used & left.keys()) for name, used in left.items()}


_DEFAULT_RUN = """
import sys
from dtqn import cli
flags = "--total-env-steps 1200 --warmup-env-steps 300 --evaluation.period 600 --evaluation.episodes 4"
assert cli.main([*flags.split(), *"--wandb disabled --evaluator inline --run-dir".split(), sys.argv[1]]) == 0
files = {getattr(module, "__file__", None) or "" for module in sys.modules.values()}
tops = tuple(f"{sys.argv[2]}/{top}/" for top in ("dtqn", "envs", "replay"))
ours = [file for file in files if file.startswith(tops)]
print(sum(len(open(file).readlines()) for file in ours))
"""


def test_a_default_run_loads_half_of_the_suite(tmp_path):
    """A reader who follows it must hold no more than this in the head."""
    command = [sys.executable, "-c", _DEFAULT_RUN, str(tmp_path / "run"), str(_ROOT)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 10_000 < int(done.stdout.splitlines()[-1]) <= 22_000


@pytest.mark.parametrize("library", sorted(_ONE_FILE_ONLY))
def test_a_library_is_imported_in_one_file(library):
    users = [path for path in _SOURCES if any(_covers(library, used) for used in _imports(path))]
    assert len(users) <= 1, users


@pytest.mark.parametrize(
    ("imported", "left_out"),
    [
        ("envs, replay, dtqn.experiments.jobs", {"torch", "wandb", "matplotlib"}),
        ("dtqn", {"torch", "wandb", "pydantic"}),
    ],
)
def test_importing_is_quick(imported, left_out):
    """The table's rule for sources also holds for all that they load."""
    script = f"import sys, {imported}; assert not {left_out} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=_ROOT).returncode == 0


def _project() -> dict:
    return tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _requirement_name(line: str) -> str:
    return line.partition("[")[0].partition("=")[0].partition(">")[0].strip().lower().replace("_", "-")


def test_every_dependency_has_a_tested_version():
    lines = [line for line in (_ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    assert all(line.count("==") == 1 and "+" not in line and "://" not in line for line in lines)
    pinned = {_requirement_name(line) for line in lines}
    project = _project()
    wanted = project["dependencies"] + [
        r for extra in project["optional-dependencies"].values() for r in extra
    ]
    assert {_requirement_name(r) for r in wanted} - pinned == {"dtqn"}


def test_the_oldest_versions_are_those_that_are_tried():
    """But of linters."""
    tried = {line for line in (_ROOT / ".ci" / "oldest.txt").read_text().splitlines() if line[0] != "#"}
    project = _project()
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [r for name, extra in extras.items() for r in extra]
    left_out = {_requirement_name(r) for r in extras["dev"]} | {"dtqn"}
    oldest = {r.partition(",")[0].replace(">=", "==") for r in wanted}
    named = {r: _requirement_name(r) for r in oldest}
    versions = {r for r, name in named.items() if name not in left_out}
    assert {r + ".0" * (2 - r.count(".")) for r in versions} == tried


def test_every_third_party_import_is_a_dependency():
    names = {"yaml": "pyyaml", "PIL": "pillow"}
    used = {name.partition(".")[0] for path in _SOURCES for name in _imports(path)} - {
        "dtqn",
        "envs",
        "replay",
    }
    project = _project()
    # A command asks for some by its extra; tasks of other packages are found by Gymnasium, not imported.
    extras = project["optional-dependencies"]
    optional = [r for name in ("sweep", "ray", "pandas") for r in extras[name]]
    declared = {_requirement_name(r) for r in project["dependencies"] + optional}
    assert {names.get(name, name).lower() for name in used} - {"gym_gridverse"} <= declared


def test_the_wheel_has_every_package():
    listed = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {".".join(path.parent.relative_to(_ROOT).parts) for path in _SOURCES} - {""}
    assert set(listed["packages"]) == folders | {"dtqn.configs"}


def test_every_package_is_typed():
    for package in ("dtqn", "replay", "envs"):
        assert (_ROOT / package / "py.typed").exists()


@pytest.mark.parametrize(
    "command",
    [
        "python -m pip install -c constraints.txt -e . && python run.py --env gridverse-memory-7x7",
        'python -m pip install -c constraints.txt -e ".[test]" && python -m pytest',
    ],
)
def test_the_commands_of_the_readme(command):
    assert command in (_ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_what_the_readme_says():
    ci = (_ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert '-m pip install --quiet -c constraints.txt -e ".[test]"' in ci
    assert "\npython -m pytest" in ci


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((_ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], cited["license"]) == (dtqn.__version__, _project()["license"])
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
