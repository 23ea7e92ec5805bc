"""What the texts in a column mean: numbers with marks, codes, dates in common orders, yes and no in words."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

MISSING = {"", "-", "--", "?", ".", "n/a", "n.a.", "na", "nan", "none", "null", "k.a.", "#n/a", "missing"}
CURRENCY = r"[$€£¥₹]|USD|EUR|GBP|CHF|JPY|kr"
YES = {"true", "yes", "y", "t", "ja", "oui", "si", "sí", "on"}
NO = {"false", "no", "n", "f", "nein", "non", "off"}
TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S")
DAY_FIRST, MONTH_FIRST = "day, month, year", "month, day, year"
FEW_PADDED = 0.1  # of the values: so few zeros in front of numbers of many widths are slips, and make no codes
_SPACES = re.compile("[\\s\u00a0\u2009\u202f]+")
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})((?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?)")
_OTHER_DATES = ("%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y")


@dataclass(frozen=True, eq=False)
class WordNumbers:
    """Numbers that texts stand for, NaN where a value is missing, and the marks that were taken off them."""

    values: Any
    marks: str


def word_numbers(values: Any, decimal: str = ".") -> WordNumbers | None:
    """The numbers that the texts of a column stand for, or None if one of them is no number.

    Thousands separators, one currency mark, percent signs behind all values, and accountants' brackets for negative
    values are understood. A percentage stays as it is written: "12 %" is 12.

    >>> word_numbers(pd.Series(["$1,234.50", "$3"])).values.tolist()
    [1234.5, 3.0]
    >>> word_numbers(pd.Series(["1.234,50 €", "-3 €"]), decimal=",").values.tolist()
    [1234.5, -3.0]
    """
    known = {}
    found_marks = set()
    for text in values.dropna().unique():
        if not isinstance(text, str):
            return None
        parsed = _number(text, decimal)
        if parsed is None:
            return None
        known[text], mark = parsed
        if np.isfinite(known[text]):
            found_marks.add(mark)
    if len(found_marks) != 1:  # nothing but gaps, or dollars beside euros, or some values in percent
        return None
    return WordNumbers(values.map(known).astype(np.float64), found_marks.pop())


def padded_codes(values: Any) -> Any:
    """The values of a column of whole numbers in text that begin with a zero too many, as "007" does.

    There are none where a value is anything else than digits, as "0.5" and "-03" are, or missing.

    >>> padded_codes(pd.Series(["007", "123", None])).tolist(), padded_codes(pd.Series(["0.5", "07"])).tolist()
    (['007'], [])
    """
    digits = _digits(values)
    return digits[digits.str.fullmatch("0[0-9]+")]


def are_codes(values: Any) -> bool:
    """Whether whole numbers in text are codes: some are padded, and all have one width or more than FEW_PADDED are.

    >>> are_codes(pd.Series(["00501", "90210"])), are_codes(pd.Series(["5", "17", "230"] * 9 + ["05"]))
    (True, False)
    """
    digits, padded = _digits(values), padded_codes(values)
    return len(padded) > 0 and (digits.str.len().nunique() == 1 or len(padded) > FEW_PADDED * len(digits))


def _digits(values: Any) -> Any:
    """The values of a column that are not missing, as text; none of them if one is anything else than digits."""
    texts = values.dropna().astype(str).str.strip()
    texts = texts[~texts.str.lower().isin(MISSING)]
    return texts if texts.str.fullmatch("[0-9]+").all() else texts[:0]


def strange_numbers(values: Any, decimal: str = ".") -> list[int]:
    """The positions of the values of a column that are neither missing nor numbers."""
    good = {text: isinstance(text, str) and _number(text, decimal) is not None for text in values.dropna().unique()}
    return [place for place, value in enumerate(values) if not pd.isna(value) and not good[value]]


def truth_words(values: Any) -> Any | None:
    """1 for yes and 0 for no, where a column holds such words in either case, or None.

    >>> truth_words(pd.Series(["yes", "No", None])).tolist()
    [1.0, 0.0, nan]
    """
    words = {text for text in values.dropna().unique() if isinstance(text, str)}
    meanings = {text: text.strip().lower() for text in words}
    if not words or len(words) < values.dropna().nunique() or not set(meanings.values()) <= YES | NO | MISSING:
        return None
    known = {text: np.nan if word in MISSING else float(word in YES) for text, word in meanings.items()}
    return values.map(known).astype(np.float64)


def strange_truths(values: Any) -> list[int]:
    """The positions of the values of a column that are neither missing nor yes or no in words."""
    words = YES | NO | MISSING
    good = {value: isinstance(value, str) and value.strip().lower() in words for value in values.dropna().unique()}
    return [place for place, value in enumerate(values) if not pd.isna(value) and not good[value]]


def date_form(values: Any, american: bool = False) -> tuple[str, str] | None:
    """The format of a column of dates, for `days`, and a remark if it had to be guessed; None if they are no dates.

    Day and month are told apart by values above 12, or by one of them that never changes. Where nothing tells, a
    slash in an ``american`` file (decimal points, commas between values) means that the month comes first.
    """
    texts = [text for text in values.dropna().unique() if isinstance(text, str)]
    if not texts or len(texts) < values.dropna().nunique():
        return None
    if _all_dates(texts, "ISO8601") and all(re.match(r"\d{4}-\d{2}-\d{2}", text) for text in texts):
        return "ISO8601", ""
    parts = [_DATE.fullmatch(text.strip()) for text in texts]
    if not all(parts):
        return next(
            (
                (base + time, "")
                for base in _OTHER_DATES
                for time in TIMES
                if any(letter.isdigit() for letter in texts[0]) and _all_dates(texts, base + time)
            ),
            None,
        )
    first, mark, second, year, time = zip(*(part.groups() for part in parts if part), strict=True)
    if len(set(mark)) > 1 or len({len(text) for text in year}) > 1:
        return None
    order, remark = _order([int(one) for one in first], [int(one) for one in second], american and mark[0] == "/")
    tail = ("%Y" if len(year[0]) == 4 else "%y") + next(
        (form for form in TIMES if _all_dates([text for text in time if text] or [""], form)), ""
    )
    form = mark[0].join(("%d", "%m", tail) if order == DAY_FIRST else ("%m", "%d", tail))
    return (form, remark) if _all_dates(texts, form) else None


def days(values: Any, form: str) -> Any:
    """Days since 1970 of a column of dates in this format, or of dates that are no text."""
    dates = pd.to_datetime(values, utc=True, format=None if values.dtype.kind == "M" else form)
    return (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)


def _number(text: str, decimal: str) -> tuple[float, str] | None:
    """The number that a text stands for and the mark it carries; NaN for a word that says that there is none."""
    word = _SPACES.sub(" ", text).strip()
    if word.lower() in MISSING:
        return np.nan, ""
    mark = ""
    if word.endswith("%"):
        word, mark = word[:-1].strip(), "%"
    else:
        found = re.search(rf"^[+-]?\s?({CURRENCY})\s?|\s?({CURRENCY})$", word)
        if found:
            mark = found.group(1) or found.group(2)
            word = word.replace(mark, "", 1).strip()
    negative = word.startswith("(") and word.endswith(")")
    word = word[1:-1].strip() if negative else word
    thousands = "[.' ]" if decimal == "," else "[,' _]"
    sign, rest = (word[0], word[1:].strip()) if word[:1] in {"+", "-", "\N{MINUS SIGN}"} else ("", word)
    grouped = re.fullmatch(rf"(\d{{1,3}}(?:({thousands})\d{{3}})(?:\2\d{{3}})*)((?:{re.escape(decimal)}\d*)?)", rest)
    if grouped:
        rest = re.sub(thousands, "", grouped.group(1)) + grouped.group(3).replace(decimal, ".")
        mark = mark or "thousands separators"
    elif re.fullmatch(rf"(\d+(?:{re.escape(decimal)}\d*)?|{re.escape(decimal)}\d+)(?:[eE][+-]?\d+)?", rest):
        rest = rest.replace(decimal, ".")
    else:
        return None
    if mark == "thousands separators":
        mark = ""  # a column may hold small numbers, too
    value = float(rest)
    return (-value if negative or sign in {"-", "\N{MINUS SIGN}"} else value), mark


def _order(first: list[int], second: list[int], american: bool) -> tuple[str, str]:
    """Which of two parts of a date is the day, and a remark if nothing but custom tells."""
    if max(first) > 12 or (max(second) <= 12 and len(set(first)) == 1 < len(set(second))):
        return DAY_FIRST, ""
    if max(second) > 12 or len(set(second)) == 1 < len(set(first)):
        return MONTH_FIRST, ""
    order = MONTH_FIRST if american else DAY_FIRST
    return order, f"read as {order}, which is a guess; dates as 2024-03-31 leave no doubt"


def _all_dates(texts: list[str], form: str) -> bool:
    if form == "":
        return texts == [""]
    try:
        pd.to_datetime(pd.Series(texts), utc=True, format=form)
    except (ValueError, TypeError, OverflowError):
        return False
    return True
