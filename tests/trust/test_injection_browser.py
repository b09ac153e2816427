"""A page made of hostile texts, opened in Chromium: nothing of theirs runs, asks, or is fetched."""

import pytest
from trust.hostile import SHORT
from trust.test_injection_traces import foreign, poison

from xray import render


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        pytest.param("html", "chatbot", marks=pytest.mark.slow),
        ("html", "foreign"),
        pytest.param("svg", "chatbot", marks=pytest.mark.slow),
        ("svg", "foreign"),
    ],
)
def test_nothing_of_theirs_runs(browser, small_trace, tmp_path, kind, form):
    texts = list(SHORT.values())
    file = tmp_path / f"shown.{form}"
    file.write_text(render(poison(small_trace, texts) if kind == "chatbot" else foreign(texts), form), encoding="utf-8")
    heard = []
    page = browser.new_page()
    page.on("dialog", lambda dialog: (heard.append(("dialog", dialog.message)), dialog.dismiss()))
    page.on("pageerror", lambda error: heard.append(("error", str(error))))
    page.on("console", lambda message: heard.append((message.type, message.text)))
    page.on("request", lambda request: heard.append(("request", request.url)))
    page.goto(file.as_uri())
    page.wait_for_timeout(300)
    touched = page.locator("[data-step]")
    for number in range(min(8, touched.count())):
        touched.nth(number).dispatch_event("click")
    page.wait_for_timeout(200)
    fetched = [one for one in heard if one[0] == "request" and not one[1].startswith((file.as_uri(), "data:", "blob:"))]
    assert fetched == []
    assert [one for one in heard if one[0] in ("dialog", "error")] == []
    assert [one for one in heard if one[0] not in ("request",)] == []
    page.close()
