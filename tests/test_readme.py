"""The README tells the truth: every command in it runs, every file it shows works, every path it names is there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines() if line.strip()]
OWN_SUITE = "first_curve.yaml"
SHELL_SCRIPTS = ("./run_all.sh", "./run_tests.sh")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with the files the README shows, where its commands run one after the other."""
    folder = tmp_path_factory.mktemp("readme")
    for kind, text in BLOCKS:
        name = re.search(r'@register_(?:method|task)\("(\w+)"\)', text)
        if kind == "python" and name:
            (folder / f"{name[1]}.py").write_text(text)
        if kind == "yaml":
            (folder / OWN_SUITE).write_text(text)
    return folder


def _run(words, workplace):
    environment = {
        **os.environ,
        "SKIPBENCH_CHECKPOINTS": str(workplace / "checkpoints"),
        "HF_HUB_OFFLINE": "0" if "gpt2" in words else "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "harness.cli", *words]
    return subprocess.run(command, cwd=workplace, env=environment, capture_output=True, text=True)


def test_every_command_runs(workplace):
    """In order, since later ones read what earlier ones wrote. Runs of minutes are planned instead of run."""
    ran = []
    for line in COMMANDS:
        program, *words = shlex.split(line)
        if program in SHELL_SCRIPTS:
            continue
        assert program == "skipbench", f"this test does not know how to run {line!r}"
        heavy = words[0] == "run" and words[1] in ("quick", "tiny", OWN_SUITE) and "--plan" not in words
        if "gpt2" in words:  # needs the hub; offline it must say so in one line
            done = _run(words, workplace)
            assert done.returncode in (0, 2) and "Traceback" not in done.stderr, done.stderr
        else:
            done = _run([*words, *(["--plan"] if heavy else [])], workplace)
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        ran.append(line)
    assert len(ran) >= 10


def test_the_shell_scripts_are_there_and_valid():
    for name in SHELL_SCRIPTS:
        assert any(line.startswith(name) for line in COMMANDS)
        script = ROOT / name
        assert os.access(script, os.X_OK)
        assert subprocess.run(["bash", "-n", script]).returncode == 0


def test_the_python_snippets_run(workplace):
    frame_code = next(text for kind, text in BLOCKS if kind == "python" and "read_results" in text)
    check = "assert len(layers) > 5 and len(clock) > 5"
    code = f"{frame_code}\n{check}"
    done = subprocess.run([sys.executable, "-c", code], cwd=workplace, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_file_it_links_is_there():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


def test_it_names_every_built_in_method():
    names = {path.stem for path in (ROOT / "methods").glob("*.py")} - {"__init__"}
    assert not {name for name in names if f"`{name}`" not in README}
