"""The contract of a native task, as checks that a task of a user's own can be put to: `envs.check_task`.

Every listed task passes the same checks. Each takes a function that makes the `Task`, with other options
where it is called with such, and raises a `TaskError` that names the first promise that is broken.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from envs.checks import check_reward, picture_problem, state_problem
from envs.entry_points import brief_error
from envs.errors import ANY_FAULT, TaskError
from envs.guard import GuardedDynamics, GuardedVectorEnv
from envs.task import Task
from envs.vector import NativeVectorEnv, brief, generator

STEPS: Final = 10_000
"""Random steps of all environments together, after which an episode must have ended."""


MakeTask = Callable[..., Task]
"""Makes the task with these options (`TaskOptions`)."""


def check_spec(make_task: MakeTask) -> None:
    """The spec's spaces and time limit match the environment's, and its texts have one line each."""
    task = make_task()
    spec, env = task.spec, _vector(task, 3, 1)
    for name, value in (("observation", env.single_observation_space), ("action", env.single_action_space)):
        stated = getattr(spec, f"{name}_space")
        if stated != value:
            raise TaskError(spec.id, f"its {name} space is {brief(value)}, but its spec has {brief(stated)}")
    if spec.time_limit != env.time_limit:
        raise TaskError(spec.id, f"its time limit is {env.time_limit}, but its spec has {spec.time_limit}")
    for name in ("description", "source"):
        if "\n" in getattr(spec, name) or not getattr(spec, name):
            raise TaskError(spec.id, f"its {name} is {brief(getattr(spec, name))}; it must be one line")


def check_timesteps(make_task: MakeTask) -> None:
    """Spaces hold, FIRST follows LAST, the two endings exclude each other, success is on LAST alone."""
    task = make_task()
    spec = task.spec
    num = 20 if spec.time_limit is not None and spec.time_limit <= 500 else 5  # fewer where episodes are long
    if not play(task, num, STEPS // num):
        raise TaskError(spec.id, f"no episode ended in {STEPS} random steps; it may need a time_limit")


def try_out(task: Task) -> None:
    """A short play, before a run: a few steps, the same from saved states, the other secret.

    Raises:
        TaskError: for the first thing that is wrong.
    """
    num, steps = 3, 20
    play(task, num, steps)
    env, restored, rng = _vector(task, num, 1), _vector(task, num, 2), np.random.default_rng(2)
    env.reset()
    for _ in range(steps):
        restored.set_state(env.get_state())
        action = random_actions(env.single_action_space, num, rng)
        env.step(action)
        try:
            restored.step(action)
        except TaskError as error:
            problem = f"after its put of a state that its get returned, {error.problem}"
            raise TaskError(error.task, problem, error.env_id) from error
    env.observe_other()


def play(task: Task, num: int, steps: int) -> int:
    """Steps `num` environments at random and looks at each timestep; how many episodes have ended."""
    id, spec, env = task.spec.id, task.spec, _vector(task, num, 1)

    def must(holds: Any, problem: str) -> None:
        if not holds:
            raise TaskError(id, problem)

    observation, _ = env.reset()
    _check_bounds(id, observation, env.single_observation_space)
    rng = np.random.default_rng(2)
    last, elapsed, episodes = np.zeros(num, np.bool_), np.zeros(num, np.int64), 0
    for _ in range(steps):
        before, kept = observation, observation.copy()
        action = random_actions(env.single_action_space, num, rng)
        observation, reward, terminated, truncated, infos = env.step(action)
        _check_bounds(id, observation, env.single_observation_space)
        must((before == kept).all(), "a step changed an observation that had been given out")
        check_reward(id, reward)
        must(not (terminated & truncated).any(), "an episode both terminated and was truncated")
        must(not (last & (terminated | truncated)).any(), "an episode's first timestep is its last one too")
        must(not (last & (reward != 0)).any(), "the first timestep of an episode has a reward")
        elapsed = np.where(last, 0, elapsed + 1)
        must(
            (truncated == ((elapsed == spec.time_limit) & ~terminated)).all(),
            f"an episode was truncated before or after the time limit of {spec.time_limit}",
        )
        last = terminated | truncated
        must(("is_success" in infos) == spec.has_success, "its spec and its infos disagree on success")
        if spec.has_success:
            must(
                not (infos["is_success"] & ~last).any(),
                "is_success is true on a timestep that is not an episode's last",
            )
        episodes += int(last.sum())
    return episodes


def _check_bounds(id: str, observation: NDArray[Any], space: gymnasium.Space[Any]) -> None:
    """Numbers of a Box are within its bounds; the guard has looked at all else."""
    if not isinstance(space, Box):
        return
    outside = (observation < space.low) | (observation > space.high)
    if outside.any():
        env_id = int(np.argwhere(outside)[0, 0])
        problem = f"it observes {brief(observation[env_id])}, which is outside its space {brief(space)}"
        raise TaskError(id, problem, env_id)


def check_seeds_and_states(make_task: MakeTask) -> None:
    """A seed decides everything, and a state that was saved goes on bit for bit in another environment."""
    task = make_task(time_limit=40)
    id = task.spec.id
    env, twin, other = _vector(task, 5, 3), _vector(task, 5, 3), _vector(task, 5, 4)
    _same(id, "after a reset", "two environments of one seed", env.reset()[0], twin.reset()[0])
    rng = np.random.default_rng(1)
    for t in range(200):
        if t == 100:
            state = env.get_state()
            if problem := state_problem(state["state"], 5):
                raise TaskError(id, problem)
            other.set_state(state)
        action = random_actions(env.single_action_space, 5, rng)
        timestep = env.step(action)
        _same(id, f"at step {t}", "two environments of one seed", timestep, twin.step(action))
        if t >= 100:
            what = "one that was restored and its original"
            _same(id, f"{t - 99} steps later", what, other.step(action), timestep)


def check_independence(make_task: MakeTask) -> None:
    """What an environment does depends on none of the others, whether they go on or begin an episode."""
    task = make_task(time_limit=40)
    num, rng = 20, np.random.default_rng(1)
    env = _vector(task, num, 5)
    env.reset()
    moments, actions = [], []
    for _ in range(60):
        moments.append(env.get_state())
        actions.append(random_actions(env.single_action_space, num, rng))
        env.step(actions[-1])
    pool = {
        part: {name: np.concatenate([moment[part][name] for moment in moments]) for name in moments[0][part]}
        for part in ("episode", "state")
    }
    action = np.concatenate(actions)
    goes_on, begins = (np.flatnonzero(pool["episode"]["last"] == last) for last in (False, True))

    def outcome(chosen: NDArray[np.intp], place: int, seed: int) -> dict[str, NDArray[Any]]:
        """The timestep and the state of the one at `place` after a step of those chosen from the pool."""
        start = {part: {name: x[chosen] for name, x in fields.items()} for part, fields in pool.items()}
        env.set_state({"rng": generator(seed).bit_generator.state, **start})
        observation, reward, terminated, _, infos = env.step(action[chosen])
        after = {"observation": observation, "reward": reward, "terminated": terminated, **infos}
        after |= {f"state {name!r}": x for name, x in env.get_state()["state"].items()}
        return {name: x[place] for name, x in after.items()}

    def check(others: NDArray[np.intp], place: int, hint: str) -> None:
        """Compares an environment among some that go on with the same one among some of `others`."""
        one = rng.choice(goes_on)
        groups = [np.insert(rng.choice(some, num - 1), place, one) for some in (goes_on, others)]
        parts = _differing(*(outcome(group, place, 0) for group in groups))
        if not parts:
            return
        # As all draw from one generator, others may have drawn before it. So a part is a fault only where no
        # random numbers change it in the first group, and it differs for a third of them in the second.
        left, changed = outcome(groups[0], place, 0), dict.fromkeys(sorted(parts), 0)
        for seed in range(60):
            for name in _differing(left, outcome(groups[0], place, seed)) & changed.keys():
                del changed[name]
            if not changed:
                return
            right = outcome(groups[1], place, seed)
            for name in _differing(left, right) & changed.keys():
                changed[name] += 1
        for name, count in changed.items():
            if count >= 20:
                problem = f"after the same step its {name} depends on the other environments"
                raise TaskError(task.spec.id, problem + hint, place)

    if goes_on.size:
        for others, hint in ((goes_on, ""), (begins, "; its restart may change only those at `env_ids`")):
            for trial in range(10 if others.size else 0):
                check(others, trial % num, hint)


def check_single(make_task: MakeTask) -> None:
    """A Gymnasium environment of the task does what a vector of one does."""
    task = make_task(time_limit=20)
    id, single, vector = task.spec.id, task.make_single(), _vector(task, 1, 9)
    what = "one environment and a vector of one"
    first, _ = vector.reset()
    observation, _ = single.reset(seed=9)
    _same(id, "after a reset", what, observation, first[0])
    rng = np.random.default_rng(1)
    episodes = 0
    for t in range(240):
        action = random_actions(single.action_space, 1, rng)
        answer, (observed, *numbers, infos) = single.step(action[0]), vector.step(action)
        expected = (observed[0], *(array[0] for array in numbers), {k: v[0] for k, v in infos.items()})
        _same(id, f"at step {t}", what, answer, expected)
        if answer[2] or answer[3]:
            episodes += 1
            # Seeded anew: where steps are random, a vector draws numbers for the ignored action too.
            observation, _ = single.reset(seed=episodes)
            _same(id, "after a reset", what, observation, vector.reset(seed=episodes)[0][0])
    assert episodes > 10, "the time limit ends them"


def check_gymnasium(make_task: MakeTask) -> None:
    """Gymnasium's own checker has nothing to say of it, and its picture is one."""
    task = make_task()
    id = task.spec.id
    env = task.make_single(render_mode="rgb_array" if _vector(task, 1, 1).draws else None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            check_env(env, skip_render_check=True)  # which needs an id of `gymnasium.make`
        except ANY_FAULT as error:  # an assertion, a warning, or what the task raises
            raise TaskError(id, f"Gymnasium's checker: {brief_error(error)}") from error
    if env.render_mode is not None:
        env.reset(seed=0)
        if problem := picture_problem(env.render()):
            raise TaskError(id, problem)


CHECKS: Final[tuple[Callable[[MakeTask], None], ...]] = (
    check_spec,
    check_timesteps,
    check_seeds_and_states,
    check_independence,
    check_single,
    check_gymnasium,
)


def random_actions(space: gymnasium.Space[Any], num: int, rng: np.random.Generator) -> NDArray[Any]:
    """Uniform actions for `num` environments."""
    if isinstance(space, Discrete):
        return rng.integers(space.n, size=num)
    assert isinstance(space, Box)
    return rng.uniform(space.low, space.high, size=(num, *space.shape))


def _vector(task: Task, num: int, seed: int) -> NativeVectorEnv:
    """A vector of the task, with a guard that looks at each answer of its `Dynamics`."""
    env = task.make_vector(num, seed)
    if not isinstance(env, NativeVectorEnv):
        raise TaskError(
            task.spec.id,
            "it is no native task, or has options that change what is observed; envs.try_task tries "
            "any task of your own",
        )
    if not isinstance(env, GuardedVectorEnv):
        env._dynamics = GuardedDynamics(task.spec.id, env._dynamics)
    return env


def _differing(left: dict[str, NDArray[Any]], right: dict[str, NDArray[Any]]) -> set[str]:
    """Names whose values have other bytes."""
    return {name for name in left if left[name].tobytes() != right[name].tobytes()}


def _same(id: str, when: str, what: str, left: Any, right: Any) -> None:
    if pickle.dumps(left) == pickle.dumps(right):  # nearly always
        return
    try:  # slow, but it knows about nested values and numbers of other types
        np.testing.assert_equal(left, right)
    except AssertionError:
        raise TaskError(id, f"{what} differ {when}: {brief(left)} and {brief(right)}") from None
