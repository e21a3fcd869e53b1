"""What is there to run, what would run and what came out, as text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..executors import is_done, results_folder
from ..jobs.identity import job_id, task_of
from ..jobs.planning import FloorJob, Job, QualityJob, TimingJob, make_jobs
from ..jobs.preflight import check_jobs
from ..registry import METHODS, TASKS, Registry, load_plugin
from ..results import Store
from ..suite import Suite, TrainingSpec, description, suite_names
from ..task import Task, examples_of, load_task


def listing(plugins: Iterable[Path] = (), tasks: Iterable[str] = ()) -> str:
    """A line for each name, with the first line of its description; broken plug-ins with their reason.

    Of `tasks`, where any are named, all that is known before their data are loaded.
    """
    from ..backbone.builtin import BUILTIN

    for file in plugins:
        load_plugin(file)
    if tasks:
        return "\n\n".join(_task_text(load_task(name)) for name in tasks)
    parts = [_registered("methods", METHODS), _registered("tasks", TASKS)]
    parts.append("suites\n" + "\n".join(f"  {name:16} {description(name)}" for name in suite_names()))
    models = (f"  {name:16} {_shape(name)}" for name in BUILTIN)
    parts.append("built-in models\n" + "\n".join(models))
    return "\n\n".join(parts)


def _task_text(task: Task) -> str:
    """What a task asks of a model, how large it is, and what its numbers can be compared with."""
    facts = {
        "variants": ", ".join(task.variants),
        "language": task.language,
        "metrics": ", ".join(task.metrics),
        "tokens": f"prompts of up to {task.max_prompt_tokens}, outputs of up to {task.max_output_tokens}",
        "local data": ", ".join(f"{split} {count:,}" for split, count in task.sizes.items()),
        "comparable": task.comparable,
    }
    lines = (f"  {name:16} {fact}" for name, fact in facts.items() if fact)
    return "\n".join([f"{task.label}: {_first_line(type(task))}", *lines])


def _registered(title: str, registry: Registry) -> str:
    lines = [f"  {name:16} {_first_line(cls)}" for name, cls in registry.load_all().items()]
    lines += [f"  {name:16} BROKEN: {reason}" for name, reason in sorted(registry.broken.items())]
    return "\n".join([title, *lines])


def _shape(model: str) -> str:
    """`opt, 12 layers x 128`, and of a looped model its cycles."""
    from ..backbone.builtin import BUILTIN, CYCLES

    family, layers, width, _ = BUILTIN[model]
    looped = f", {CYCLES[model]} x the same {layers // CYCLES[model]}" if model in CYCLES else ""
    return f"{family}, {layers} layers x {width}{looped}"


def _first_line(cls: type) -> str:
    return next(iter((cls.__doc__ or "").strip().splitlines()), "")


def plan_text(suite: Suite, out: str | Path | None) -> str:
    """What a run would do, job by job, with its size: examples to decode at most, and steps to train."""
    jobs = make_jobs(suite)
    check_jobs(job for job in jobs if isinstance(job, QualityJob))
    store = Store(results_folder(suite, out))
    lines, todo = [f"{suite.name}: {suite.description}"], 0
    for job in jobs:
        done = is_done(job_id(job), job, store)
        todo += not done
        lines.append(f"  {'done' if done else 'todo'}  {job.label:48} {_size(job)}")
    specs = {f"{spec.task} {spec.model}": spec.training for spec in suite.tasks}
    training = [f"{name}: {_base(t)}{t.own_steps:,} steps a checkpoint" for name, t in specs.items()]
    lines += ["training, for checkpoints that are not there yet:", *(f"  {line}" for line in training)]
    return "\n".join([*lines, f"{todo} jobs to do; results in {store.root}"])


def _base(training: TrainingSpec) -> str:
    return f"base {training.base_steps:,} steps, then " if training.base_steps else ""


def _size(job: Job) -> str:
    if isinstance(job, FloorJob):
        return "no decoding"
    if isinstance(job, TimingJob):
        return f"{len(job.members)} methods, up to {job.members[0].spec.timing.seconds:g} s"
    task = task_of(job.spec.task, job.data)
    count = len(examples_of(task, job.spec.split)[: job.spec.limit])
    tokens = job.spec.decoding.max_new_tokens or task.max_output_tokens
    return f"{count:,} {task.source} examples, up to {count * tokens:,} tokens"


def summary(root: Path) -> str:
    """Where to look, and the main figures of a finished folder."""
    from ..reporting import overview

    places = {"Report": "report.html", "Tables": "tables", "Plots": "plots", "All numbers": "results.csv"}
    lines = [f"{name + ':':13} {root / place}" for name, place in places.items()]
    return "\n".join([overview(root), "", *lines])
