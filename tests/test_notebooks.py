"""The notebooks run from top to bottom on results of `smoke`, and are committed with pictures as their only outputs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nbformat
import pytest
import yaml
from nbclient import NotebookClient

from harness import run_suite

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with copies of the notebooks, results of `smoke` beside them, and an environment of its own."""
    folder = tmp_path_factory.mktemp("notebooks")
    environment = {
        "SKIPBENCH_CHECKPOINTS": str(folder / "checkpoints"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(folder / "jupyter"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        suite = yaml.safe_load((ROOT / "harness" / "suites" / "smoke.yaml").read_text())
        suite["timing"] |= {"repeats": 2, "seconds": 0.5}  # what the clock says matters here even less than in smoke
        (folder / "smoke.yaml").write_text(yaml.safe_dump(suite))
        run_suite(
            str(folder / "smoke.yaml"), folder / "smoke", task="e2e", method="full,calm,skipdecode,unified", limit=8
        )
        for path in NOTEBOOKS:
            shutil.copy(path, folder)
        yield folder


def run_notebook(path: Path, **parameters: str) -> str:
    """Execute a notebook where it lies, with other values in its cell of parameters; all its outputs as text."""
    notebook = nbformat.read(path, as_version=4)
    cell = next(c for c in notebook.cells if "parameters" in c.metadata.get("tags", ()))
    for name, value in parameters.items():
        assert f"{name} = " in cell.source
        cell.source += f"\n{name} = {value!r}"
    where = {"metadata": {"path": path.parent}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    outputs = [output for c in notebook.cells for output in c.get("outputs", [])]
    assert not [o for o in outputs if o.output_type == "error"]
    return str(outputs)


def test_curves_from_a_results_folder(workplace):
    shown = run_notebook(workplace / "1_speed_quality_curves.ipynb", FOLDER="smoke")
    assert shown.count("image/png") == 1
    assert "stand-in" in shown and "most frequent reference" in shown


@pytest.mark.long
def test_add_a_method(workplace):
    shown = run_notebook(workplace / "2_add_a_method.ipynb", SUITE="smoke.yaml", OUT="mine")
    assert "'2x': [0, 1, 2, 9, 10, 11]" in shown and "drop_middle" in shown and shown.count("image/png") == 1
    assert (workplace / "mine" / "report.html").is_file()


def test_reproduce_a_papers_table(workplace):
    shown = run_notebook(workplace / "3_reproduce_a_papers_table.ipynb", FOLDER="smoke")
    assert "tokens/s, batch 4" in shown and "21.23" in shown and shown.count("image/png") == 1


def test_the_notebooks_of_the_readme_are_those_that_are_tested():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 3 and all(f"](notebooks/{name}.ipynb)" in readme for name in NAMES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_only_pictures_are_committed(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert {mime for cell in code for output in cell.outputs for mime in output.data} <= {"image/png"}
    assert all(cell.execution_count is None for cell in code)
    assert len(path.read_bytes()) < 200_000
