"""The command line. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .errors import JobsFailed, SkipbenchError

INTERRUPTED = 130

app = typer.Typer(
    name="skipbench",
    help="Which way of skipping layers buys how much speed for how much quality?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Names = Annotated[list[str] | None, typer.Option(help="Only these; separated by commas, or given several times.")]
Data = Annotated[str | None, typer.Option(help="Folder or file with the tasks' data, `stand-in`, or `auto`.")]
Plugins = Annotated[list[Path] | None, typer.Option(help="A Python file that registers methods or tasks.")]


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help="A suite's name (see `skipbench list`) or a YAML file.")],
    task: Names = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only these, like --task; `full` runs too where something is timed.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A built-in model, a folder, a GGUF file or a hub name.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Target speed-ups, such as 2 or 4x.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many test examples.", min=1)] = None,
    plugin: Plugins = None,
    data: Annotated[
        str | None, typer.Option(help="Folder or file with the tasks' data, `stand-in`, or `auto`.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="Results folder; default results/SUITE.")] = None,
    executor: Annotated[str, typer.Option(help="How jobs are run.")] = "local",
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what is recorded of these jobs first.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would run, and run nothing.")] = False,
) -> None:
    """Run a suite, or go on with it: what is finished is not run again."""
    from .commands.listing import plan_text, summary
    from .executors import prepare, run_suite

    options = {
        "task": task,
        "method": method,
        "model": model,
        "target": target,
        "limit": limit,
        "data": data,
        "plugin": plugin,
    }
    if plan:
        print(plan_text(prepare(suite, **options), out))
        return
    try:
        root = run_suite(suite, out, executor=executor, fresh=fresh, quiet=False, **options)
    except JobsFailed as failure:  # the others have results to look at
        print(summary(failure.root), flush=True)
        raise
    print(summary(root))


@app.command("list")
def list_names(plugin: Plugins = None, task: Names = None) -> None:
    """List methods, tasks, suites and built-in models; of tasks that are named, what is known of them."""
    from .commands.listing import listing

    print(listing(plugin or [], [name.strip() for names in task or [] for name in names.split(",")]))


@app.command()
def validate(
    method: Annotated[str, typer.Argument(help="A registered method: its name, or name:key=value.")],
    plugin: Plugins = None,
) -> None:
    """Check that a method keeps the engine's contract; exit code 1 if it does not."""
    from .registry import load_plugin
    from .validate import validate_method

    for file in plugin or []:
        load_plugin(file)
    report = validate_method(method)
    print(report)
    if not report.ok:
        raise typer.Exit(1)


# what the commands that choose on validation examples share; `--target 2 3 4` leaves 3 and 4 as further arguments
More = Annotated[list[str] | None, typer.Argument(help="Further target speed-ups.", metavar="[TARGET]...")]
Targets = Annotated[list[str] | None, typer.Option(help="Target speed-ups, such as 2 3 4.")]
Model = Annotated[str | None, typer.Option(help="A built-in model, a folder, a GGUF file or a hub name.")]
Settings = Annotated[str, typer.Option("--suite", help="The suite whose model, training and decoding settings hold.")]
OutFile = Annotated[Path | None, typer.Option(help="The artefact to write.")]


@app.command()
def tune(
    method: Annotated[str, typer.Argument(help="A method with open counts of layers: skipdecode, or name:key=value.")],
    more: More = None,
    task: Annotated[str, typer.Option(help="The task whose validation examples decide.")] = "e2e",
    target: Targets = None,
    model: Model = None,
    suite: Settings = "quick",
    plugin: Plugins = None,
    data: Data = None,
    out: OutFile = None,
) -> None:
    """Find a schedule's layers for target speed-ups on validation examples, as fractions that serve other tasks too."""
    from .commands.tune import tune as find

    targets = [*(target or []), *(more or [])]
    print(find(method, task, targets, suite=suite, model=model, data=data, plugin=plugin, out=out, quiet=False))


@app.command()
def calibrate(
    method: Annotated[str, typer.Argument(help="An early exit: calm, or name:key=value.")],
    more: More = None,
    task: Annotated[str, typer.Option(help="The task whose validation examples decide.")] = "e2e",
    target: Targets = None,
    guarantee: Annotated[str | None, typer.Option(help="Instead of targets: textual or risk consistency.")] = None,
    delta: Annotated[float, typer.Option(help="The loss that is promised.")] = 0.1,
    epsilon: Annotated[float, typer.Option(help="The probability that the promise fails.")] = 0.05,
    examples: Annotated[int | None, typer.Option(help="Validation examples; default the suite's.", min=1)] = None,
    checkpoint: Annotated[str, typer.Option(help="own, base or a folder.")] = "own",
    model: Model = None,
    suite: Settings = "quick",
    plugin: Plugins = None,
    data: Data = None,
    out: OutFile = None,
) -> None:
    """Choose an early exit's threshold on validation examples: for target speed-ups, or by Learn then Test."""
    from .commands.calibration import calibrate as choose

    promise = {"guarantee": guarantee, "delta": delta, "epsilon": epsilon, "examples": examples}
    common = {"suite": suite, "model": model, "data": data, "plugin": plugin, "out": out, "quiet": False}
    print(choose(method, task, [*(target or []), *(more or [])], checkpoint=checkpoint, **promise, **common))


@app.command()
def diagnose(
    task: Annotated[str, typer.Option(help="The task to look at.")] = "e2e",
    method: Names = None,
    target: Annotated[list[str] | None, typer.Option(help="Target speed-ups, such as 2 or 4x.")] = None,
    checkpoint: Annotated[str, typer.Option(help="own, base or a folder.")] = "own",
    model: Model = None,
    suite: Settings = "quick",
    plugin: Plugins = None,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the CSV and the plot.")] = None,
) -> None:
    """Loss and accuracy by output position, and how early each layer agrees with the last."""
    from .commands.diagnosis import diagnose as look
    from .reporting.positions import table_text

    common = {"suite": suite, "model": model, "data": data, "plugin": plugin, "out": out, "quiet": False}
    found, paths = look(task, method=method, targets=target or [], checkpoint=checkpoint, **common)
    print(table_text(found))
    for path in paths:
        print(path)


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="A results folder.")]) -> None:
    """Make results.csv, tables and plots of a results folder anew where something changed."""
    from .reporting import build_report, is_current

    current = is_current(folder)
    files = build_report(folder)
    print(f"up to date: {folder / 'report.html'}" if current else "\n".join(map(str, files)))


@app.command()
def claims(folder: Annotated[Path, typer.Argument(help="A results folder.")]) -> None:
    """Judge the papers' claims from a results folder: supported, refuted or not decided."""
    from .reporting import claims_text, judge_claims

    print(claims_text(judge_claims(folder)))


@app.command()
def bench() -> None:
    """Measure the engine itself on this machine; the last line is JSON."""
    import json

    from .measuring import run_bench

    print(json.dumps(run_bench()))


@app.command()
def verify(folder: Annotated[Path, typer.Argument(help="A results folder.")]) -> None:
    """Find missing, double and altered records; exit code 1 if there are any."""
    from .results import verify as verify_folder

    verdict = verify_folder(folder)
    print(verdict)
    if not verdict.ok:
        raise typer.Exit(1)


def main() -> None:
    """Entry point: errors are one line, with exit code 1 (a run failed) or 2 (bad usage)."""
    try:
        code = app(standalone_mode=False)
    except BrokenPipeError:
        code = 0
    except SkipbenchError as error:
        code = _fail(str(error), error.exit_code)
    except OSError as error:
        code = _fail(str(error), 1)
    except Exception as error:  # typer's usage errors; which package their class is in depends on its version
        if not hasattr(error, "format_message"):
            raise
        code = _misused(error)
    if code == INTERRUPTED:  # typer turns Ctrl-C into this
        _fail("interrupted; what was recorded is kept, run the same command to go on", code)
    sys.exit(code or 0)


def _fail(reason: str, code: int) -> int:
    print(f"skipbench: {' '.join(reason.split())}", file=sys.stderr)
    return code


def _misused(error) -> int:
    """Report a usage error of typer's in one line."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return error.exit_code
    command = f" {error.ctx.info_name}" if error.ctx and error.ctx.parent else ""
    return _fail(f"{error.format_message().rstrip('.')}; see skipbench{command} --help", error.exit_code)


if __name__ == "__main__":
    main()
