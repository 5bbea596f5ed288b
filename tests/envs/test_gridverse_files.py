"""Worlds in YAML files: what is read, what is refused and how that is said."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import envs
from envs import yaml_file
from envs.gridverse import package
from envs.gridverse.world import _TABLES, FunctionSpec, WorldSpec
from envs.gridverse.worlds import DTQN, PACKAGE, world

# The layout of gym-gridverse's own files, by hand: a keydoor world with a view of its own and fewer actions.
TEXT = """
state_space:
  objects: [Wall, Floor, Exit, Door, Key]
  colors: [NONE, YELLOW]

action_space: [TURN_RIGHT, MOVE_FORWARD, PICK_N_DROP, ACTUATE]

observation_space:
  objects: [Wall, Floor, Exit, Door, Key]
  colors: [NONE, YELLOW]

reset_function:
  name: keydoor
  shape: [5, 6]

transition_functions:
  - name: chain
    transition_functions:
      - name: move_agent
      - name: turn_agent
  - name: actuate_door
  - name: pickndrop

reward_functions:
  - name: reduce_sum
    reward_functions:
      - {name: reach_exit, reward_on: 10}
      - {name: pickndrop, object_type: Key, reward_drop: -2.5}
  - name: getting_closer
    object_type: Exit

observation_function:
  name: from_visibility
  area: [[-2, 1], [-1, 1]]
  visibility_function:
    name: fully_transparent

terminating_function:
  name: reduce_any
  terminating_functions:
    - name: reach_exit
    - name: reduce_all
      terminating_functions:
        - name: overlap
          object_type: Door
        - name: bump_into_wall
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "world.yaml"
    path.write_text(TEXT)
    return path


def read(file: Path) -> WorldSpec:
    return WorldSpec.from_data(yaml_file.read(file))


def test_a_file_is_a_task(file: Path) -> None:
    id = f"gridverse:{file}"
    spec = envs.spec(id)
    assert (spec.id, spec.time_limit, spec.best_return) == (id, 250, None)
    assert spec.success == "the episode ends on the exit"
    assert spec.observation_space.shape == (5, 3, 3)  # four rows and the item's
    assert envs.spec(id, observation="vector", time_limit=9).observation_space.shape == (13,)
    env: Any = envs.make_vector(id, 8, seed=1)
    env.reset()
    turn, forward, pick, actuate = range(4)
    grid = env.get_state()["state"]["grid"][0].copy()
    grid[1:4, 1:5] = (2, 0, 0)
    grid[1, 4], grid[1, 3], grid[1, 2] = (4, 0, 0), (5, 2, 4), (6, 0, 4)  # exit behind a door behind its key
    env.reset(options={"state": {"grid": grid, "agent": (1, 1, 0)}})
    rewards = []
    for action in (turn, pick, forward, actuate, forward, forward):
        _, reward, terminated, _, infos = env.step(np.full(8, action))
        rewards.append(float(reward[0]))
    assert rewards == [0.0, 1.0, 1.0, 0.0, 1.0, 11.0]  # picked, closer, opened, closer, closer and there
    assert terminated.all() and infos["is_success"].all()


def test_a_file_says_what_it_is(tmp_path: Path, file: Path) -> None:
    """And where it says nothing, the kind of its world and its own name are shown."""
    plain = envs.facts(f"gridverse:{file}")
    assert plain["description"] == "A world of the kind 'keydoor', with 4 x 3 cells in view."
    assert plain["source"] == str(file)
    facts = {"description": "Two halls.", "source": "My thesis", "time_limit": 90, "observation": "vector"}
    file.write_text(TEXT + yaml.safe_dump({"task": {**facts, "best_return": 12, "success_ceiling": 0.75}}))
    spec = envs.spec(f"gridverse:{file}")
    assert (spec.description, spec.source, spec.time_limit) == ("Two halls.", "My thesis", 90)
    assert (spec.best_return, spec.success_ceiling) == (12, 0.75)
    assert spec.observation_space.shape == (13,)
    shown = envs.facts(f"gridverse:{file}", observation="grid", time_limit=7)
    assert shown["success"] == "the episode ends on the exit (no agent can exceed 75.0%)"
    assert (shown["time limit"], shown["observation"][:12]) == ("7 steps", "MultiDiscret")
    assert read(file).to_data() == WorldSpec.from_data(yaml.safe_load(TEXT)).to_data()


def test_a_file_survives_its_data_form(file: Path) -> None:
    spec = read(file)
    assert WorldSpec.from_data(spec.to_data()) == spec
    assert WorldSpec.from_data(yaml.safe_load(yaml.safe_dump(spec.to_data()))) == spec
    assert hash(spec) == hash(read(file))
    assert (spec.visibility, spec.shape, spec.holdable) == ("fully_transparent", (5, 6), ("Key",))


@pytest.mark.parametrize("id", [*DTQN, *PACKAGE])
def test_shipped_worlds_can_be_written_to_files_and_read(id: str, tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    file.write_text(yaml.safe_dump(world(id).to_data()))
    assert read(file) == world(id)
    observation: Any = "vector" if id in DTQN else "grid"
    spec = envs.spec(f"gridverse:{file}", observation=observation)
    assert spec.observation_space == envs.spec(id).observation_space


def test_actions_default_to_all(file: Path) -> None:
    data = yaml.safe_load(TEXT)
    del data["action_space"]
    assert len(WorldSpec.from_data(data).actions) == 8


def test_what_the_original_drops_in_silence_is_accepted_where_its_own_files_hold_it() -> None:
    data = {"name": "teleport", "shape": [5, 5], "random_agent": True}
    assert FunctionSpec.from_data(data, "reset") == FunctionSpec.from_data(
        {**data, "random_agent": 7}, "reset"
    )
    assert FunctionSpec.from_data(data, "reset") == world("GV-Teleport-5x5-v0").reset
    with pytest.raises(ValueError, match="'keydoor' takes no 'random_agent'"):
        FunctionSpec.from_data({**data, "name": "keydoor"}, "reset")


def occluded(area: list[list[int]]) -> dict[str, Any]:
    return {"name": "partially_occluded", "area": area}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The data of the text with what is at `a.b.0.c` replaced, or left out where the value is None."""
    data = copy.deepcopy(yaml.safe_load(TEXT))
    at: Any = data
    *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in keys:
        at = at[key]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return data


OBSERVATION = "observation_function"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("state_space", None, "has no 'state_space'"),
        ("tate_space", {}, r"unknown key 'tate_space' \(known: state_space, "),
        ("task", "find it", "task is 'find it'; it must be a mapping with some of descr"),
        ("task", {"descripton": "x"}, "unknown key 'descripton'; did you mean description"),
        ("task", {"description": "x\ny"}, r"task.description is 'x\\ny'; it must be one line of text"),
        ("task", {"time_limit": 0}, "task.time_limit is 0; it must be an integer of at least 1"),
        ("task", {"observation": "cells"}, "task.observation is 'cells'; it must be grid or vector"),
        ("task", {"best_return": "5"}, "task.best_return is '5'; it must be a number"),
        ("task", {"success_ceiling": 2}, "task.success_ceiling is 2; it must be a number above 0"),
        ("state_space", ["Wall"], r"state_space is \['Wall'\]; it must be a mapping with 'objects' and"),
        ("state_space.objects", ["Wal"], r"state_space.objects is \['Wal'\]; it must be .* None.*Wall"),
        ("state_space.colors", ["RED", "RED"], "list of different names out of NONE, RED"),
        ("observation_space.objects", ["Wall", "Floor"], "observation_space.objects lacks Exit"),
        ("observation_space.colors", ["NONE"], "observation_space.colors lacks YELLOW"),
        ("action_space", ["MOVE_FORWARD", "JUMP"], "action_space is .* out of MOVE_FORWARD"),
        ("action_space", [], r"action_space is \[\]"),
        ("reset_function.name", "key_door", "unknown reset function 'key_door'; did you mean keydoor"),
        ("reset_function", "keydoor", "reset function is 'keydoor'; it must be a mapping with a 'name'"),
        ("reset_function.shape", None, "reset function 'keydoor' has no 'shape'"),
        ("reset_function.shape", [5], r"'keydoor': shape is \[5\]; it must be a pair of integers"),
        ("reset_function.shape", [5, 300], "pair of integers from 1 to 255"),
        ("reset_function.shape", [5, 2.0], "pair of integers"),
        ("reset_function.num_keys", 2, r"'keydoor' takes no 'num_keys' \(it takes: shape\)"),
        ("transition_functions", [], r"transition_functions is \[\]; it must be a list of functions"),
        ("transition_functions.1.speed", 2, "'actuate_door' takes no 'speed' .it takes: nothing"),
        ("transition_functions.0.transition_functions.1.name", "turn", "unknown transition function 'turn'"),
        ("reward_functions.1.object_type", "Coin", "object_type is 'Coin'; it must be one of None"),
        ("reward_functions.1.object_type", None, "has no 'object_type', which it needs"),
        ("reward_functions.0.reward_functions.0.reward_on", "much", "'reach_exit': reward_on is 'much'"),
        ("reward_functions.1.reward_closer", True, "reward_closer is True; it must be a number"),
        ("reward_functions.1.object_type", "Key", "needs one Key .* but pickndrop can take it out"),
        ("reward_functions.1.object_type", "Beacon", "does not fit.* holds 0 of Beacon; .* exactly one"),
        (f"{OBSERVATION}.area", [[-2, 1], [-1, 2]], "odd number of columns"),
        (f"{OBSERVATION}.area", [[-2, -1], [-1, 1]], "with the agent's own cell"),
        (f"{OBSERVATION}.area", 7, "area is 7; it must be two pairs"),
        (OBSERVATION, occluded([[-2, 1], [-1, 1]]), "partially_occluded needs the agent on the bottom row"),
        (OBSERVATION, occluded([[-2, 0], [-32, 32]]), r"64 columns; it is \[\[-2, 0\], \[-32, 32\]\]"),
        (OBSERVATION, {**occluded([[-2, 0], [-1, 1]]), "threshold": 2}, "function .* takes no 'threshold'"),
        (f"{OBSERVATION}.visibility_function.name", "rays", "unknown visibility function 'rays'"),
        ("terminating_function.terminating_functions.0", "x", "terminating function is 'x'; it must be"),
        ("reset_function", {"name": "empty", "shape": [5, 6], "random_agent": 1}, "must be true or false"),
        ("reset_function.shape", [5, 4], "keydoor: shape .* must be at least 5 wide"),
        ("state_space.objects", ["Wall", "Floor", "Exit", "Door"], "reset function 'keydoor' does not fit"),
        ("state_space.colors", ["NONE"], r"does not fit .*: state 'grid' holds \(., ., 4\): the colour"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_in_one_line(
    file: Path, path: str, value: Any, message: str
) -> None:
    file.write_text(yaml.safe_dump(changed(path, value)))
    with pytest.raises(ValueError, match=message) as error:
        envs.spec(f"gridverse:{file}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("a: [1", "is not a YAML file"),
        ("a: b: c", "is not a YAML file"),
        (b"\xff\xfe\xfa", "YAML"),
        ("action_space: [ACTUATE]\ntask: {}\naction_space: []\n", "line 3: action_space is given twice$"),
        ("a: &a [1]\nb: *a\n", r"line 2: aliases \(\*name\) are not read; write the value out$"),
        ("[" * 60 + "]" * 60, "line 1: more than 50 collections inside each other$"),
        ("task: !!int x\n", "line 1: 'x' is no int$"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: str | bytes | None, message: str) -> None:
    file = tmp_path / "world.yaml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message) as error:
        envs.spec(f"gridverse:{file}")
    assert "\n" not in str(error.value)
    assert "world.yaml" in str(error.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="directory"):
        envs.spec(f"gridverse:{tmp_path}")


# -- The documentation ---------------------------------------------------------------------------------------

DOCS = (Path(__file__).parents[2] / "docs" / "tasks" / "gridverse.md").read_text()


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    file.write_text(DOCS.split("```yaml\n")[1].split("```")[0])
    env: Any = envs.make_vector(f"gridverse:{file}", 4, seed=1)
    observation, _ = env.reset()
    assert observation.shape == (4, 5, 5, 3)
    assert env.single_action_space.n == 3
    spec = envs.spec(f"gridverse:{file}")
    assert spec.description == "Find the exit that has the colour of either beacon in six rooms"
    assert (spec.source, spec.time_limit) == ("an example", 400)


@pytest.mark.parametrize("kind", ["reset", "transition", "reward", "observation", "terminating"])
def test_the_documentation_lists_every_function(kind: str) -> None:
    (row,) = [line for line in DOCS.splitlines() if line.startswith(f"| {kind} |")]
    assert set(re.findall(r"`(\w+)`", row)) == set(_TABLES[kind])


def test_the_documentation_states_the_ceilings_and_how_to_install_the_package() -> None:
    for id in (*DTQN, *PACKAGE):
        ceiling = envs.spec(id).success_ceiling
        assert ceiling == 1.0 or f"| {ceiling} |" in DOCS
        assert id.removesuffix("-v0").rpartition("-")[0] in DOCS
    assert package.INSTALL in DOCS
