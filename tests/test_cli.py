"""The command line: one line an error, the right exit code, and nothing heavy before it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest
from reporting_fixtures import add_run

from harness import cli
from harness.commands.listing import listing
from harness.errors import JobsFailed, SkipbenchError
from harness.results import Store
from harness.suite import load_suite, suite_names

ROOT = Path(__file__).resolve().parent.parent


def skipbench(*arguments, **options):
    command = [sys.executable, "-m", "harness.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)


def test_help_imports_nothing_heavy():
    code = (
        "import sys, harness, harness.cli; "
        "heavy = {'torch', 'transformers', 'pandas', 'matplotlib', 'numpy', 'pydantic'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    shown = skipbench("--help")
    assert shown.returncode == 0
    assert all(command in shown.stdout for command in ("run", "list", "validate", "report", "verify"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "quik"], "unknown suite 'quik'; did you mean quick?"),
        (["run", "quick", "--task", "e2ee"], "unknown task 'e2ee'; did you mean e2e?"),
        (["run", "quick", "--method", "skip_decode"], "unknown method 'skip_decode'; did you mean skipdecode"),
        (["run", "smoke", "--target", "fast"], "not 'fast'"),
        (["run", "smoke", "--target", "0.5x"], "not '0.5x'"),
        (["run", "smoke", "--target", "1000x"], "not '1000x'"),
        (["run", "smoke", "--plugin", "nowhere.py"], "no plug-in file at"),
        (["run", "smoke", "--executor", "cloud"], "unknown executor 'cloud'"),
        (
            ["run", "smoke", "--method", "calm:threshhold=1"],
            "unknown parameter of calm 'threshhold'; did you mean threshold?",
        ),
        (["run", "smoke", "--model", "./nowhere"], "no model folder at ./nowhere"),
        (["run", "smoke", "--data", "nowhere"], "does not exist"),
        (["run", "smoke", "--limit", "0"], "'--limit'"),
        (["run", "smoke", "--metod", "full"], "--metod"),
        (["run"], "Missing argument"),
        (["runn"], "No such command 'runn'"),
        (["run", "smoke", "--method", "unified", "--target", "4"], "the official rule keeps 1 of 4 layers at 4x"),
        (["run", "smoke", "--plan", "--method", "multi_layer:exit_layers=9"], "exit_layers must lie in 1..4, not 9"),
        (["run", "smoke", "--plan", "--target", "9"], "from 1 to the number of layers (4)"),
        (["run", "smoke", "--plan", "--model", "harness"], "folder harness holds no model of transformers"),
        (["validate", "ful"], "unknown method 'ful'"),
        (["report", "nowhere"], "nowhere"),
        (["verify", "nowhere"], "nowhere"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments, message, tmp_path):
    if arguments[0] == "run":
        arguments = [*arguments, "--out", tmp_path / "out"]
    done = skipbench(*arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("out", ["file", "file/below", ""])
@pytest.mark.parametrize("plan", [[], ["--plan"]])
def test_results_need_a_folder(tmp_path, out, plan):
    (tmp_path / "file").write_text("mine")
    done = skipbench("run", "smoke", "--out", tmp_path / out if out else "", *plan)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
    assert "is a file" in done.stderr if out else "--out is empty" in done.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted; what was recorded is kept"),
        (PermissionError(13, "Permission denied", "/root/x"), 1, "Permission denied: '/root/x'"),
        (SkipbenchError("two\nlines"), 1, "two lines"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_whatever_ends_a_command_is_one_line(monkeypatch, capsys, error, code, message):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("harness.commands.listing.listing", fail)
    monkeypatch.setattr(sys, "argv", ["skipbench", "list"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code or 0) == code
    said = capsys.readouterr().err.strip()
    assert message in said and len(said.splitlines()) == bool(message)


def test_a_broken_plug_in_file_is_named_and_nothing_runs(tmp_path):
    plugin = tmp_path / "broken.py"
    plugin.write_text("import no_such_module\n")
    done = skipbench("run", "smoke", "--plugin", plugin, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "broken.py" in done.stderr and "no_such_module" in done.stderr and "Traceback" not in done.stderr


def test_list_names_everything():
    done = skipbench("list")
    assert done.returncode == 0
    for name in ("skipdecode", "calm", "unified", "multi_layer", "random_skip", "full", "e2e", "quick", "mini-opt"):
        assert name in done.stdout


def test_list_says_what_a_suite_is_for():
    text = listing()
    for name in suite_names():
        assert f"  {name:16} {load_suite(name).description}" in text and load_suite(name).description


def test_list_says_how_large_a_task_is_and_what_it_compares_with(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from harness import Task, register_task\n@register_task('mine_alone')\nclass Mine(Task):\n    '''Mine.'''\n"
    )
    done = skipbench("list", "--task", "e2e, translation:en-zh", "--task", "mine_alone", "--plugin", plugin)
    assert done.returncode == 0, done.stderr
    e2e, translation, mine = done.stdout.strip().split("\n\n")
    assert "train 4,862, validation 547, test 630" in e2e and "equal the challenge's" in e2e
    assert translation.startswith("translation:en-zh: ") and "language         zh" in translation
    assert (
        "wmt22 2,037" in translation and "ro-en-before" in translation and "Tatoeba splits are our own" in translation
    )
    assert mine.startswith("mine_alone: Mine.") and "comparable" not in mine and "local data" not in mine
    wrong = skipbench("list", "--task", "e2ee")
    assert wrong.returncode == 2 and "unknown task 'e2ee'; did you mean e2e?" in wrong.stderr


def test_a_report_that_is_up_to_date_is_one_line(tmp_path, monkeypatch, capsys):
    with Store(tmp_path) as store:
        store.write_suite("quick", "h", ["a"])
        store.fail("a", {}, "RuntimeError: out of luck")
    said = []
    for _ in range(2):
        cli.report(tmp_path)
        said.append(capsys.readouterr().out.splitlines())
    assert str(tmp_path / "results.csv") in said[0] and said[1] == [f"up to date: {tmp_path / 'report.html'}"]
    (tmp_path / "report.html").unlink()
    cli.report(tmp_path)
    assert str(tmp_path / "report.html") in capsys.readouterr().out.splitlines()


def test_after_a_failed_job_the_others_figures_are_shown(tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise JobsFailed("1 of 2 jobs failed", tmp_path)

    with Store(tmp_path) as store:
        add_run(store, "e2e", "full", None)
    monkeypatch.setattr("harness.executors.run_suite", fail)
    monkeypatch.setattr(sys, "argv", ["skipbench", "run", "smoke"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert ended.value.code == 1 and said.err == "skipbench: 1 of 2 jobs failed\n"
    assert "full" in said.out and f"Report:       {tmp_path / 'report.html'}" in said.out


def test_plan_runs_nothing(tmp_path):
    done = skipbench("run", "smoke", "--plan", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "todo  e2e nano-opt skipdecode 2x" in done.stdout and "stand-in examples" in done.stdout
    assert not (tmp_path / "out").exists()


def test_verify_finds_an_altered_folder(tmp_path):
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "run.json").write_text("{")
    done = skipbench("verify", tmp_path)
    assert done.returncode == 1 and "run.json" in done.stdout + done.stderr and "Traceback" not in done.stderr
