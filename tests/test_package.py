"""The package as a whole: what importing costs, what is inside the wheel."""

import re
import subprocess
import sys
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest

import gatewise

ROOT = Path(__file__).parents[1]


def test_public_names_exist():
    assert all(hasattr(gatewise, name) for name in gatewise.__all__)
    assert sorted(gatewise.__all__) == list(gatewise.__all__)


def test_importing_compiles_nothing_and_pulls_in_no_extra():
    program = """
        import sys
        import joblib, numba, numpy, scipy.special, sklearn.base, sklearn.utils
        from numba.core import event
        before = set(sys.modules)
        with event.install_recorder("numba:compile") as recorder:
            import gatewise
        assert not recorder.buffer, recorder.buffer
        extras = {"torch", "matplotlib", "typer", "rich", "pandas", "pyarrow", "polars", "skops", "dask"}
        assert not extras & (set(sys.modules) - before), extras & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)


@pytest.mark.wheel
def test_the_wheel_installs_into_an_empty_environment(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("gatewise-*.whl")
    inside = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert inside == {"gatewise", f"gatewise-{gatewise.__version__}.dist-info"}  # no benchmark, no test
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=600)
    program = """
        import gatewise as gw, importlib.resources as files
        print(gw.__version__, files.files("gatewise").joinpath("py.typed").is_file())
        print(gw.LinearGate(2).weights([[0.0]], [[1.0, 0.0]]))
    """
    command = [python, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.stdout.split() == [gatewise.__version__, "True", "[[0.5", "0.5]]"]


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)", prose)
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing
