"""report.html: self-contained, escaped, and working in a real browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import reporting_browser
from reporting_fixtures import EVIL, add_run, add_timing, shared_report

from harness.reporting import build_report
from harness.reporting.markup import escape
from harness.reporting.points import Point
from harness.reporting.samples import _sample
from harness.results import Store


@pytest.fixture(scope="module")
def page() -> Path:
    """Two tasks, one of them stand-ins; one output full of mischief, one run unfinished, one job failed."""
    return shared_report() / "report.html"


class Outside(HTMLParser):
    """Collects every address a page would fetch and every tag it has."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href", "srcset", "action", "data", "poster")]
        assert not [k for k, _ in attrs if k.startswith("on")], "no inline handler"


def test_nothing_is_fetched_and_every_output_is_escaped(page):
    text = page.read_text(encoding="utf-8")
    parser = Outside()
    parser.feed(text)
    assert all(a.startswith(("#", "data:")) for a in parser.addresses)
    assert parser.tags.count("script") == 1 and "onerror" not in re.sub(r"&lt;img.*?&gt;", "", text)
    assert "x" * 1500 + " … (98,500 more characters)" in text and "x" * 1501 not in text
    assert "title='12 layers'>&lt;b&gt;</span>" in text
    assert "url(" not in text.split("<main>")[0]


def test_pieces_are_coloured_by_the_layers_behind_them_and_a_long_text_is_cut():
    config = {"method": {"name": "calm"}, "model": {"num_layers": 4}, "plan": None}
    point = Point(config, {}, label="calm")
    record = {"output": "a 🍕", "pieces": ["a", "", " 🍕", ""], "length": 4, "ended": True, "layers_needed": [1, 2, 3]}
    html = _sample(point, record)
    coloured = re.findall(r"--d:(\d+)' title='(\d) layers'>(.*?)<", html)
    assert coloured == [("100", "4", "a"), ("50", "2", " 🍕")]
    long = {**record, "output": "x" * 2000, "pieces": ["x" * 1000, "x" * 500, "x" * 400, "x" * 100]}
    assert re.sub("<.*?>", "", _sample(point, long)).endswith("x" * 1500 + " … (500 more characters)")
    without = _sample(point, {key: value for key, value in record.items() if key != "pieces"})
    assert "a 🍕</p><div class='strip'>" in without and without.count("<i ") == 4


def test_escape_shows_what_cannot_be_shown():
    assert escape("a\x00\x1b\ud800<&\"'\n") == "a␀␛�&lt;&amp;&quot;&#x27;\n"
    escape(EVIL).encode("utf-8")


def test_what_is_missing_comes_first(page):
    text = page.read_text(encoding="utf-8")
    problems = text.split("id='problems'")[1].split("</ul>")[0]
    assert "half is not finished" in problems and "broken failed: RuntimeError" in problems
    assert text.index("id='problems'") < text.index("id='verdicts'") < text.index("id='tables'")
    assert "STAND-IN DATA: E2E ran on made-up examples" in text


def test_missing_values_are_dashes(page):
    text = page.read_text(encoding="utf-8")
    assert "<td class='number'>–</td>" in text and ">nan<" not in text and ">None<" not in text


needs_browser = pytest.mark.skipif(
    not reporting_browser.available(), reason="Chromium and chromium-driver are not installed: the page is not tested"
)


@pytest.fixture(scope="module")
def browser(page):
    with reporting_browser.Browser() as running:
        running.open(page)
        running.requests()
        running.log("browser")
        yield running


@needs_browser
def test_opens_without_a_console_message_or_an_outside_request(browser, page):
    for dark in (False, True):
        browser.open(page, dark=dark)
        asked = [u for u in browser.requests() if not u.startswith(("data:", "chrome:"))]
        assert asked == [page.resolve().as_uri()]
        assert browser.log("browser") == [] and browser.run("return document.title").startswith("skipbench")
    colours = "return getComputedStyle(document.body).backgroundColor"
    assert browser.run(colours) == "rgb(20, 23, 27)"


COLUMN = """
const section = document.getElementById('e2e_mini-opt_stand-in_quality');
const at = [...section.querySelectorAll('thead th')].findIndex(th => th.textContent === arguments0);
return [...section.querySelectorAll('tbody tr')].filter(r => !r.hidden).map(r => r.cells[at].dataset.v ?? null);
"""
CLICK = """
const section = document.getElementById('e2e_mini-opt_stand-in_quality');
[...section.querySelectorAll('th button')].find(b => b.textContent === arguments0).click();
"""


def call(browser, script: str, argument: str):
    return browser.run(script.replace("arguments0", repr(argument)))


@needs_browser
@pytest.mark.parametrize("heading", ["E2E BLEU", "method"])
def test_sorting_goes_both_ways_with_missing_values_last(browser, page, heading):
    browser.open(page)
    for reverse in (False, True):
        call(browser, CLICK, heading)
        values = call(browser, COLUMN, heading)
        known = [float(v) if heading == "E2E BLEU" else v for v in values if v is not None]
        assert known == sorted(known, reverse=reverse) and len(known) > 10
        assert None not in values[: len(known)]


CHOOSE = """
const [name, value] = arguments0.split('=');
const select = document.querySelector(`select[name=${name}]`);
select.value = value; select.dispatchEvent(new Event('change', {bubbles: true}));
"""
SHOWN = "return [...document.querySelectorAll('section.table:not([hidden]) tbody tr')].filter(r => !r.hidden)"


@needs_browser
def test_filtering_by_task_and_method_and_back(browser, page):
    browser.open(page)
    everything = browser.run(SHOWN + ".length")
    call(browser, CHOOSE, "method=unified")
    assert set(browser.run(SHOWN + ".map(r => r.dataset.method)")) == {"unified"}
    call(browser, CHOOSE, "task=E2E")
    assert set(browser.run(SHOWN + ".map(r => r.dataset.task)")) == {"E2E"}
    assert "of" in browser.run("return document.querySelector('#e2e_mini-opt_stand-in_quality .count').textContent")
    assert browser.run("return document.getElementById('translation-de-en_mini-opt_quality').hidden")
    browser.run("document.querySelector('.filters button[type=reset]').click()")
    browser.run("return new Promise(done => setTimeout(done, 50))")
    assert browser.run(SHOWN + ".length") == everything


@needs_browser
@pytest.mark.parametrize("width", [360, 390, 1280, 1920])
def test_fits_a_phone_and_a_desk(browser, page, width):
    browser.open(page, width=width)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return [...document.images].every(i => i.complete && i.naturalWidth > 100)")


def test_a_folder_with_a_clock_but_no_quality_run_still_opens(tmp_path):
    with Store(tmp_path) as store:
        add_run(store, "e2e", "full", None)
        add_timing(store, "e2e", 1, [("full", None), ("unified", 2)])
    build_report(tmp_path)
    assert "No claim is touched" in (tmp_path / "report.html").read_text(encoding="utf-8")
