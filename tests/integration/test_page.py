# SPDX-License-Identifier: Apache-2.0
"""The status page in a browser, on a phone and on a desk: what it says, in which order and units, and that it fits."""

from __future__ import annotations

import os
import pathlib
import re
import struct
import zlib

import pytest

import repository_files
import wire
from browser import Browser
from server_process import Server
from session_calls import Sessions
from test_admin import _get
from test_service import SECONDS, _case

PHONE, DESK = (390, 844), (1280, 900)
LONG = "a-model-whose-name-is-much-longer-than-a-telephone-is-wide-and-has-no-blanks-at-all"
HOSTILE = '<img src=x onerror="document.title=1">'
MODELS = 60
OUTCOMES = ["Requests", "Rate", "Refused", "Failed", "Given up", "p50", "p99"]
COLUMNS = {
    "Models": ["Model", "Versions", *OUTCOMES, "Waiting p99", "Sessions", "States"],
    "Slices": ["Model", "Engine", "Slices", "Rate", "Sequences a slice", "Steps a slice", "Compute p50", "Compute p99"],
    "Engines": ["Engine", "State", "Packed weights"],
    "Methods": ["Method", *OUTCOMES],
    "Refused requests": ["Reason", "Requests"],
    "Refused model files": ["File", "Reason"],
    "Last warnings and errors": ["Time", "Level", "What"],
    "Now": ["What", "Value"],
}
# What takes minutes to come about, and what no server would say.
MADE_UP = """
const real = window.fetch;
window.fetch = async (...what) => {
  const s = await (await real(...what)).json();
  s.history = {step_seconds: 5, requests_per_second: [0, 1, 2, 1234.5], sessions: [1, 2, 3, 4],
               sequences_per_slice: [null, 1.5, null, 2], p99_ms: [null, 0.25, 7, 12.5]};
  s.errors.push({time: "2026-01-02T03:04:05Z", level: "error", text: %r});
  return new Response(JSON.stringify(s));
};
""" % HOSTILE


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A browser that looks at a server which has a bit of everything."""
    folder = tmp_path_factory.mktemp("models")
    case = repository_files.case("LSTM", 14)
    for name in [LONG, *(f"model-{k}" for k in range(MODELS))]:
        repository_files.write(folder / name / "1", repository_files.model(case))
    (folder / "broken" / "1").mkdir(parents=True)
    (folder / "broken" / "1" / "model.onnx").write_bytes(b"no model at all")
    server = Server(f"--models={folder}", "--drain_timeout=100ms")
    request = wire.recurrent_pb2.InferRequest(inputs=[wire.tensor("X", case.tensors["X"])])
    request.model.name = LONG
    for _ in range(5):
        server.recurrent.Infer(request, timeout=SECONDS)
    server.recurrent.Infer(wire.request(_case()), timeout=SECONDS)
    request.inputs[0].shape[0] += 1
    wire.refusal(server.recurrent.Infer, request, timeout=SECONDS)
    sessions = Sessions(server.address)
    sessions.feed(sessions.open(), 1, [1, 2])
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        browser.before_each_page(MADE_UP)
        yield server, browser
    sessions.close()
    assert server.stop() == 0


@pytest.fixture(scope="module", params=[PHONE, DESK], ids=["phone", "desk"])
def page(request, shown):
    """The page at a size, once it knows rates, for which it takes a second answer."""
    server, browser = shown
    browser.resize(*request.param, mobile=request.param == PHONE)
    browser.open(f"http://127.0.0.1:{server.admin_port}/")
    browser.await_true("[...document.querySelectorAll('td')].some(cell => /[0-9]\\/s/.test(cell.innerText))")
    return browser, request.param


def _cells(browser, title):
    """The rows of a table, by their columns' names, as they are to be seen."""
    return browser.value(f"""[...document.querySelectorAll("h2")].filter(h => h.innerText === {title!r}).flatMap(
        h => [...h.nextElementSibling.tBodies[0].rows].map(
            row => [...row.cells].map(cell => [cell.dataset.label, cell.innerText])))""")


def test_it_fits(page):
    browser, size = page
    assert browser.value("document.documentElement.scrollWidth") <= size[0]
    wide = f"[...document.querySelectorAll('body *')].filter(x => x.getBoundingClientRect().right > {size[0]} + .5)"
    assert browser.value(f"{wide}.map(x => x.outerHTML.slice(0, 200))") == []
    picture = browser.screenshot()
    if folder := os.environ.get("RNNSERVE_SCREENSHOTS"):
        pathlib.Path(folder, f"status-{size[0]}.png").write_bytes(picture)
    assert struct.unpack(">I", picture[16:20])[0] == size[0]
    data = b"".join(picture[at + 4:at + 4 + struct.unpack(">I", picture[at - 4:at])[0]]
                    for at in (match.start() for match in re.finditer(b"IDAT", picture)))
    assert len(set(zlib.decompress(data))) > 50, "there is something to be seen"


def test_columns_are_in_their_order(page):
    browser, size = page
    titles = browser.value("[...document.querySelectorAll('h2')].map(x => x.innerText)")
    assert titles == list(COLUMNS)
    for title, columns in COLUMNS.items():
        for row in _cells(browser, title):
            assert [name for name, _ in row] == columns, title
    # What is to be read: on a desk above each column, on a phone before each figure of a wide table.
    text = browser.value("document.body.innerText")
    labels = str(browser.value("[...document.querySelectorAll('td')].map(x => getComputedStyle(x, '::before').content)"))
    told = set(re.findall(r'"([^"]+)"', labels)) if size == PHONE else set()
    hidden = {columns[0] for columns in COLUMNS.values()} if size == PHONE else set()
    assert all(name in text or name in told | hidden for columns in COLUMNS.values() for name in columns)
    assert len(told) > 10 or size == DESK
    assert browser.value("document.title") == "rnnserve" and HOSTILE in text


def test_figures_have_units(page):
    browser, _ = page
    text = browser.value("document.body.innerText")
    assert "takes work" in text and re.search(r"rnnserve \d+\.\d+\.\d+", text) and re.search(r"for \d+ (s|min)", text)
    first, *others = (dict(row) for row in _cells(browser, "Models"))
    busy = {first["Model"]: first, **{row["Model"]: row for row in others}}[LONG]
    assert (busy["Requests"], busy["Refused"], busy["Failed"], busy["Versions"]) == ("6", "1", "", "1")
    assert re.fullmatch(r"[\d.]+ (µs|ms|s)", busy["p99"]) and re.fullmatch(r"[\d.]+/s", busy["Rate"])
    assert {first["Model"], *(row["Model"] for row in others)} == {LONG, "(inline)"}
    assert "60 models are loaded and not called" in text
    names = browser.value("document.querySelector('details').open = true, document.querySelector('details').innerText")
    assert "model-2, model-3, model-4" in names and "model-59" in names
    assert any(re.fullmatch(r"[\d.]+ B", dict(row)["States"]) for row in _cells(browser, "Models"))
    now = {name: value for (_, name), (_, value) in _cells(browser, "Now")}
    assert re.fullmatch(r"[\d.]+ MiB", now["Memory"]) and re.fullmatch(r"[\d.]+ [GT]iB", now["Memory limit"])
    assert {dict(row)["Engine"]: dict(row)["State"] for row in _cells(browser, "Engines")} == {
        engine: "takes work" for engine in ("cpu", "onednn", "reference")}
    file, = (dict(row) for row in _cells(browser, "Refused model files"))
    assert file["File"] == "broken/1/model.onnx" and file["Reason"]


def test_the_last_minutes_are_drawn(page):
    browser, _ = page
    captions = browser.value("[...document.querySelectorAll('figure')].map(x => x.innerText)")
    assert [caption.split("\n")[0] for caption in captions] == ["Requests", "Sessions", "Sequences a slice", "p99"]
    for caption, last, top in zip(captions, ["1,235/s", "4", "2", "12.5 ms"], ["1,235/s", "4", "2", "12.5 ms"]):
        assert last in caption and f"0.3 min, at most {top}" in caption, caption
    lines = browser.value("[...document.querySelectorAll('svg')].map(x => x.querySelectorAll('polyline').length)")
    assert lines == [1, 1, 2, 1], "what is not known is not drawn"


def test_a_server_that_has_gone_is_told(shown):
    _, browser = shown
    other = Server("--drain_timeout=100ms")
    browser.open(f"http://127.0.0.1:{other.admin_port}/")
    browser.await_true("document.body && document.body.innerText.includes('takes work')")
    assert other.stop() == 0
    browser.await_true("document.body.innerText.includes('no answer')")


def test_the_page_is_whole_by_itself(shown):
    page = _get(shown[0], "/")[1]
    assert re.findall(r"https?://[^\"'\s]+", page) == ["http://www.w3.org/2000/svg"], "a name, not an address"
    assert not re.search(r"<(link|img|iframe|object)|<script src|@import|url\(", page)
