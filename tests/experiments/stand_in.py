"""A small program that behaves like a run, and jobs of it."""

import json
import sys

from dtqn.experiments.jobs import Job, RunQueue
from dtqn.settings.presets import resolve
from dtqn.training.directory import RunDir, ends_at

_PROGRAM = """
import json, os, pathlib, signal, sys, time
assert sys.argv[1] == "--resume"
folder = pathlib.Path(sys.argv[2])
plan = json.loads((folder / "plan.json").read_text())
caught = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: caught.append(number))
def event(name):
    with (folder.parent / "events").open("a") as file:
        file.write(f"{name} {folder.name} {os.environ['OMP_NUM_THREADS']}\\n")
saved = folder / "saved"
done = int(saved.read_text()) if saved.exists() else 0
event("begin")
if plan.get("dies"):
    plan["dies"].pop()
    (folder / "plan.json").write_text(json.dumps(plan))
    os.kill(os.getpid(), signal.SIGKILL)
while plan.get("with") and f"begin {plan['with']}" not in (folder.parent / "events").read_text():
    time.sleep(0.01)
for row in range(done, plan["rows"]):
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"env_steps": row}) + "\\n")
    time.sleep(plan["seconds"])
    while plan.get("deaf"):
        time.sleep(1)
    if caught:
        saved.write_text(str(row + 1))
        print("interrupted and saved", flush=True)
        event("end")
        sys.exit(128 + caught[0])
event("end")
if plan.get("beaten"):  # another process has trained the run meanwhile
    (folder / "result.json").write_text(json.dumps({"ends_at": plan["ends_at"]}))
if plan.get("code"):
    print("error: it broke\\n", flush=True)
    sys.exit(plan["code"])
(folder / "result.json").write_text(json.dumps({"ends_at": plan["ends_at"]}))
print("done", flush=True)
"""


def program(folder):
    """The command of the program, which is put into the folder."""
    (folder / "program.py").write_text(_PROGRAM)
    return [sys.executable, "-I", str(folder / "program.py")]


def job(folder, name, rows=2, seconds=0.02, **plan):
    """A job that writes so many rows, with so many seconds after each."""
    directory = RunDir(folder / name)
    config = resolve(None, {"total_env_steps": 1000, "threads": 1}, {})
    directory.prepare(config)
    plan = {"rows": rows, "seconds": seconds, "ends_at": ends_at(config)} | plan
    (folder / name / "plan.json").write_text(json.dumps(plan))
    return Job(name, directory)


def queue(program, *added, at_once=100):
    """A queue of jobs."""
    made = RunQueue(at_once, program)
    for one in added:
        made.add(one)
    return made


def run(queue, after=lambda changed: None):
    """Run everything, with a call at each change; the state of each job by name."""
    with queue:
        for changed in queue.changes():
            after(changed)
    return {job.name: job.state for job in queue.jobs}


def events(folder):
    """Beginnings and ends of the folder's jobs: (begin or end, name, threads)."""
    return [tuple(line.split()) for line in (folder / "events").read_text().splitlines()]
