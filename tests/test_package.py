"""The package as a whole: what importing costs, what is inside the wheel."""

import re
import subprocess
import sys
import textwrap
import tomllib
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
            from gatewise import *
        assert not recorder.buffer, recorder.buffer
        extras = {"torch", "matplotlib", "typer", "rich", "pandas", "pyarrow", "polars", "skops", "dask"}
        assert not extras & (set(sys.modules) - before), extras & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel and the archive of the sources."""
    folder = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    return folder


def install(folder, *what):
    """An empty environment with a wheel or its extras; its Python."""
    venv.create(folder / "env", with_pip=True)
    python = str(folder / "env" / "bin" / "python")
    command = [python, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), *what]
    subprocess.run(command, check=True, capture_output=True, timeout=1800)
    return python


@pytest.mark.wheel
def test_wheel_and_sources_are_fit_for_an_index(built):
    files = [str(path) for path in sorted(built.iterdir())]
    assert [Path(name).suffix for name in files] == [".whl", ".gz"]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.wheel
def test_the_core_takes_less_than_150_megabytes_of_wheels(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    download = [sys.executable, "-m", "pip", "download", "--quiet", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*download, "--dest", str(tmp_path), str(wheel)], check=True, capture_output=True, timeout=600)
    sizes = {path.name: path.stat().st_size / 1e6 for path in tmp_path.glob("*.whl")}
    assert any(name.startswith("numba") for name in sizes)
    assert sum(sizes.values()) < 150, sizes


@pytest.mark.slow
def test_all_extras_install_into_an_empty_environment(built, tmp_path):
    """All but the developers' and the interpreter's, which wants an older NumPy and has an environment of its own."""
    (wheel,) = built.glob("*.whl")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = sorted(extras.keys() - {"interpreter", "dev"})
    python = install(tmp_path, f"{wheel}[{','.join(wanted)}]")
    program = (
        "import gatewise.cli, gatewise.nn, gatewise.nn.xray, dask.distributed, lightgbm, xgboost, catboost, openpyxl"
    )
    subprocess.run([python, "-c", program], check=True, capture_output=True, cwd=tmp_path, timeout=600)


@pytest.mark.wheel
def test_the_wheel_installs_into_an_empty_environment(built, tmp_path):
    (wheel,) = built.glob("gatewise-*.whl")
    inside = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert inside == {"gatewise", f"gatewise-{gatewise.__version__}.dist-info"}  # no benchmark, no test
    python = install(tmp_path, str(wheel))
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
