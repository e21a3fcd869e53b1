"""The command line. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .errors import SkipbenchError

app = typer.Typer(
    name="skipbench",
    help="Which way of skipping layers buys how much speed for how much quality?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Names = Annotated[list[str] | None, typer.Option(help="Only these; separated by commas, or given several times.")]
Plugins = Annotated[list[Path] | None, typer.Option(help="A Python file that registers methods or tasks.")]


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help="A suite's name (see `skipbench list`) or a YAML file.")],
    task: Names = None,
    method: Names = None,
    model: Annotated[str | None, typer.Option(help="A built-in model, a folder, a GGUF file or a hub name.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Target speed-ups, such as 2 or 4x.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many test examples.", min=1)] = None,
    plugin: Plugins = None,
    data: Annotated[str | None, typer.Option(help="Folder or file with the tasks' data, or `stand-in`.")] = None,
    out: Annotated[Path | None, typer.Option(help="Results folder; default results/SUITE.")] = None,
    executor: Annotated[str, typer.Option(help="How jobs are run.")] = "local",
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what is recorded of these jobs first.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would run, and run nothing.")] = False,
) -> None:
    """Run a suite, or go on with it: what is finished is not run again."""
    from .executors import prepare, run_suite
    from .listing import plan_text, summary

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
    print(summary(run_suite(suite, out, executor=executor, fresh=fresh, quiet=False, **options)))


@app.command("list")
def list_names(plugin: Plugins = None) -> None:
    """List methods, tasks, suites and built-in models."""
    from .listing import listing

    print(listing(plugin or []))


@app.command()
def validate(
    method: Annotated[str, typer.Argument(help="A registered method's name.")], plugin: Plugins = None
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


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="A results folder.")]) -> None:
    """Make results.csv, tables and plots of a results folder anew where something changed."""
    from .reporting import build_report

    for path in build_report(folder):
        print(path)


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
        app()
    except SkipbenchError as error:
        print(f"skipbench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("skipbench: interrupted; what was recorded is kept, run the same command to go on", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)


if __name__ == "__main__":
    main()
