"""A page on disk and a browser that opens it; whatever a test does there, no network is asked and nothing complains."""

from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import make_once
from page_helpers import LAPTOP

from xray.renderers.render import render

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the tests of a file about the page the fast tier does every fourth, and each for the first of its things."""
    seen = defaultdict(list)
    for item in items:
        if item.path.parent == HERE:
            names = seen[item.path]
            if item.originalname in names or len(names) % 4:
                item.add_marker(pytest.mark.slow)
            if item.originalname not in names:
                names.append(item.originalname)


@dataclass
class Watched:
    """A page in the browser, and everything it asked for or complained of."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def page_trace(untrained_run):
    return untrained_run.trace("both", max_turns=5, values="page")


@pytest.fixture(scope="session")
def page_file(page_trace, tmp_path_factory):
    def fill(folder):
        (folder / "page.html").write_text(render(page_trace, "html"), encoding="utf-8")

    return make_once(tmp_path_factory, "page", fill) / "page.html"


@pytest.fixture(scope="session")
def idle(browser):
    """Pages that no test is looking at, by the options of their context: opening one costs more than X-Ray's page."""
    return defaultdict(list)


@pytest.fixture
def visit(browser, idle):
    """Opens a file at a place (without one its map) and a size; nothing is asked of anywhere, and nothing complains."""
    opened = []

    @contextmanager
    def go(path: Path, place="", size=LAPTOP, **options):
        settings = {"reduced_motion": "reduce", "color_scheme": "dark", **options}
        unused = idle[tuple(sorted(settings.items()))]
        page = unused.pop() if unused else new_page(browser, settings)
        page.set_viewport_size(size)
        watched = Watched(page)
        opened.append(watched)
        with listening(watched):
            page.goto(path.as_uri() + (place or "#view=walk"))
            page.wait_for_selector("html[data-ready=yes]")
            yield page
        page.mouse.move(-9, -9)
        page.goto("about:blank")
        unused.append(page)

    yield go
    for watched in opened:
        assert [url for url in watched.requests if not url.startswith(("file:", "data:"))] == []
        assert watched.complaints == []


def new_page(browser, settings):
    context = browser.new_context(**settings)
    context.set_default_timeout(60_000)  # a machine that does much else takes its time
    return context.new_page()


@contextmanager
def listening(watched):
    """Notes what a page asks for and complains of."""

    def note_complaint(said):
        if said.type in ("error", "warning"):
            watched.complaints.append(said.text)

    listeners = {
        "request": lambda request: watched.requests.append(request.url),
        "pageerror": lambda error: watched.complaints.append(str(error)),
        "console": note_complaint,
    }
    for event, listener in listeners.items():
        watched.page.on(event, listener)
    try:
        yield
    finally:
        for event, listener in listeners.items():
            watched.page.remove_listener(event, listener)


@pytest.fixture
def laptop(visit, page_file):
    with visit(page_file) as page:
        yield page


@pytest.fixture
def at(visit, page_file):
    """Opens the page of the session at a place, on a laptop or another size."""
    with ExitStack() as stack:
        yield lambda place, size=LAPTOP, **options: stack.enter_context(visit(page_file, place, size, **options))
