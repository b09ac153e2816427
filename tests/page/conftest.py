"""A page on disk and a browser that opens it; whatever a test does there, no network is asked and nothing complains."""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from page_helpers import LAPTOP

from xray.renderers.render import render


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
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render(page_trace, "html"), encoding="utf-8")
    return path


@pytest.fixture
def visit(browser):
    """Opens a file at a place and a size; afterwards there was no request to anywhere, and no complaint."""
    opened = []

    @contextmanager
    def go(path: Path, place="", size=LAPTOP, **options):
        settings = {"viewport": size, "reduced_motion": "reduce", "color_scheme": "dark", **options}
        context = browser.new_context(**settings)
        context.set_default_timeout(6000)
        watched = Watched(context.new_page())
        opened.append(watched)
        watched.page.on("request", lambda request: watched.requests.append(request.url))
        watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        watched.page.on(
            "console",
            lambda said: watched.complaints.append(said.text) if said.type in ("error", "warning") else None,
        )
        try:
            watched.page.goto(path.as_uri() + place)
            watched.page.wait_for_selector("html[data-ready=yes]")
            yield watched.page
        finally:
            context.close()

    yield go
    for watched in opened:
        assert [url for url in watched.requests if not url.startswith(("file:", "data:"))] == []
        assert watched.complaints == []


@pytest.fixture
def laptop(visit, page_file):
    with visit(page_file) as page:
        yield page


@pytest.fixture
def at(visit, page_file):
    """Opens the page of the session at a place, on a laptop or another size."""
    with ExitStack() as stack:
        yield lambda place, size=LAPTOP, **options: stack.enter_context(visit(page_file, place, size, **options))
