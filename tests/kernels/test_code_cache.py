"""Machine code on disk: never stale, found again, written where it can be, and not kept for ever."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba import config

import gatewise
from gatewise.kernels import code_cache
from gatewise.kernels.code_cache import cache_folders, fingerprint, remove_oldest
from gatewise.kernels.compiled import compiled

ASK = """
from gatewise.kernels.caller import caller
print(caller(-1.0), len(caller.stats.cache_hits))
"""
CALLER = """
from gatewise.kernels.compiled import compiled
from gatewise.kernels.simd.exponential import exp_nonpositive

@compiled
def caller(x):
    return exp_nonpositive(x)
"""


def copy_of_the_package(folder: Path) -> Path:
    """The kernels alone, with a small function that calls a leaf of another file: quick to import and to compile."""
    source, package = Path(gatewise.__file__).parent, folder / "gatewise"
    shutil.copytree(source / "kernels", package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(source / "arrays.py", package)
    for name in ("__init__.py", "kernels/__init__.py"):
        (package / name).write_text("")
    (package / "kernels" / "caller.py").write_text(CALLER)
    return package


def ask(package: Path, home: Path) -> tuple[float, int]:
    """What the caller gives at -1 in a process of its own, and how many signatures it found on disk."""
    places = {"PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": str(home), "LOCALAPPDATA": str(home)}
    settings = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"} | places
    run = subprocess.run([sys.executable, "-c", ASK], env=settings, capture_output=True, text=True, check=True)
    value, hits = run.stdout.split()
    return float(value), int(hits)


def test_a_changed_leaf_in_another_file_changes_its_callers(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path)
    assert ask(package, tmp_path / "home") == (pytest.approx(np.exp(-1.0)), 0)
    assert ask(package, tmp_path / "home") == (pytest.approx(np.exp(-1.0)), 1)
    leaf = package / "kernels" / "simd" / "exponential.py"
    text = leaf.read_text()
    broken = text.replace("return value if x <= 0.0 else x", "return 0.25 * value if x <= 0.0 else x")
    assert broken != text
    leaf.write_text(broken)
    assert ask(package, tmp_path / "home") == (pytest.approx(0.25 * np.exp(-1.0)), 0)
    assert not (tmp_path / "home").exists()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The three places of machine code, all of them in tmp_path: numba's setting, the package, the user's folder."""
    monkeypatch.setattr(code_cache, "KERNELS", tmp_path / "package")
    monkeypatch.setattr(code_cache, "fingerprint", lambda _: code_cache.AT_IMPORT)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "setting"))
    monkeypatch.setenv("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", str(tmp_path / "home"))
    found = cache_folders()
    assert all(tmp_path in folder.parents for folder in found)
    return found


def plus_one(x: float) -> float:
    return x + 1.0


def hits() -> int:
    """Call a function that is compiled anew, unless it is found on disk: 1 if it was."""
    function = compiled(plus_one)
    assert function(1.0) == 2.0
    return len(function.stats.cache_hits)


@pytest.mark.parametrize("n_barred", [0, 1, 2])
def test_the_first_place_that_can_be_written_is_taken(folders: list[Path], n_barred: int) -> None:
    for folder in folders[:n_barred]:  # a file where a folder should be: not even the superuser can write there
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        folder.parent.write_text("")
    assert hits() == 0
    assert [folder.is_dir() for folder in folders] == [place == n_barred for place in range(3)]
    assert hits() == 1


def test_without_any_place_there_is_a_warning_and_the_right_result(folders: list[Path]) -> None:
    code_cache._warn_once.cache_clear()
    for folder in folders:
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        folder.parent.write_text("")
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        assert hits() == 0


def test_a_damaged_file_is_compiled_and_written_anew(folders: list[Path]) -> None:
    hits()
    (entry,) = folders[0].iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2])
    assert hits() == 0
    assert [path.name for path in folders[0].iterdir()] == [entry.name]
    assert hits() == 1


def test_nothing_is_kept_of_sources_that_changed_after_their_import(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_cache, "fingerprint", lambda _: "another")
    assert hits() == 0
    assert not any(folder.exists() for folder in folders)


def test_the_fingerprint_sees_names_and_contents_of_sources_alone(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    assert fingerprint(tmp_path) == ""
    (tmp_path / "deep" / "leaf.py").write_text("one")
    first = fingerprint(tmp_path)
    (tmp_path / "note.txt").write_text("one")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "leaf.py").write_text("one")
    assert fingerprint(tmp_path) == first
    (tmp_path / "deep" / "leaf.py").write_text("two")
    second = fingerprint(tmp_path)
    (tmp_path / "deep" / "leaf.py").rename(tmp_path / "deep" / "other.py")
    assert len({first, second, fingerprint(tmp_path)}) == 3


def test_only_the_most_recent_folders_are_kept(tmp_path: Path) -> None:
    now = time.time()
    for age in range(6):
        (tmp_path / f"{age}").mkdir()
        (tmp_path / f"{age}" / "entry").write_text("")
        os.utime(tmp_path / f"{age}", (now - age, now - age))
    remove_oldest(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
