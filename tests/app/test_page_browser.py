"""The page in a real browser: no errors, no requests, plots drawn, tables that sort, no overflow."""

import pytest

pytest.importorskip("pandas")
pytest.importorskip("skops")
pytest.importorskip("matplotlib")

from gatewise.app.page import findings
from gatewise.app.page import page_file as page
from tests.app.browser import Browser, find_chromium
from tests.app.small_models import make_frame, saved_model

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed")
COLUMN = "Array.from(document.querySelectorAll('#rows .tall tbody tr'), row => row.cells[{}].textContent)"
IN_ORDER = "(x, i, all) => i === 0 || all[i - 1].localeCompare(x) <= 0"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A browser with the page of a model with hostile names."""
    folder = tmp_path_factory.mktemp("page")
    path = page.write_page(findings.find(saved_model(), make_frame()), folder / "page.html", "m.skops", "d.csv")
    browser = Browser(folder / "profile")
    browser.open(path)
    yield browser
    browser.close()


def test_no_errors_and_no_requests(shown):
    assert shown.seen("Runtime.exceptionThrown") == []
    assert shown.seen("Log.entryAdded") == []
    assert shown.seen("Runtime.consoleAPICalled") == []
    assert shown.seen("Page.javascriptDialogOpening") == []  # alert()
    addresses = [event["request"]["url"] for event in shown.seen("Network.requestWillBeSent")]
    assert addresses[0].startswith("file:")
    assert all(address.startswith("data:") for address in addresses[1:])


def test_a_hostile_name_that_got_through_would_not_run(shown):
    shown.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked = 1\">')")
    shown.run("(() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
              " document.body.append(s); })()")  # fmt: skip
    assert shown.run("window.hacked === undefined")
    shown.run("document.body.lastChild.remove(); document.body.lastChild.remove()")
    shown.events.clear()  # the browser complained, as it should


def test_every_plot_is_drawn(shown):
    sizes = shown.run("Array.from(document.images, i => i.complete * i.naturalWidth * i.naturalHeight)")
    assert len(sizes) >= 6
    assert min(sizes) > 10_000
    assert shown.run("Array.from(document.images).every(i => i.alt.length > 10)")


@pytest.mark.parametrize(("column", "read"), [(0, int), (2, float), (4, str)])
def test_a_click_sorts_and_another_turns_round(shown, column, read):
    click = f"document.querySelectorAll('#rows .tall th button')[{column}].click()"
    state = f"document.querySelectorAll('#rows .tall th')[{column}].getAttribute('aria-sort')"
    shown.run(click)
    rising = [read(cell.strip()) for cell in shown.run(COLUMN.format(column))]
    assert shown.run(state) == "ascending"
    assert len(rising) == 160
    assert shown.run(f"{COLUMN.format(column)}.every({IN_ORDER})") if read is str else rising == sorted(rising)
    shown.run(click)
    assert shown.run(state) == "descending"
    assert shown.run("document.querySelectorAll('#rows .tall th[aria-sort]').length") == 1
    if read is not str:
        assert [read(cell.strip()) for cell in shown.run(COLUMN.format(column))] == rising[::-1]


@pytest.mark.parametrize("width", [375, 768, 1280])
def test_the_page_is_never_wider_than_the_screen(shown, width):
    shown.resize(width, 800)
    assert shown.run("document.documentElement.scrollWidth") <= width
    text = shown.run("parseFloat(getComputedStyle(document.querySelector('p')).fontSize)")
    assert text >= 15


def test_on_paper(shown, tmp_path):
    shown.resize(720, 1000)
    shown.media("print")
    printed = shown.run(
        "Array.from(document.querySelectorAll('#rows .tall tbody tr')).filter(r => r.offsetHeight > 0).length"
    )
    assert printed == page.PRINTED_ROWS
    assert shown.run("document.querySelector('nav').offsetHeight") == 0
    assert shown.run("document.documentElement.scrollWidth") <= 720
    shown.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    shown.media("screen")
