"""The kernels' machine code on disk, kept under a key that changes with the source of any kernel.

Numba's own cache checks only the file of the function that it stores. When that function calls another one, which is
compiled into it, and the other one changes in a file of its own, then the old machine code stays in use. Here machine
code is kept in a folder whose name is a hash of all source files of this package and of the versions of Python, numba
and llvmlite. A changed line anywhere means another folder, and only the few most recent folders are kept.

Each compiled signature is a file of its own, which appears under its name only once it is complete. Several processes
may therefore read and write at the same time; two that compile the same function write the same file twice.
"""

import hashlib
import os
import pickle
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite
import numba
from numba.core import caching, compiler, serialize

_settings: Any = numba.config
_CompileResult: Any = compiler.CompileResult
_dumps: Any = serialize.dumps

KERNELS = Path(__file__).parent
KEPT_FOLDERS = 5
NOWHERE = (
    "the machine code of gatewise's kernels could not be written to any of {}, so every new process compiles it "
    "again. Set NUMBA_CACHE_DIR to a folder that can be written."
)


def fingerprint(folder: Path) -> str:
    """A hash of every ``.py`` file below ``folder`` and of the versions of Python, numba and llvmlite.

    Empty when there is no such file, as in a zipped package.
    """
    sources = sorted(_sources(folder))
    digest = hashlib.sha256(repr((sys.implementation.cache_tag, numba.__version__, llvmlite.__version__)).encode())
    for path in sources:
        digest.update(f"{path.relative_to(folder).as_posix()} {_file_hash(path)}\n".encode())
    return digest.hexdigest()[:16] if sources else ""


def _sources(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (Path(place, name) for name in names if name.endswith(".py"))


def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


AT_IMPORT = fingerprint(KERNELS)  # of the sources that this process runs, whatever becomes of the files later


def cache_folders() -> list[Path]:
    """Where machine code may be, in the order of preference.

    First numba's setting ``NUMBA_CACHE_DIR`` if it is given, then the package's own folder, then the user's cache
    folder, for packages that are installed where the user cannot write.
    """
    roots = [KERNELS / "__pycache__" / "machine_code", *_user_folder()]
    if _settings.CACHE_DIR:
        roots.insert(0, Path(_settings.CACHE_DIR, "gatewise"))
    return [root / AT_IMPORT for root in roots]


def _user_folder() -> list[Path]:
    given = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    try:
        return [Path(given or Path.home() / ".cache", "gatewise", "machine_code")]
    except RuntimeError:  # the user has no home folder
        return []


def has_sources(function: Callable[..., Any]) -> bool:
    """Whether the sources that the cache has to watch are there: those of the kernels and the function's own file."""
    return AT_IMPORT != "" and Path(function.__code__.co_filename).is_file()


class KernelCache(caching.NullCache):
    """What numba asks for the machine code of one function; it takes the place of numba's own cache."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        self.source = Path(function.__code__.co_filename)

    @property
    def cache_path(self) -> str:
        """The folder where machine code is written first, the first of `cache_folders`; numba reports it to users."""
        return str(cache_folders()[0])

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function compiled for a signature, or None when it has to be compiled."""
        target_context.refresh()
        name = self._file_name(sig, target_context.codegen())
        for folder in cache_folders():
            try:
                parts = pickle.loads((folder / name).read_bytes())
                return _CompileResult._rebuild(target_context, *parts)
            except Exception:  # no such file, or a damaged one, which can raise anything and is written anew
                continue
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the function compiled for a signature, unless the sources have changed since they were imported."""
        if data.library.has_dynamic_globals or data.lifted or fingerprint(KERNELS) != AT_IMPORT:
            return
        name, content = self._file_name(sig, data.codegen), _dumps(data._reduce())
        folders = cache_folders()
        for folder in folders:
            try:
                _write(folder / name, content)
            except OSError:
                continue
            return
        _warn_once(NOWHERE.format(", ".join(str(folder.parent) for folder in folders)))

    def _file_name(self, sig: Any, codegen: Any) -> str:
        """Changes with the signature, the processor, numba's settings and the function's own file.

        The last matters for functions outside of the kernels, which the name of the folder knows nothing of.
        """
        switches = (_settings.OPT, _settings.BOUNDSCHECK, _settings.LOOP_VECTORIZE, _settings.SLP_VECTORIZE)
        key = repr((sig, codegen.magic_tuple(), switches, _hash_at_first_use(self.source)))
        return f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


_hash_at_first_use = cache(_file_hash)
_warn_once = cache(lambda text: warnings.warn(text, RuntimeWarning, stacklevel=2))


def _write(path: Path, content: bytes) -> None:
    """Write a file that appears under its name only when it is complete; a new folder replaces the oldest."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_oldest(path.parent.parent, KEPT_FOLDERS)
    unfinished = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def remove_oldest(root: Path, kept: int) -> None:
    """Remove all folders in ``root`` but the ``kept`` that were written to last."""
    folders = sorted((entry for entry in root.iterdir() if entry.is_dir()), key=lambda entry: entry.stat().st_mtime)
    for folder in folders[: max(0, len(folders) - kept)]:
        shutil.rmtree(folder, ignore_errors=True)
