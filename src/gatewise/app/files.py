"""Files that are written whole or not at all, and that replace nothing unasked.

Every file of the command line goes through `claim` and `Output.replacing`. A command claims its outputs before the
work begins, so that a mistake is told at once; the content goes to a temporary file in the same folder, which is
renamed when it is complete. Whatever happens before that (a full disk, a signal, an error) leaves the old file.
"""

import csv
import fcntl
import json
import os
import secrets
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

JSON = (".json",)
MARK = b"Gatewise"  # stands near the beginning of pages and figures that Gatewise wrote
STAMP = "gatewise.json"  # the entry of a model file that no other archive has
State: TypeAlias = tuple[int, int, int, int]
Ours: TypeAlias = Callable[[Path], bool]
# What is wrong with a file that may not be replaced, by its ending: of a table or JSON nobody can say who wrote it.
_OTHER_COLUMNS, _OTHER_KEYS = (f"has other {what} than this command writes" for what in ("columns", "keys"))
_FOREIGN = {".json": _OTHER_KEYS} | dict.fromkeys((".csv", ".tsv", ".parquet", ".pq"), _OTHER_COLUMNS)


class NotWrittenError(OSError):
    """A file was not written; what lay in its place is as it was."""


@dataclass(frozen=True)
class Output:
    """A place for a file, as it was when the command began; `claim` makes it.

    ``force`` is None where the user has no such choice. ``ours`` tells what may be replaced, if the claim said so.
    """

    path: Path
    before: State | None
    force: bool | None = None
    ours: Ours | None = None

    def check(self, ours: Ours) -> None:
        """Raise an error if a file lies there that ``ours`` does not know, unless it may be replaced by force."""
        if self.before is None or self.force or _is_stream(self.path):
            return
        way_out = "choose another name" if self.force is None else "use --force to replace it"
        if not os.stat(self.path).st_mode & 0o222:
            raise ValueError(f"{self.path} is protected against writing; {way_out}")
        if not ours(self.path):
            reason = _FOREIGN.get(self.path.suffix.lower(), "Gatewise did not write it")
            raise ValueError(f"{self.path} exists, and {reason}; {way_out}")

    @contextmanager
    def replacing(self, ours: Ours) -> Iterator[Path]:
        """A path to write to. If the block ends without an error, the file takes its place, otherwise it is removed.

        Of two programs that write to one place the first to finish has it, whole; the other one gets an error.
        """
        self.check(ours)
        if _is_stream(self.path):
            yield self.path
            return
        place = self.path.resolve()  # a link stays, and what it leads to is replaced
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            part, lock = _open_part(place)
        except OSError as error:
            raise NotWrittenError(f"{self.path}: not written ({error.strerror or error})") from error
        try:
            yield part
            _flush(part)
            with _locked(place.parent):
                if _state(place) != self.before:
                    raise NotWrittenError(
                        f"{self.path} was written by another program meanwhile; it is left as that program wrote it, "
                        "and this result is not kept: choose another name"
                    )
                _keep_mode(place, part)
                os.replace(part, place)
            _flush(place.parent)
        except NotWrittenError:
            raise
        except OSError as error:
            kept = "the old file is unchanged" if self.before else "no file is left behind"
            raise NotWrittenError(f"{self.path}: not written ({error.strerror or error}); {kept}") from error
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            os.close(lock)


def claim(
    path: Path,
    endings: Sequence[str],
    inputs: Iterable[Path | None] = (),
    force: bool | None = None,
    ours: Ours | None = None,
) -> Output:
    """A place for a file that a command will write, refused at once if it is wrong.

    It must have one of the ``endings``, be none of the ``inputs``, and hold no file that ``ours`` does not know,
    unless ``force``. Without ``ours`` that is left to the moment of writing. So is the making of folders on the way.

    >>> claim(Path("model.json"), [".skops"])
    Traceback (most recent call last):
    ...
    ValueError: model.json must end in .skops
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it")
    if not _is_stream(path) and path.suffix.lower() not in endings:
        raise ValueError(f"{path} must end in {' or '.join(endings)}")
    for given in inputs:
        if given is not None and _same(path, Path(given)):
            raise ValueError(
                f"{path} is read by this command, and would be lost; choose another name for what it writes"
            )
    if not _is_stream(path):
        _check_folder(path)
    found = Output(path, _state(path.resolve()), force, ours)
    if ours is not None:
        found.check(ours)
    return found


def claim_json(
    path: Path | None, keys: Iterable[str], inputs: Iterable[Path | None] = (), force: bool | None = None
) -> Output | None:
    """A place for JSON whose entries have these ``keys`` among others, or None without a path.

    Only JSON with all of the keys is replaced unasked.
    """
    return None if path is None else claim(path, JSON, inputs, force, json_with(keys))


def as_output(place: Path | Output, endings: Sequence[str]) -> Output:
    """A place that was claimed already, or a path that is claimed now."""
    return place if isinstance(place, Output) else claim(place, endings)


def write_text(place: Path | Output, text: str, endings: Sequence[str], ours: Ours) -> Path:
    """Write a text in UTF-8; the path."""
    output = as_output(place, endings)
    with output.replacing(ours) as part:
        part.write_text(text, encoding="utf-8")
    return output.path


def write_json(place: Path | Output | None, content: Any) -> None:
    """Write the content as JSON, if a place was given; of other files only those are replaced that the claim allows.

    Where it said nothing, JSON with the same keys is replaced.
    """
    if place is not None:
        output = as_output(place, JSON)
        write_text(output, json.dumps(content, indent=2) + "\n", JSON, output.ours or same_json(content))


def same_json(content: Any) -> Ours:
    """Tells whether a file is JSON of the same shape: the same keys, of the first entry if it is a list.

    >>> _shape([{"n": 1, "mse": 0.5}, {"n": 2, "mse": 0.25}])
    ['list', 'mse', 'n']
    """

    def ours(path: Path) -> bool:
        try:
            return _shape(json.loads(path.read_text(encoding="utf-8"))) == _shape(content)
        except ValueError:
            return False

    return ours


def json_with(keys: Iterable[str]) -> Ours:
    """Tells whether a file is JSON with all of these keys, of the first entry if it is a list."""
    return partial(_has_keys, frozenset(keys))


def _has_keys(wanted: frozenset[str], path: Path) -> bool:
    try:
        return wanted <= set(_shape(json.loads(path.read_text(encoding="utf-8")))[1:])
    except ValueError:
        return False


def same_header(columns: Iterable[Any]) -> Ours:
    """Tells whether a table has these columns and no others, in this order."""
    return partial(_has_header, [str(name) for name in columns])


def _has_header(wanted: list[str], path: Path) -> bool:
    return header(path) == wanted


def header_with(columns: Iterable[str]) -> Ours:
    """Tells whether a table has all of these columns, and perhaps others. The result can be pickled."""
    return partial(_has_columns, frozenset(columns))


def _has_columns(wanted: frozenset[str], path: Path) -> bool:
    return wanted <= set(header(path))


def header(path: Path) -> list[str]:
    """The names of the columns of a table that Gatewise wrote, without its rows; none if it cannot be read as one."""
    ending = path.suffix.lower()
    try:
        if ending in {".parquet", ".pq"}:
            return list(import_module("pyarrow.parquet").read_schema(path).names)
        with path.open(newline="", encoding="utf-8") as text:
            return next(csv.reader(text, delimiter="\t" if ending == ".tsv" else ","), [])
    except (OSError, ValueError, csv.Error):
        return []


def is_model(path: Path) -> bool:
    """Whether a file is a model that Gatewise wrote."""
    try:
        with zipfile.ZipFile(path) as archive:
            return STAMP in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def has_mark(path: Path) -> bool:
    """Whether a page or a figure says near its beginning that Gatewise made it."""
    with open(path, "rb") as file:
        return MARK in file.read(4096)


def _shape(content: Any) -> list[str]:
    if isinstance(content, list):
        return ["list", *(_shape(content[0])[1:] if content else ())]
    return ["dict", *sorted(content)] if isinstance(content, dict) else [type(content).__name__]


def _is_stream(path: Path) -> bool:
    """Whether a path is a terminal, a pipe or another device, which is written to as it is."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _state(path: Path) -> State | None:
    """What tells one content of a place from another; None if nothing is there."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _check_folder(path: Path) -> None:
    """Raise an error unless a file can be made at a path, in its folder or in one that can be made for it."""
    folder = path.resolve().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise ValueError(f"{path}: {folder} is a file, and must be a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{path}: nothing may be written to the folder {folder}; choose another place")


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one.resolve() == other.resolve()


def _open_part(place: Path) -> tuple[Path, int]:
    """An empty temporary file beside a place, and a handle that locks it while this process lives.

    Files that a killed process left behind for the same place hold no lock any more and are removed.
    """
    start, end = f".{place.name[:40]}.", f".part{place.suffix}"
    with _locked(place.parent):
        for entry in os.scandir(place.parent):
            if entry.name.startswith(start) and entry.name.endswith(end):
                _remove_if_abandoned(Path(entry.path))
        part = place.with_name(f"{start}{secrets.token_hex(6)}{end}")
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        _lock(handle)
    return part, handle


def _remove_if_abandoned(part: Path) -> None:
    with suppress(OSError):
        handle = os.open(part, os.O_RDWR)
        try:
            if _lock(handle):
                part.unlink()
        finally:
            os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open file without waiting; whether that succeeded."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; where a file system has none, go on without."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _keep_mode(place: Path, part: Path) -> None:
    with suppress(OSError):
        os.chmod(part, stat.S_IMODE(os.stat(place).st_mode))


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
