"""Tables as people have them: separators, encodings, marks, dates, identifiers."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from gatewise.app.models.cell_values import date_form, days, truth_words, word_numbers
from gatewise.app.models.identifiers import identifier
from gatewise.app.models.looking import look_at
from gatewise.app.models.table_files import read_table, ReadTable, TextFormat
from gatewise.app.models.tables import as_inputs, training_table
from gatewise.app.models.tasks import find_task

GERMAN = "Größe;Ort;Datum;Preis\n" + "".join(
    f"{i % 7},5;{'München' if i % 2 else 'Köln'};{i % 28 + 1:02d}.03.2023;1.{200 + i},50\n" for i in range(30)
)


def read(tmp_path, text, encoding="utf-8", form=None):
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    return read_table(tmp_path / "t.csv", form)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16"])
def test_a_table_from_germany(tmp_path, encoding):
    read_as = read(tmp_path, GERMAN, encoding)
    table = training_table(read_as.frame, "Preis")
    assert [(one.name, one.kind, one.form) for one in table.columns] == [
        ("Größe", "number", ""),
        ("Ort", "text", ""),
        ("Datum", "date", "%d.%m.%Y"),
    ]
    assert table.y[:2].tolist() == [1200.5, 1201.5]
    assert table.X["Größe"].tolist()[:3] == [0.5, 1.5, 2.5]
    assert set(table.X["Ort"]) == {"München", "Köln"}
    assert np.diff(table.X["Datum"])[:5].tolist() == [1.0] * 5
    assert "semicolons between values, decimal mark ','" in read_as.notes[0]


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_every_separator_and_decimal_mark(tmp_path, sep, decimal):
    numbers = np.random.default_rng(0).normal(size=(25, 3)).round(4)
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"])
    found = read(tmp_path, frame.to_csv(index=False, sep=sep, decimal=decimal)).frame
    np.testing.assert_array_equal(found.to_numpy(), numbers)


def test_options_override_the_guess(tmp_path):
    text = "a b\n1.5 2\n3.5 4\n"
    assert read(tmp_path, text, form=TextFormat(sep=" ")).frame.shape == (2, 2)
    assert read(tmp_path, "sep=;\na;b\n1;2\n").frame.columns.tolist() == ["a", "b"]
    for form, words in (
        (TextFormat(sep="ab"), "sep must be one character"),
        (TextFormat(encoding="rot14"), "no encoding 'rot14'"),
        (TextFormat(decimal="x"), "decimal must be"),
        (TextFormat(encoding="ascii"), "can't decode"),
    ):
        with pytest.raises(ValueError, match=words):
            read(tmp_path, text + "ü 3\n", form=form)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read as CSV"),
        ("a,b\n", "names of columns and no rows"),
        ("a,b,a\n1,2,3\n", "columns 1 and 3 have one name, 'a'"),
        ("a,b\n1,2\n3,4,5\n", "cannot be read as CSV"),
        ("a\0b\n1\n", "zero bytes"),
        ('a,b\n"1,2\n', "cannot be read as CSV"),
        (",".join(f"c{i}" for i in range(6000)) + "\n" + ",".join(["1"] * 6000), "6,000 columns"),
    ],
)
def test_files_that_are_no_table(tmp_path, text, words):
    with pytest.raises(ValueError, match=words):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("begin", "words"),
    [(b"\x1f\x8b\x08", "gzip"), (b"PK\x03\x04", r"\.xlsx"), (b"PAR1", r"\.parquet"), (b"%PDF-1.7", "PDF")],
)
def test_a_file_of_another_kind_is_named(tmp_path, begin, words):
    path = tmp_path / "t.csv"
    path.write_bytes(begin + bytes(40))
    with pytest.raises(ValueError, match=words):
        read_table(path)


def test_text_that_is_called_excel(tmp_path):
    path = tmp_path / "t.xlsx"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"no Excel workbook.*\.csv"):
        read_table(path)


def test_lines_that_end_as_on_old_machines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\r1,2\r3,4\r")
    assert read_table(path).frame.to_numpy().tolist() == [[1, 2], [3, 4]]


def test_empty_sheets_are_passed_over(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame().to_excel(book, sheet_name="notes", index=False)
        pd.DataFrame({"a": [1, 2]}).to_excel(book, sheet_name="data", index=False)
    table = read_table(path)
    assert table.frame["a"].tolist() == [1, 2]
    assert table.notes == ("read the first with rows of 2 sheets, 'data'",)


def test_short_rows_and_row_names_are_said(tmp_path):
    assert read(tmp_path, "a,b\n1,2\n3\n").notes == (
        "1 rows have fewer values than there are columns, the first in line 3",
    )
    named = read(tmp_path, "a,b\nr1,1,2\nr2,3,4\n")
    assert named.frame.columns.tolist() == ["a", "b"]
    assert named.frame["b"].tolist() == [2, 4]
    assert "one more value" in named.notes[0]


@pytest.mark.parametrize("rows", [["1", "2", "3"], ["0", "1", "2"], ["5", "3", "1"], ["ann", "bob", "eve"]])
def test_row_names_may_be_numbers_in_order(tmp_path, rows):
    place = tmp_path / "rows.csv"
    place.write_text("a,b\n" + "".join(f"{row},{j},{10 * j}\n" for j, row in enumerate(rows)))
    table = read_table(place)
    assert table.frame.index.equals(pd.RangeIndex(3))
    assert table.frame.to_dict("list") == {"a": [0, 1, 2], "b": [0, 10, 20]}
    assert [note.partition(":")[0] for note in table.notes] == ["left out"]


@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_a_separator_at_the_end_of_every_row_shifts_no_column(tmp_path, sep):
    rows = ["a,b,c", "0.5,0.25,3.5,", "", "1.5,,6.5, "]
    found = read(tmp_path, "\n".join(rows).replace(",", sep) + "\n")
    assert found.frame.columns.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(found.frame.to_numpy(), [[0.5, 0.25, 3.5], [1.5, np.nan, 6.5]])
    assert found.notes[-1] == "every row ends in a separator, which stands for no value"


def test_a_last_value_that_is_not_always_empty_is_one(tmp_path):
    found = read(tmp_path, "a,b\nr1,1,2\nr2,3,\n")
    assert found.frame["a"].tolist() == [1, 3]
    assert "the first value of every row" in found.notes[0]
    header_too = read(tmp_path, "a,b,\n1,2,\n3,4,\n")
    assert header_too.frame[["a", "b"]].to_numpy().tolist() == [[1, 2], [3, 4]]


def test_excel_where_its_reader_is_there(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})
    path = tmp_path / "t.xlsx"
    try:
        frame.to_excel(path, index=False)
    except ImportError:
        path.write_bytes(b"PK")
        with pytest.raises(ValueError, match=r"needs a package|cannot be read as Excel"):
            read_table(path)
    else:
        pd.testing.assert_frame_equal(read_table(path).frame, frame, check_dtype=False)


@pytest.mark.parametrize(
    ("texts", "decimal", "numbers"),
    [
        (["1,234", "5"], ".", [1234, 5]),
        (["1,234.5", "1,234,567"], ".", [1234.5, 1234567]),
        (["1.234,5", "2"], ",", [1234.5, 2]),
        (["$1,000", "-$2", "$ 3.50"], ".", [1000, -2, 3.5]),
        (["3 €", "1.000 €"], ",", [3, 1000]),
        (["12 %", "7.5%"], ".", [12, 7.5]),
        (["(1,000)", "20"], ".", [-1000, 20]),
        (["1 234", "1\u202f234,5"], ",", [1234, 1234.5]),
        (["1'234.5", "2"], ".", [1234.5, 2]),
        (["\N{MINUS SIGN}3", "+4"], ".", [-3, 4]),
        (["1e3", "n/a"], ".", [1000, np.nan]),
        (["?", "3"], ".", [np.nan, 3]),
    ],
)
def test_numbers_as_people_write_them(texts, decimal, numbers):
    np.testing.assert_array_equal(word_numbers(pd.Series(texts), decimal).values, numbers)


@pytest.mark.parametrize(
    "texts",
    [["1,23", "4"], ["$1", "€2"], ["1%", "2"], ["1,2345"], ["a1"], ["1 2"], ["?", "-"], ["12-03"], ["1,234,5"]],
)
def test_what_is_no_column_of_numbers(texts):
    assert word_numbers(pd.Series(texts), ".") is None


@pytest.mark.parametrize(
    ("texts", "american", "iso"),
    [
        (["03/31/2023", "04/01/2023"], False, ["2023-03-31", "2023-04-01"]),
        (["31/03/2023", "01/04/2023"], True, ["2023-03-31", "2023-04-01"]),
        (["01/02/2023", "01/03/2023", "01/04/2023"], True, ["2023-02-01", "2023-03-01", "2023-04-01"]),
        (["02/01/2023", "03/04/2023"], True, ["2023-02-01", "2023-03-04"]),
        (["02/01/2023", "03/04/2023"], False, ["2023-01-02", "2023-04-03"]),
        (["31.3.23", "1.4.23"], False, ["2023-03-31", "2023-04-01"]),
        (["2023/03/31", "2023/04/01"], False, ["2023-03-31", "2023-04-01"]),
        (["31 Mar 2023", "1 Apr 2023"], False, ["2023-03-31", "2023-04-01"]),
        (["March 31, 2023", "April 1, 2023"], False, ["2023-03-31", "2023-04-01"]),
        (["31.03.2023 12:30", "01.04.2023 00:00"], False, ["2023-03-31 12:30", "2023-04-01"]),
        (["2023-03-31T10:00:00", "2023-04-01"], False, ["2023-03-31 10:00", "2023-04-01"]),
    ],
)
def test_dates_in_common_orders(texts, american, iso):
    form, _ = date_form(pd.Series(texts), american)
    expected = (pd.to_datetime(pd.Series(iso), format="ISO8601") - pd.Timestamp(0)) / pd.Timedelta(days=1)
    np.testing.assert_allclose(days(pd.Series(texts), form), expected)


def test_a_guessed_order_is_said_and_no_dates_are_none():
    assert "guess" in date_form(pd.Series(["02/01/2023", "03/04/2023"]))[1]
    for texts in (["31/31/2023"], ["x"], ["2023"], ["1.5"], ["01/02/2023", "x"], ["10:30"], ["may"]):
        assert date_form(pd.Series(texts)) is None


def test_yes_and_no_in_words():
    assert truth_words(pd.Series(["Ja", "nein", None])).tolist()[:2] == [1.0, 0.0]
    assert truth_words(pd.Series(["yes", "maybe"])) is None
    columns = training_table(pd.DataFrame({"y": np.arange(20.0), "sold": ["yes", "no"] * 10}), "y").columns
    assert columns[0].kind == "number"
    assert as_inputs(pd.DataFrame({"sold": ["yes", "yes"]}), columns)["sold"].tolist() == [1.0, 1.0]
    held = r"column 'sold' held yes or no when the model was fitted; now it holds "
    for values, words in (
        (["yes", "n/a", "often", "seldom"], r"'often' in row 3$"),
        (["no", None, 3], r"3 in row 3$"),
    ):
        with pytest.raises(ValueError, match=held + words):
            as_inputs(pd.DataFrame({"sold": values}), columns)


@pytest.mark.parametrize(
    ("name", "values", "kind", "looks"),
    [
        ("n", range(40), "number", "a row number"),
        ("n", range(1, 41), "number", "a row number"),
        ("year", range(1980, 2020), "number", None),
        ("house_id", np.random.default_rng(0).permutation(40) + 7, "number", "an identifier"),
        ("price", np.random.default_rng(0).permutation(40) + 7, "number", None),
        ("id", np.arange(40) / 7, "number", None),
        ("name", [f"person {i}" for i in range(40)], "text", "a name of the row"),
        ("town", ["A", "B"] * 20, "text", None),
        ("n", range(10), "number", None),
    ],
)
def test_columns_that_name_their_rows(name, values, kind, looks):
    found = identifier(name, pd.Series(list(values)), kind)
    assert (found or "").startswith(looks or "")
    assert (found is None) == (looks is None)


def test_an_identifier_is_left_out_unless_it_is_kept():
    frame = pd.DataFrame({"row": range(30), "x": [1.5, 2.5, 3.5] * 10, "y": np.arange(30.0) ** 2})
    table = training_table(frame, "y")
    assert [one.name for one in table.columns] == ["x"]
    assert table.notes == ("left out: column 'row', which looks like a row number; --keep row keeps it",)
    assert [one.name for one in training_table(frame, "y", keep=["row"]).columns] == ["row", "x"]
    assert training_table(frame, "y", key="row").notes == ()


ZIPS = "zip,x,y\n" + "".join(f"{i % 6 * 18_000 + 501:05d},{i}.5,{i % 7}\n" for i in range(30))


def test_codes_with_leading_zeros_stay_text(tmp_path):
    read_as = read(tmp_path, ZIPS).frame
    table = training_table(read_as, "y")
    assert [one.kind for one in table.columns] == ["text", "number"]
    assert table.X["zip"].tolist()[:3] == ["00501", "18501", "36501"]
    assert table.notes == ("column 'zip': taken as text, as values such as '00501' begin with zeros",)
    assert read_as["x"].dtype.kind == "f"
    # In new rows without such a code the column looks like numbers, and a gap makes them floats.
    for cells, texts in ((["18501", "00501"], ["18501", "00501"]), (["18501", ""], ["18501", None])):
        new = as_inputs(read(tmp_path, "zip,x\n" + "".join(f"{cell},1\n" for cell in cells)).frame, table.columns)
        assert new["zip"].replace({np.nan: None}).tolist() == texts


@pytest.mark.parametrize("cells", [["0", "0.5", "-0.3"], ["0", "5", "10"], ["007.5", "1.5"], ["+07", "1"], ["", "0"]])
def test_numbers_with_zeros_are_numbers(tmp_path, cells):
    frame = read(tmp_path, "a,b\n" + "".join(f"{cell},1\n" for cell in cells)).frame
    assert frame["a"].dtype.kind in "if"


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_codes_in_every_place_of_a_row(tmp_path, sep):
    rows = "\n".join(sep.join(row) for row in (["a", "b", "c"], ['"007"', "012 ", "5"], ["107", "112", "05"]))
    assert read(tmp_path, rows).frame.to_numpy().tolist() == [["007", "012", "5"], ["107", "112", "05"]]


def test_a_slip_among_numbers_of_many_widths_makes_no_codes(tmp_path):
    rows = "".join(f"{'05' if i == 3 else i * 11},{i}\n" for i in range(30))
    table = training_table(read(tmp_path, "x,y\n" + rows).frame, "y")
    assert table.notes == ("column 'x': taken as numbers, though 1 of 30 values begin with zeros, such as '05'",)
    assert table.X["x"].tolist()[2:5] == [22.0, 5.0, 44.0]


def test_a_model_of_numbers_reads_zeros_in_new_rows(tmp_path):
    columns = training_table(pd.DataFrame({"x": [1.5, 12.0] * 15, "y": range(30)}), "y").columns
    assert as_inputs(read(tmp_path, "x\n007\n012\n").frame, columns)["x"].tolist() == [7.0, 12.0]


def test_a_target_of_codes(tmp_path):
    frame = read(tmp_path, "y\n" + "".join(f"{i % 40:03d}\n" for i in range(80))).frame
    note = "target 'y' has values such as '000' and is taken for a number; --task classification takes it for classes"
    assert find_task(frame, "y") == ("regression", note)
    assert training_table(frame.assign(x=1.5), "y", classes=True).y[:2].tolist() == ["000", "001"]


def test_a_look_says_what_would_be_read(tmp_path):
    rows = "".join(f'k{i},"$1,{100 + i}",{i % 28 + 1:02d}/05/2023,{i} %,{i}\n' for i in range(30))
    view = look_at(read(tmp_path, "id,price,when,share,y\n" + rows), "y")
    roles = {one.name: (one.kind, one.role) for one in view.columns}
    assert roles == {
        "id": ("text", "set aside"),
        "price": ("number", "input"),
        "when": ("date, %d/%m/%Y", "input"),
        "share": ("number", "input"),
        "y": ("number", "target"),
    }
    assert view.n_rows == 30
    assert any("'$' is taken off" in note for note in view.notes)


@pytest.mark.parametrize("filled", [0, 19, 25])
def test_a_look_says_of_a_target_what_a_fit_says(filled):
    frame = pd.DataFrame({"x": [1.5, 2.0, 3.5] * 10, "y": np.arange(30.0) ** 2})
    frame.loc[filled:, "y"] = np.nan

    def told(ask):
        try:
            return ask().notes
        except ValueError as error:
            return str(error)

    said = told(lambda: look_at(ReadTable(frame), "y"))
    assert said == told(lambda: training_table(frame, "y", classes=find_task(frame, "y")[0] == "classification"))
    assert ("a fit needs at least 20 rows" in said) == (filled < 20)
    assert said == ("left out: 5 rows without a value of 'y'",) or filled < 20


def test_a_strange_value_in_a_target_is_named():
    frame = pd.DataFrame({"x": [1.5, 2.0] * 15, "y": [str(i) for i in range(30)]})
    assert training_table(frame, "y").y[:3].tolist() == [0, 1, 2]
    frame.loc[4, "y"] = "twelve"
    with pytest.raises(ValueError, match=r"is 'twelve' in row 5 \(1 of 30 values are no numbers\)"):
        training_table(frame, "y")
    with pytest.raises(ValueError, match="yes and no"):
        training_table(frame.assign(y=["yes", "no"] * 15), "y")


def test_a_number_column_with_a_few_words_is_said():
    frame = pd.DataFrame({"x": [str(i % 9) for i in range(29)] + ["many"], "y": np.arange(30.0)})
    assert training_table(frame, "y").notes == (
        "column 'x': taken as text, as 1 of 30 values are no numbers, such as 'many'",
    )
