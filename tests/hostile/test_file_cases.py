"""Bad files: tables of any bytes, pools, model files that were cut or changed, and commands with bad words."""

import json
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pandas")
pytest.importorskip("skops")
pytest.importorskip("typer")

from gatewise.app.models import model_file, pool_file, table_files, tables
from gatewise.app.models.predicting import predict_frame
from tests.app.small_models import make_frame, saved_model, TARGET
from tests.hostile.outcomes import Case, run

BYTES = {
    "nothing": b"",
    "a newline": b"\n",
    "zero bytes": b"\0" * 100,
    "a BOM": b"\xef\xbb\xbf",
    "half a BOM": b"\xff\xfe",
    "a quote": b'"',
    "an open quote": b'a,b\n"1,2\n3,4',
    "quotes in quotes": b'a,b\n"1""2","3""4"\n',
    "only commas": b",,,\n,,,\n",
    "only a header": b"a,b,c",
    "more values than names": b"a,b\n1,2,3\n4,5\n",
    "windows lines": b"a,b\r\n1,2\r\n3,4\r\n",
    "old mac lines": b"a,b\r1,2\r3,4\r",
    "mixed lines": b"a,b\r\n1,2\n3,4\r",
    "bad utf-8": b"a,b\n\xff\xfe\xfd,2\n",
    "a pickle": b"\x80\x04N.",
    "a zip": b"PK\x03\x04" + b"\0" * 50,
    "a parquet head": b"PAR1" + b"\0" * 50,
    "formulas": b"a,b\n=cmd|' /C calc'!A0,1\n@SUM(1),2\n",
    "escapes": b"a\x1b[31m,b\n1,2\n",
    "a long line": b"a,b\n" + b"1" * 200_000 + b",2\n",
    "a huge number": b"a,b\n1e999,2\n-1e999,3\n",
    "many columns": b",".join(b"c%d" % i for i in range(6000)) + b"\n" + b",".join([b"1"] * 6000),
    "two names": b"a,a\n1,2\n",
    "names with spaces": b" a , a\n1,2\n",
    "json": b'{"a": [1, 2]}',
    "html": b"<table><tr><td>1</td></tr></table>",
    "toml": b"[[experts]]\nname = 'a'\n",
}


def table_cases(folder):
    for ending in ("csv", "tsv", "txt", "parquet", "xlsx"):
        for what, content in BYTES.items():
            path = folder / f"t.{ending}"

            def read(path=path, content=content):
                path.write_bytes(content)
                return table_files.read_table(path)

            yield Case("tables", f"{ending}: {what}", read, ("t.",), lambda table: table.frame.shape[1] > 0)


def frame_cases():
    """Data frames that no model can be fitted to, or only with care."""
    import pandas as pd

    n = 30
    y = np.arange(n, dtype=float)
    for name, columns in {
        "no other column": {},
        "an empty column": {"x": [None] * n},
        "a constant column": {"x": [1.0] * n},
        "complex numbers": {"x": np.full(n, 1j)},
        "objects": {"x": [object()] * n},
        "lists": {"x": [[1, 2]] * n},
        "mixed kinds": {"x": [1, "a", None] * 10},
        "infinities": {"x": [np.inf, 1.0, 2.0] * 10},
        "huge numbers": {"x": [1e308, 1.0, 2.0] * 10},
        "durations": {"x": pd.timedelta_range("1D", periods=n)},
        "periods": {"x": pd.period_range("2024-01", periods=n, freq="M")},
        "dates with zones": {"x": pd.date_range("2024-01-01", periods=n, tz="Europe/Berlin")},
        "dates far away": {"x": ["0001-01-01", "9999-12-31", "2024-01-01"] * 10},
        "categories": {"x": pd.Categorical(["a", "b", "c"] * 10)},
        "nullable numbers": {"x": pd.array([1, None, 3] * 10, dtype="Int64")},
        "bytes": {"x": [b"a", b"b", b"c"] * 10},
        "a column of names": {"x": [f"name {i}" for i in range(n)]},
    }.items():
        frame = pd.DataFrame({**columns, "y": y})
        yield Case(
            "tables",
            f"a frame with {name}",
            lambda f=frame: tables.training_table(f, "y"),
            ("column", "target", "y"),
            lambda table: len(table.columns) > 0 and len(table.X) == len(table.y),
        )


POOLS = [
    "",
    "x",
    "experts = 3",
    "experts = []",
    "experts = [1, 2]",
    "experts = {}",
    "[[experts]]",
    "[experts]\nname = 'a'",
    "[[experts]]\nname = 3",
    "[[experts]]\nname = ''",
    "[[experts]]\nname = 'a'",
    "[[experts]]\nname='a'\nmodel=['x']",
    "[[experts]]\nname='a'\nmodel=3",
    "[[experts]]\nname='a'\nmodel='os.system'",
    "[[experts]]\nname='a'\nmodel='eval'",
    "[[experts]]\nname='a'\nmodel='sklearn.linear_model.Ridge'\nparameters=3",
    "[[experts]]\nname='a'\nmodel='sklearn.linear_model.Ridge'\nparameters={beta=1}",
    "[[experts]]\nname='a'\nmodel='sklearn.linear_model.Ridge'\nparameters=[1]",
    "[[experts]]\nname='a'\ncolumn=3",
    "[[experts]]\nname='a'\ncolumn='none'",
    "[[experts]]\nname='a'\ncolumn=['a']",
    "[[experts]]\nname='a__b'\ncolumn='a'",
    "gates = 3\n[[experts]]\nname='a'\ncolumn='a'",
    "experts = 'all'",
    "gates = ['round']\n",
    "[[experts]]\nname='a'\nmodel='sklearn.svm.SVR'\ncolumn='a'",
    "\0",
    "[[experts",
]


def pool_cases(folder):
    X = make_frame(40).drop(columns=TARGET)
    for place, text in enumerate(POOLS):

        def read(text=text, path=folder / f"p{place}.toml"):
            path.write_text(text)
            return pool_file.read_pool(path, X)

        yield Case("pools", repr(text)[:60], read, ("p",))


def damaged(folder, count=60):
    """Copies of a model file with bytes changed, cut off or put in, or with entries left out or exchanged."""
    whole = model_file.save_model(saved_model(), folder / "whole.skops").read_bytes()
    rng = np.random.default_rng(0)
    for place in range(count):
        content = bytearray(whole)
        where = int(rng.integers(len(whole)))
        way = ("cut", "flip", "zero", "insert")[place % 4]
        if way == "cut":
            content = content[:where]
        elif way == "flip":
            content[where] ^= 1 << int(rng.integers(8))
        elif way == "zero":
            content[where : where + 64] = b"\0" * len(content[where : where + 64])
        else:
            content[where:where] = rng.bytes(16)
        yield f"{way} at {where}", bytes(content)


def entries(folder):
    """Model files whose archives are whole, and whose entries are not those of a model."""
    path = model_file.save_model(saved_model(), folder / "entries.skops")
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    arrays = sorted(name for name in content if name.endswith(".npy"))
    for place, name in enumerate(arrays[:: max(1, len(arrays) // 25)]):
        other = arrays[(7 * place + 3) % len(arrays)]
        yield f"{name[:12]} exchanged", {**content, name: content[other]}
        yield f"{name[:12]} left out", {key: value for key, value in content.items() if key != name}
        yield f"{name[:12]} cut", {**content, name: content[name][:-9]}
    for name in ("schema.json", "gatewise.json"):
        for what, text in (("empty", "{}"), ("a list", "[]"), ("text", "x"), ("null", "null"), ("deep", "[" * 5000)):
            yield f"{name}: {what}", {**content, name: text.encode()}
    stamp = json.loads(content["gatewise.json"])
    for key in stamp:
        for what, value in (("nothing", None), ("a number", 3), ("text", "x"), ("a list", [1])):
            changed = json.dumps({**stamp, key: value}).encode()
            yield f"stamp {key}: {what}", {**content, "gatewise.json": changed}


def use(path, content):
    """Load a model from bytes and predict with it; whole models answer as they did."""
    path.write_bytes(content)
    loaded = model_file.load_model(path)
    return predict_frame(loaded, make_frame(30, seed=1), weights=True, std=True)


def same_answer(answer):
    return answer.equals(predict_frame(saved_model(), make_frame(30, seed=1), weights=True, std=True))


def model_cases(folder):
    path = folder / "m.skops"
    for name, content in damaged(folder):
        yield Case("model files", name, lambda c=content: use(path, c), ("m.skops",), same_answer)
    for name, parts in entries(folder):
        with zipfile.ZipFile(path, "w") as archive:
            for key, value in parts.items():
                archive.writestr(key, value)
        content = path.read_bytes()
        # An array that was exchanged for another of the same shape is a model, if not the same one.
        yield Case("model files", name, lambda c=content: use(path, c), (), lambda answer: len(answer) == 30)


@pytest.mark.slow
@pytest.mark.parametrize("group", ["tables", "frames", "pools", "models"])
def test_bad_files(group, tmp_path):
    make = {"tables": table_cases, "pools": pool_cases, "models": model_cases}
    cases = frame_cases() if group == "frames" else make[group](tmp_path)
    outcomes = {case.name: run(case) for case in cases}
    assert {name: outcome for name, outcome in outcomes.items() if outcome not in ("right", "clear")} == {}


@given(content=st.binary(max_size=200))
def test_any_bytes_are_a_table_or_a_clear_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes(content)
    try:
        table = table_files.read_table(path)
    except ValueError as error:
        assert str(error).startswith(str(path))  # noqa: PT017
    else:
        assert table.frame.shape[1] > 0


@given(
    values=st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=3, max_size=12),
    sep=st.sampled_from([",", ";", "\t", "|"]),
    decimal=st.sampled_from([".", ","]),
)
def test_numbers_come_back_as_they_were_written(tmp_path_factory, values, sep, decimal):
    """Whatever is guessed about a file of numbers with decimals, the numbers are those that were written."""
    import pandas as pd

    frame = pd.DataFrame({"a": values, "b": [value + 0.25 for value in values]}).round(3)
    path = tmp_path_factory.mktemp("numbers") / "t.csv"
    frame.to_csv(path, index=False, sep=sep, decimal=decimal)
    found = table_files.read_frame(path)
    columns, _ = tables.column_roles(found, keep=list(found.columns))
    np.testing.assert_allclose(tables.as_inputs(found, columns).to_numpy(dtype=float), frame.to_numpy())


COMMANDS = [
    ["fit"],
    ["fit", "t.csv"],
    ["fit", "t.csv", "--target"],
    ["fit", "none.csv", "--target", "y"],
    ["fit", ".", "--target", "y"],
    ["fit", "t.csv", "--target", ""],
    ["fit", "t.csv", "--target", "z"],
    ["fit", "t.csv", "--target", "y", "--out", "t.csv"],
    ["fit", "t.csv", "--target", "y", "--out", "m.json"],
    ["fit", "t.csv", "--target", "y", "--out", "."],
    ["fit", "t.csv", "--target", "y", "--json", "t.csv"],
    ["fit", "t.csv", "--target", "y", "--out", "mine.skops"],
    ["fit", "t.csv", "--target", "y", "--out", "t.csv/m.skops"],
    ["fit", "t.csv", "--target", "y", "--pool", "t.csv"],
    ["fit", "t.csv", "--target", "y", "--gates", "round"],
    ["fit", "t.csv", "--target", "y", "--test", "2"],
    ["fit", "t.csv", "--target", "y", "--test", "x"],
    ["fit", "t.csv", "--target", "y", "--seed", "-1"],
    ["fit", "t.csv", "--target", "y", "--drop", "z"],
    ["fit", "t.csv", "--target", "y", "--drop", "x", "--drop", "kind"],
    ["fit", "t.csv", "--target", "y", "--key", "z"],
    ["fit", "t.csv", "--target", "y", "--sep", "ab"],
    ["fit", "t.csv", "--target", "y", "--encoding", "rot14"],
    ["fit", "t.csv", "--target", "y", "--decimal", "x"],
    ["fit", "t.csv", "--target", "y", "--jobs", "0"],
    ["predict", "t.csv", "t.csv", "--out", "p.csv"],
    ["predict", "none.skops", "t.csv", "--out", "p.csv"],
    ["predict", "mine.skops", "t.csv", "--out", "t.csv"],
    ["predict", "mine.skops", "t.csv", "--out", "mine.skops"],
    ["predict", "mine.skops", "t.csv", "--out", "p.xyz"],
    ["report", "mine.skops", "t.csv"],
    ["report", "mine.skops", "t.csv", "--out", "t.csv"],
    ["look"],
    ["look", "none.csv"],
    ["look", "."],
    ["look", "t.csv", "--target", "z"],
    ["look", "t.csv", "--key", "z"],
    ["look", "t.csv", "--json", "t.csv"],
    ["verify", "--only", "nothing"],
    ["verify", "--seed", "-1"],
    ["reproduce"],
    ["reproduce", "nothing"],
    ["reproduce", "table1", "--reps", "0"],
    ["reproduce", "table1", "--backend", "moon"],
    ["reproduce", "table1", "--backend", "dask"],
    ["bench"],
    ["nothing"],
    ["--nothing"],
    ["demo", "--out", "t.csv"],
]


@pytest.mark.slow
def test_commands_with_bad_words(gatewise, tmp_path):
    """Exit code 2, no traceback, and every file as it was."""
    lines = ["x,kind,y", *(f"{i % 7},{'ab'[i % 2]},{i * i}" for i in range(30))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    (tmp_path / "mine.skops").write_text("not a model")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def ends_well(args):
        code, out, err = gatewise(*args)
        now = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        assert "Traceback" not in err, args
        return code == 2 and bool((out + err).strip()) and now == before

    for args in COMMANDS:
        case = Case("command line", " ".join(args), lambda a=args: ends_well(a), (), bool)
        assert run(case) == "right", args
