"""`skipbench diagnose`: what each method loses at which output position, and how early each layer agrees with the last.

SkipDecode starts from the observation that later tokens are easier; this shows whether it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import SkipbenchError
from ..executors import RESULTS
from ..jobs.planning import QualityJob, make_jobs
from ..jobs.quality import reference_pairs
from ..jobs.quality_run import QualityRun, model_facts
from ..method import EarlyExit
from ..progress import Reporter
from ..reporting.points import slug
from ..reporting.positions import Curve, Diagnosis, csv_text
from ..results.files import make_folder, replace
from ..suite import Suite
from ..tuning.agreement import layer_agreement
from ..tuning.teacher import teacher_forced
from .validation_split import bench_for, prepared_suite

EXAMPLES = 200


def diagnose(
    task: str, *, method: Sequence[str] | None = None, targets: Sequence[float | str] = (), checkpoint: str = "own",
    suite: str = "quick", model: str | None = None, data: str | Path | None = None, plugin=None,
    out: str | Path | None = None, quiet: bool = True,
) -> tuple[Diagnosis, list[Path]]:  # fmt: skip
    """Teacher-forced scores of a suite's methods on validation examples; writes a CSV and a plot, returns their paths.

    Agreement is shown for `full`, if it is among the methods, and for each early exit, with their checkpoints.
    """
    narrowed = prepared_suite(task, suite, method=method, model=model, data=data, plugin=plugin, target=targets)
    with Reporter(quiet) as reporter:
        bench = bench_for(reporter)
        runs = [QualityRun(job, bench) for job in _jobs(narrowed, checkpoint)]
        curves: list[Curve] = []
        for run in runs:
            pairs = reference_pairs(run.backbone, run.validation_items(EXAMPLES), run.max_new_tokens)
            with _naming(run):
                curves += [*_scores(run, pairs), *_agreement(run, pairs, curves)]
        tokens = teacher_forced(runs[0].backbone, runs[0].method, pairs, runs[0].max_new_tokens).counts()
    found = Diagnosis(_config(runs[0], len(pairs)), tuple(tokens), tuple(curves))
    return found, _write(found, Path(out) if out else RESULTS / "diagnosis")


@contextmanager
def _naming(run: QualityRun) -> Iterator[None]:
    """A SkipbenchError that names the method, whatever it raises."""
    try:
        yield
    except SkipbenchError:
        raise
    except Exception as error:
        raise SkipbenchError(f"{run.job.label}: {type(error).__name__}: {error}") from error


def _jobs(suite: Suite, checkpoint: str) -> list[QualityJob]:
    """One job a method and target, on the validation split, with the first seed."""
    spec = suite.tasks[0]
    changes = {"checkpoints": [checkpoint], "seeds": spec.seeds[:1], "split": "validation"}
    narrowed = suite.model_copy(update={"tasks": [spec.model_copy(update=changes)]})
    return [job for job in make_jobs(narrowed) if isinstance(job, QualityJob)]


def _scores(run: QualityRun, pairs) -> list[Curve]:
    forced = teacher_forced(run.backbone, run.method, pairs, run.max_new_tokens)
    measured = {"loss": forced.loss_by_position(), "accuracy": forced.accuracy_by_position()}
    return [Curve(name, _name(run.job), run.job.checkpoint, tuple(values)) for name, values in measured.items()]


def _agreement(run: QualityRun, pairs, so_far: Sequence[Curve]) -> list[Curve]:
    """Curves of each layer; once for methods that share a name, whose targets share a checkpoint."""
    name = run.job.method
    shown = name == "full" or isinstance(run.method, EarlyExit)
    if not shown or any(curve.measure == "agreement" and curve.method == name for curve in so_far):
        return []
    shares = 100 * layer_agreement(run.backbone, pairs)
    return [
        Curve("agreement", name, run.job.checkpoint, tuple(row.tolist()), layer)
        for layer, row in enumerate(shares, start=1)
    ]


def _name(job: QualityJob) -> str:
    parameters = "".join(f" {key}={value}" for key, value in job.params)
    return f"{job.method}{parameters}" + (f" {job.target:g}x" if job.target is not None else "")


def _config(run: QualityRun, count: int) -> dict:
    model = model_facts(run.backbone, run.job.spec.model, run.weights)
    return {"task": run.task.label, "source": run.task.source, "split": "validation", "n": count, "model": model}


# -- writing --------------------------------------------------------------------------------------------------------


def _write(found: Diagnosis, folder: Path) -> list[Path]:
    from ..reporting.plots.position_plot import save_plot

    make_folder(folder)
    name = slug(f"{found.config['task']}_{found.config['model']['name']}_{found.curves[0].checkpoint}")
    table = folder / f"{name}.csv"
    replace(table, csv_text(found).encode())
    return [table, *save_plot(found, folder, name)]
