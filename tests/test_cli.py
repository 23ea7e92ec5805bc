"""The command line, run as a user would run it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

import gatewise

pytest.importorskip("typer")


@pytest.fixture
def run(gatewise):
    return gatewise


@pytest.mark.pools
def test_demo_ends_with_a_table_and_a_figure(run, tmp_path):
    code, out, _ = run("demo", "--json", "demo.json")
    assert code == 0
    assert "learned Top-2 gate" in out
    assert "figure: out/demo.png" in out
    assert out.strip().endswith("page: out/demo.html")
    assert (tmp_path / "out" / "demo.html").stat().st_size < 5_000_000
    assert (tmp_path / "out" / "demo.png").stat().st_size > 10_000
    rows = {row["method"]: row["rmse"] for row in json.loads((tmp_path / "demo.json").read_text())}
    assert rows["learned gate, aggregate"] < 0.3 * rows["best fixed weights"]
    assert rows["learned Top-2 gate"] < rows["best fixed weights"] < min(rows[f"expert {m} alone"] for m in (1, 2, 3))


def test_version_and_help(run):
    assert run("--version")[:2] == (0, f"gatewise {gatewise.__version__}\n")
    code, out, _ = run("--help")
    assert code == 0
    assert "demo" in out
    assert "--json" in run("demo", "--help")[1]


def test_bad_input_is_one_line_and_exit_code_two(run, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    code, _, err = run("demo", "--out", "taken/below")
    assert code == 2
    assert err.startswith("gatewise: ")
    assert len(err.strip().splitlines()) == 1
    assert run("no-such-command")[0] == 2


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "gatewise", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert gatewise.__version__ in done.stdout


def test_a_model_file_is_read_without_all_of_scikit_learn(tmp_path):
    for name in ("none.skops", "t.csv"):
        (tmp_path / name).write_text("a\n1\n")
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "gatewise",
        "predict",
        "none.skops",
        "t.csv",
        "--out",
        "o.csv",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert " skops.io\n" in done.stderr
    assert "sklearn.neural_network" not in done.stderr


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.{stop})
            except KeyboardInterrupt:
                raise {error}

sys.meta_path.insert(0, Interrupt())
sys.argv = ["gatewise", "look", "t.csv"]
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
from gatewise.__main__ import main
main()
"""


@pytest.mark.parametrize(("stop", "exit_code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize(
    ("module", "error"),
    [
        ("gatewise.cli", "KeyboardInterrupt"),
        ("rich.console", "ImportError('swallowed')"),
        ("pandas", "KeyboardInterrupt"),
        ("pandas", "ImportError('in place of the interrupt')"),  # extension modules do so
    ],
)
def test_an_interruption_while_modules_are_imported_is_one_line_and_a_code(tmp_path, module, error, stop, exit_code):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    code = INTERRUPTED_IMPORT.format(module=module, error=error, stop=stop)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert done.stderr == "gatewise: interrupted; every file is as it was before, or complete\n"


FIT = ["fit", "t.csv", "--target", "y", "--jobs", "2", "--out", "m.skops"]


def running(group):
    """How many processes of a group are there, without those that have ended and wait to be asked."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    found = [line.split() for line in listed.splitlines()]
    return sum(int(own) == group and not state.startswith("Z") for own, state in found)


@pytest.mark.pools
@pytest.mark.parametrize(("stop", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_fit_ends_its_processes_and_leaves_no_file(tmp_path, stop, exit_code):
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(f"{i % 7},{i % 11},{(i * i) % 13}.5\n" for i in range(4000)))
    command = [sys.executable, "-c", "from gatewise.cli import main; print('begun', flush=True); main()", *FIT]
    said = tmp_path.with_suffix(".said")
    with said.open("w") as errors:
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    try:
        with process.stdout:
            assert process.stdout.readline() == "begun\n"
            until = time.monotonic() + 120
            while (
                running(process.pid) < 4 and time.monotonic() < until
            ):  # the command, two workers, and what tracks them
                time.sleep(0.1)
            process.send_signal(stop)
            assert process.wait(timeout=120) == exit_code, said.read_text()
        assert said.read_text().endswith("gatewise: interrupted; every file is as it was before, or complete\n")
        until = time.monotonic() + 20
        while running(process.pid) and time.monotonic() < until:
            time.sleep(0.1)
        assert running(process.pid) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
