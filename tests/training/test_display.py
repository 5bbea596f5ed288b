"""The views over several runs, and the time to go of one; all else of that is tested with runs."""

import io
from unittest import mock

from rich.console import Console

from dtqn import text
from dtqn.training import display
from tests.training.fake import Terminal


class _Run:
    def __init__(self, name, state="waiting", rows=(), total=1000):
        self.name, self.state, self.total_env_steps = name, state, total
        self.rows = [_row(0), *rows] if rows else []


def _row(env_steps, success=None, speed=50.0):
    row = {
        "env_steps": env_steps,
        "learner_steps": env_steps + 1,
        "seconds": env_steps / speed,
        "speed/env_steps_per_second": speed,
    }
    if success is not None:
        row |= {"eval/return": success, "eval/success": success, "eval/success_low": 0.0}
        row |= {"eval/success_high": 1.0}
    return row


def test_plain_lines_tell_every_change_of_state_once():
    out = io.StringIO()
    runs = [_Run("a"), _Run("b")]
    view = display.RunsView(out, runs)
    view.update(runs)
    runs[0].state = "running"
    view.update(runs[:1])
    runs[0].rows = [_row(500, 0.25), _row(600)]
    view.update(runs[:1])
    runs[1].state = "running"
    view.update(runs)
    runs[0].state, runs[1].state = "finished", "failed"
    view.update(runs)
    view.update(runs)
    view.close()
    assert out.getvalue().splitlines() == [
        "a: running  0/1 000 env steps (0%)",
        "b: running  0/1 000 env steps (0%)",
        "a: finished in 0:12  600/1 000 env steps (60%)  success 25.0% [0.0%, 100.0%]",
        "b: failed  0/1 000 env steps (0%)",
    ]


def test_plain_lines_give_an_overview_now_and_then():
    out = io.StringIO()
    runs = [_Run("a", "running", [_row(400, speed=30.0)]), _Run("b", "running", [_row(200, speed=20.0)])]
    runs += [_Run("c"), _Run("d", "finished", [_row(1000, 1.0)])]
    view = display.RunsView(out, runs, every_seconds=0.0)
    view.update([])
    # left: 600 steps in 20 s, 800 in 40 s, and after the first of them 1000 at the mean of 1/30, 1/20, 1/50 s
    # in 34 s
    assert out.getvalue().splitlines() == [
        "a: running  400/1 000 env steps (40%)",
        "b: running  200/1 000 env steps (20%)",
        "4 runs: 2 running, 1 waiting, 1 finished  eta 0:54",
    ]


def test_a_line_of_a_run_that_has_just_begun_is_said_once():
    out = io.StringIO()
    view = display.RunsView(out, [_Run("a", "running")], every_seconds=0.0)
    view.update(view._runs)
    view.update([])
    assert out.getvalue().count("a: running  0/1 000 env steps (0%)") == 1


def test_the_time_to_go_is_not_that_of_the_last_row():
    """Which may be one between the updates of two rollouts."""
    rows = [_row(steps, speed=10.0) for steps in (200, 400, 600)]
    burst = rows[-1] | {"env_steps": 610, "speed/env_steps_per_second": 1e4}
    waiting = _Run("b", total=390)
    facts = [display.RunFacts(run) for run in (_Run("a", "running", [*rows, burst]), waiting)]
    # 390 steps and 390 more at (60 s - 20 s) / (610 - 200) each
    assert display.overview(facts) == "2 runs: 1 running, 1 waiting  eta 1:16"
    assert display.overview(facts[1:]) == "1 run: 1 waiting  eta -:--"


def test_the_pace_of_warm_up_is_not_that_of_learning():
    """1 000 steps in a second, then 100 in each."""
    warm, begun, later = (_row(1_000, speed=1e3) | {"learner_steps": n} for n in (0, 1, 20))
    later |= {"env_steps": 1_200, "seconds": 3.0}
    run = _Run("r", total=3_000)
    for rows, pace in (([warm], 0.0), ([warm, begun], 0.0), ([warm, begun, later], 0.01)):
        run.rows = rows
        assert display.RunFacts(run).pace == pace
    run.state = "finished"
    assert display.RunFacts(run).pace == 3.0 / 1_200


def test_the_time_to_go_of_a_run_is_at_the_pace_of_learning():
    """Warm-up takes a second for 1 000 steps. Then ten steps and an update take 0.1 s, so 9 000 take 90 s.

    An evaluation of 20 s counts: where the later two thirds of 6 000 steps took 60 s, 5 000 more take 75.
    """
    view = display.View(io.StringIO(), 11_000, 0)

    def eta(env_steps, learner_steps, seconds):
        view.row({"env_steps": env_steps, "learner_steps": learner_steps, "seconds": seconds})
        return view._progress.partition("  ")[2]

    begun = [(500, 0, 0.5), (1_000, 0, 1.0), (1_100, 10, 2.0)]
    assert [eta(*row) for row in begun] == ["eta -:--"] * 3
    assert eta(2_000, 100, 11.0) == "eta 1:30"
    view.progress(3_000)
    assert view._progress.endswith("eta 1:20"), "between two rows"
    assert eta(6_000, 500, 71.0) == "eta 1:15"
    assert eta(11_016, 1_000, 141.0) == "eta 0:00"
    view = display.View(io.StringIO(), 2_000, 1_000)
    assert [eta(1_200, 120, 100.0), eta(1_500, 150, 106.0)] == ["eta -:--", "eta 0:10"]


def _shown(runs, height, width=110):
    """The lines of the table on a terminal of so many."""
    console = Console(file=Terminal(), color_system=None, width=width, height=height)
    with mock.patch.object(display, "Console", return_value=console):
        view = display.RunsView(Terminal(), runs)
    view.update(runs)
    view.close()
    with console.capture() as capture:
        console.print(view._render())
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_terminal_shows_all_runs_in_one_table():
    a = _Run("a", "running", [_row(500, 0.25)])
    lines = _shown([a, _Run("b", "failed"), _Run("c", "finished", [_row(1000)])], 20)
    assert lines[0].startswith("a  running  ") and "50%" in lines[0] and "50 env steps/s" in lines[0]
    assert lines[0].endswith("success 25.0% [0.0%, 100.0%]")
    assert lines[1].startswith("b  failed") and lines[2].startswith("c  finished")
    assert lines[3] == "3 runs: 1 running, 1 failed, 1 finished  eta 0:10"


def test_a_run_is_one_line_of_80_columns():
    name = "gridverse-memory-7x7 an-agent-with-a-long-name seed"
    begun, over = (_row(500, 0.25, 12_345), _row(1000, 1.0))
    runs = [_Run(f"{name} 1", "running", [begun]), _Run(f"{name} 12", "finished", [over])]
    first, second, _ = _shown(runs, 20, width=80)
    assert max(len(first), len(second)) <= 80
    assert first.startswith("an-agent-with…-name seed 1  ") and second.startswith(
        "an-agent-with…name seed 12  "
    )
    assert first.endswith("12 345/s  success 25.0%") and second.endswith("100%            success 100.0%")


def test_a_small_terminal_shows_what_runs_first():
    states = {"r1": "running", "f": "finished", "r2": "running"}
    lines = _shown([_Run(f"w{i}") for i in range(5)] + [_Run(*each) for each in states.items()], 7)
    assert [line.split()[0] for line in lines] == ["w0", "r1", "r2", "and", "8"]
    assert lines[3] == "and 5 more"


def test_clocks_and_numbers():
    assert [text.clock(seconds) for seconds in (0, 59.6, 3723)] == ["0:00", "1:00", "1:02:03"]
    assert text.number(1234567.2) == "1 234 567"
