"""Files are written whole or not at all, and replace nothing unasked."""

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gatewise.app.files import (
    claim,
    has_mark,
    header,
    header_with,
    is_model,
    json_with,
    NotWrittenError,
    same_json,
    write_json,
    write_text,
)


def anything(path):
    return True


def nothing(path):
    return False


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_complete(tmp_path):
    place = claim(tmp_path / "deep" / "a.txt", [".txt"])
    with place.replacing(nothing) as part:
        part.write_text("half")
        assert not place.path.exists()
        assert part.parent == place.path.parent  # a rename within one folder
    assert place.path.read_text() == "half"
    assert names(tmp_path / "deep") == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    try:
        with claim(path, [".txt"]).replacing(anything) as part:
            part.write_text("ne")
            raise error("in the midst")
    except (error, NotWrittenError):
        pass
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("a.csv", [], "must end in .txt"),
        ("a", [], "must end in .txt"),
        ("folder.txt", [], "is a folder"),
        ("input.txt", ["input.txt"], "is read by this command"),
        ("link.txt", ["input.txt"], "is read by this command"),
        ("sub/../input.txt", ["input.txt"], "is read by this command"),
        ("hard.txt", ["input.txt"], "is read by this command"),
        ("input.txt", [], "Gatewise did not write it; use --force"),
    ],
)
def test_what_a_command_may_not_write_to(tmp_path, name, inputs, message):
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "input.txt").write_text("data")
    (tmp_path / "link.txt").symlink_to(tmp_path / "input.txt")
    os.link(tmp_path / "input.txt", tmp_path / "hard.txt")
    with pytest.raises(ValueError, match=message):
        claim(tmp_path / name, [".txt"], [tmp_path / one for one in inputs], force=False, ours=nothing)
    assert (tmp_path / "input.txt").read_text() == "data"


def test_a_message_names_force_only_where_there_is_such_a_choice(tmp_path):
    (tmp_path / "a.txt").write_text("data")
    with pytest.raises(ValueError, match=r"Gatewise did not write it; choose another name$"):
        claim(tmp_path / "a.txt", [".txt"], ours=nothing)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "id,value\n1,2\n", "exists, and has other columns than this command writes"),
        ("a.tsv", "id\tvalue\n1\t2\n", "exists, and has other columns than this command writes"),
        ("a.json", '{"id": 1}', "exists, and has other keys than this command writes"),
        ("a.json", "no json", "exists, and has other keys than this command writes"),
    ],
)
def test_a_table_or_json_is_refused_for_what_it_holds(tmp_path, name, content, words):
    """Nobody can say who wrote it."""
    path = tmp_path / name
    path.write_text(content)
    ours = json_with(["value"]) if name.endswith("json") else header_with(["price"])
    with pytest.raises(ValueError, match=words):
        claim(path, [path.suffix], ours=ours)


def test_columns_and_keys_are_read_without_the_rows(tmp_path):
    pd = pytest.importorskip("pandas")
    from gatewise.app.models.table_files import write_frame

    frame = pd.DataFrame({'a, "b"': [1.0], "c": ["x"]})
    for name in ("t.csv", "t.tsv", "t.parquet"):
        path = write_frame(frame, tmp_path / name)
        assert header(path) == list(frame)
        assert [header_with(columns)(path) for columns in (["c"], ["c", "d"])] == [True, False]
        assert write_frame(frame, path) == path  # the same columns
    (tmp_path / "u.parquet").write_text("no parquet")
    assert header(tmp_path / "u.parquet") == header(tmp_path / "none.csv") == []
    write_json(tmp_path / "a.json", [{"n": 1, "m": 2}])
    assert [json_with(keys)(tmp_path / "a.json") for keys in (["n"], ["n", "k"])] == [True, False]


def test_neither_a_table_nor_its_json_is_written_if_one_may_not_be_replaced(tmp_path):
    pd = pytest.importorskip("pandas")
    from gatewise.app.models.table_files import write_answer

    for foreign in ("p.csv", "p.json"):
        (tmp_path / foreign).write_text('{"id,value": 1}')
        with pytest.raises(ValueError, match=foreign):
            write_answer(
                pd.DataFrame({"prediction": [1.0]}), tmp_path / "p.csv", claim(tmp_path / "p.json", [".json"])
            )
        assert names(tmp_path) == [foreign]
        (tmp_path / foreign).unlink()


def test_force_replaces_what_is_not_ours_but_never_an_input(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("mine")
    write_text(claim(path, [".txt"], force=True), "new", [".txt"], nothing)
    assert path.read_text() == "new"
    with pytest.raises(ValueError, match="is read by this command"):
        claim(path, [".txt"], [path], force=True)


def test_a_protected_file_is_not_replaced(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(ValueError, match="protected against writing"):
        claim(path, [".txt"], ours=anything)


def test_folders_on_the_way_are_made_when_a_file_is_written(tmp_path):
    place = claim(tmp_path / "new" / "deep" / "a.txt", [".txt"])
    assert names(tmp_path) == []
    assert write_text(place, "text", [".txt"], nothing).read_text() == "text"


def test_a_folder_that_nothing_may_be_written_to_is_told_at_once(tmp_path, monkeypatch):
    """By the answer of the system, as a superuser may write anywhere."""
    asked = []

    def access(folder, mode):
        asked.append((folder, mode))
        return False

    monkeypatch.setattr(os, "access", access)
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "new/deep/a.txt"):
        with pytest.raises(ValueError, match=rf"^{name}: nothing may be written to the folder {tmp_path.resolve()};"):
            claim(Path(name), [".txt"])
    assert asked == [(tmp_path.resolve(), os.W_OK | os.X_OK)] * 2
    claim(Path("/dev/null"), [".txt"])


def test_a_file_on_the_way_is_told_at_once(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ValueError, match=r"taken is a file, and must be a folder"):
        claim(tmp_path / "taken" / "below" / "a.txt", [".txt"])


def test_a_folder_that_is_closed_meanwhile_is_one_line(tmp_path, monkeypatch):
    place = claim(tmp_path / "a.txt", [".txt"])

    def closed(*_):
        raise PermissionError(13, "Permission denied", ".a.txt.part")

    monkeypatch.setattr("gatewise.app.files._open_part", closed)
    with pytest.raises(NotWrittenError, match=r"a.txt: not written \(Permission denied\)$"):
        write_text(place, "text", [".txt"], nothing)


def test_a_link_stays_and_its_target_keeps_its_mode(tmp_path):
    (tmp_path / "there.txt").write_text("old")
    (tmp_path / "there.txt").chmod(0o640)
    (tmp_path / "a.txt").symlink_to(tmp_path / "there.txt")
    write_text(tmp_path / "a.txt", "new", [".txt"], anything)
    assert (tmp_path / "a.txt").is_symlink()
    assert (tmp_path / "there.txt").read_text() == "new"
    assert (tmp_path / "there.txt").stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_to_as_it_is():
    assert write_text(Path("/dev/null"), "text", [".txt"], nothing) == Path("/dev/null")


def test_of_two_writers_one_has_the_place_and_the_other_says_so(tmp_path):
    first, second = (claim(tmp_path / "a.txt", [".txt"]) for _ in range(2))
    write_text(second, "second", [".txt"], anything)
    with pytest.raises(NotWrittenError, match="written by another program"):
        write_text(first, "first", [".txt"], anything)
    assert (tmp_path / "a.txt").read_text() == "second"
    assert names(tmp_path) == ["a.txt"]


def write_much(path, letter, ready, results):
    place = claim(path, [".txt"])
    ready.wait()
    try:
        write_text(place, letter * 200_000, [".txt"], anything)
        results.put(letter)
    except NotWrittenError:
        results.put("")


def test_many_writers_at_once_leave_one_whole_file(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, results = context.Barrier(6), context.Queue()
    writers = [
        context.Process(target=write_much, args=(tmp_path / "a.txt", letter, ready, results)) for letter in "abcdef"
    ]
    for one in writers:
        one.start()
    said = [results.get(timeout=60) for _ in writers]
    for one in writers:
        one.join()
    text = (tmp_path / "a.txt").read_text()
    assert len(text) == 200_000
    assert [letter for letter in said if letter] == [text[0]]
    assert set(text) == {text[0]}
    assert names(tmp_path) == ["a.txt"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    (tmp_path / ".a.txt.0123456789ab.part.txt").write_text("half")
    (tmp_path / ".b.txt.0123456789ab.part.txt").write_text("of another place")
    write_text(tmp_path / "a.txt", "new", [".txt"], anything)
    assert names(tmp_path) == [".b.txt.0123456789ab.part.txt", "a.txt"]


@pytest.fixture
def small_disk():
    """No file may grow beyond 20,000 bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_the_old_file(tmp_path, small_disk):
    path = tmp_path / "a.json"
    write_json(path, {"n": 1})
    with pytest.raises(NotWrittenError, match=r"a.json: not written .*; the old file is unchanged"):
        write_json(path, {"n": "long" * 20_000})
    assert json.loads(path.read_text()) == {"n": 1}
    with pytest.raises(NotWrittenError, match="no file is left behind"):
        write_json(tmp_path / "b.json", {"n": "long" * 20_000})
    assert names(tmp_path) == ["a.json"]


@pytest.fixture
def model():
    """A fitted model, made before the disk is full."""
    pytest.importorskip("skops")
    from tests.app.small_models import saved_model

    return saved_model()


def test_a_full_disk_leaves_tables_models_and_figures(tmp_path, model, small_disk):
    pd = pytest.importorskip("pandas")
    from matplotlib.figure import Figure

    from gatewise.app.figures.style import save_figure
    from gatewise.app.models.model_file import save_model
    from gatewise.app.models.table_files import write_frame

    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(3000, 3)), columns=list("abc"))
    noise = Figure(figsize=(8, 8))
    noise.subplots().imshow(np.random.default_rng(0).normal(size=(300, 300)))
    for write, thing, name in (
        (write_frame, wide, "t.csv"),
        (write_frame, wide, "t.parquet"),
        (save_model, model, "m.skops"),
        (save_figure, noise, "f.png"),
    ):
        with pytest.raises(NotWrittenError, match="not written"):
            write(thing, tmp_path / name)
    assert names(tmp_path) == []


def test_ours_are_known_by_their_content(tmp_path):
    for name, content in (("a.json", '{"n": 1}'), ("b.json", '{"m": 1}'), ("c.json", "no json")):
        (tmp_path / name).write_text(content)
    assert [same_json({"n": 2})(tmp_path / name) for name in ("a.json", "b.json", "c.json")] == [True, False, False]
    assert not is_model(tmp_path / "a.json")
    assert not has_mark(tmp_path / "a.json")


TABLE_LINES = ["x,kind,forecast,y", *(f"{i % 17},{'ab'[i % 2]},{i % 5},{(i * 7) % 11}" for i in range(60))]
POOL = """
[[experts]]
name = "line"
model = "sklearn.linear_model.Ridge"
[[experts]]
name = "service"
column = "forecast"
"""
START = "from gatewise.cli import main; print('begun', flush=True); main()"


def start(folder, *args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
    command = [sys.executable, "-c", START, *args]
    return subprocess.Popen(command, cwd=folder, stdout=stdout, stderr=stderr, text=True)


def begin(folder, *args):
    """Start a command and wait until it is imported."""
    process = start(folder, *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with a table, a pool, a model, predictions and a page."""
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "t.csv").write_text("\n".join(TABLE_LINES) + "\n")
    (folder / "pool.toml").write_text(POOL)
    for args in COMMANDS.values():
        assert start(folder, *args).wait(timeout=300) == 0
    return folder


COMMANDS = {
    "fit": ["fit", "t.csv", "--target", "y", "--pool", "pool.toml", "--out", "m.skops", "--test", "0"],
    "predict": ["predict", "m.skops", "t.csv", "--out", "p.csv", "--weights", "--std"],
    "report": ["report", "m.skops", "t.csv", "--out", "page.html"],
    "reproduce": [
        "reproduce",
        "selection",
        "--reps",
        "2",
        "--n",
        "60",
        "--jobs",
        "1",
        "--out",
        "r",
        "--json",
        "s.json",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_kill_at_any_moment_leaves_the_old_files(fitted, command):
    """Kills at random moments of each command, 32 in all: every file is the old one or a whole new one."""
    from gatewise.app.models.model_file import load_model

    rng = np.random.default_rng(sum(map(ord, command)))
    began = time.monotonic()
    assert start(fitted, *COMMANDS[command]).wait(timeout=300) == 0
    whole = time.monotonic() - began
    before = {path.name: path.read_bytes() for path in fitted.iterdir() if path.is_file()}
    for place in range(8):
        # Most kills fall near the end, where files are written.
        process = start(fitted, *COMMANDS[command])
        time.sleep(whole * (1.0 - 0.7 * rng.random() ** 3) if place % 3 else whole * rng.random())
        process.kill()
        process.wait()
        for name, old in before.items():
            if name == "m.skops":
                load_model(fitted / name)
            else:
                assert (fitted / name).read_bytes() == old, name
    process = start(fitted, *COMMANDS[command])
    assert process.wait(timeout=300) == 0
    left = [name for name in names(fitted) if ".part" in name and name.startswith(f".{COMMANDS[command][-1][:3]}")]
    assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit", "reproduce"])
def test_ctrl_c_is_one_line_and_leaves_the_old_files(fitted, command):
    """The signal itself, at three moments."""
    process = begin(fitted, *COMMANDS[command])
    began = time.monotonic()
    process.communicate(timeout=300)
    whole = time.monotonic() - began
    assert process.returncode == 0
    before = {path.name: path.read_bytes() for path in fitted.iterdir() if path.is_file()}
    stopped = 0
    for fraction in (0.05, 0.4, 0.75):
        process = begin(fitted, *COMMANDS[command])
        time.sleep(fraction * whole)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)  # on a busy machine the signal may wait for the compiler
        # 0: it was done before the signal came; -SIGINT: it was done, and the interpreter was ending.
        assert process.returncode in (0, 130, -signal.SIGINT), said
        if process.returncode == 130:
            stopped += 1
            assert said.endswith("gatewise: interrupted; every file is as it was before, or complete\n")
            assert "Traceback" not in said
            assert {name: (fitted / name).read_bytes() for name in before} == before
            assert not [name for name in names(fitted) if ".part" in name]
        before = {path.name: path.read_bytes() for path in fitted.iterdir() if path.is_file()}
    assert stopped > 0


def test_an_interruption_is_one_line_and_130(gatewise, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gatewise.app.models.fitting.fit_and_score", interrupted)
    (tmp_path / "t.csv").write_text("\n".join(TABLE_LINES))
    code, _, err = gatewise("fit", "t.csv", "--target", "y")
    assert (code, err) == (130, "gatewise: interrupted; every file is as it was before, or complete\n")
