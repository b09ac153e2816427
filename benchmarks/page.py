"""How smoothly a page moves in a browser, how long it takes to open, and how large it is.

Run: python benchmarks/page.py page.html [another.html ...]    needs playwright, and a Chromium
"""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, ViewportSize, sync_playwright
from timing import machine, print_table

LAPTOP: ViewportSize = {"width": 1440, "height": 900}
FRAMES = 90
MEASURE = """
async ([kind, frames]) => {
  const stage = document.getElementById("stage");
  const box = stage.getBoundingClientRect();
  const send = (type, x, y, more = {}) => stage.dispatchEvent(new (type === "wheel" ? WheelEvent : PointerEvent)(
    type, {pointerId: 1, clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, ...more}));
  const tick = () => new Promise(requestAnimationFrame);
  await tick();
  const times = [await tick()];
  if (kind === "pan") send("pointerdown", 400, 300);
  for (let at = 0; at < frames; at += 1) {
    const turn = at / frames * 2 * Math.PI;
    if (kind === "pan") send("pointermove", 400 + 150 * Math.sin(turn), 300 + 100 * Math.sin(2 * turn));
    if (kind === "zoom") send("wheel", 400, 300, {deltaY: at < frames / 2 ? -40 : 40});
    times.push(await tick());
  }
  if (kind === "pan") send("pointerup", 400, 300);
  return times;
}
"""


def main() -> None:
    """Print two tables: what opening costs, and for panning, zooming and playing frames a second and their cost.

    "near" is panning where boxes are so large that they show their cells.
    """
    options = argparse.ArgumentParser()
    options.add_argument("pages", nargs="+", type=Path)
    wanted = options.parse_args()
    print(f"{machine()}\n")
    with sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if path is None:
            sys.exit("no Chromium was found. Install one to measure the page.")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        rows = [(page.name, *measure_page(browser, page)) for page in wanted.pages]
        browser.close()
    head = ("page", "MB", "opens s", "of it busy s", "unfold ms", "open all ms")
    print_table("ms: main thread", head, [row[:6] for row in rows])
    kinds = ("pan", "zoom", "near", "performance")
    moving = ("page", *(f"{kind} {unit}" for kind in kinds for unit in ("fps", "ms")))
    print_table("ms: main thread per frame", moving, [(row[0], *row[6:]) for row in rows])


def measure_page(browser: Browser, file: Path) -> tuple[str, ...]:
    page = browser.new_page(viewport=LAPTOP, reduced_motion="no-preference")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    began = time.perf_counter()
    page.goto(f"{file.resolve().as_uri()}#view=walk&station=2")
    page.wait_for_selector("html[data-ready=yes]")
    opened = time.perf_counter() - began
    page.wait_for_timeout(1500)
    found = [
        f"{file.stat().st_size / 1e6:.2f}",
        f"{opened:.2f}",
        f"{task_seconds(session):.2f}",
        *measure_opening(page, session),
    ]
    for kind in ("pan", "zoom"):
        found += measure(page, session, kind)
    page.mouse.move(400, 400)
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(600)
    found += measure(page, session, "pan")
    page.goto(f"{file.resolve().as_uri()}#view=show")
    page.wait_for_selector("html[data-ready=yes]")
    page.wait_for_timeout(300)
    if page.locator("#show_start").is_visible():
        page.click("#show_start")
        page.wait_for_timeout(300)
        found += measure(page, session, "watch", frames=600)
    else:
        found += ["", ""]
    page.close()
    return tuple(found)


def measure_opening(page: Page, session: CDPSession) -> Iterator[str]:
    """Main-thread milliseconds that it takes to unfold the whole on the map, and then to open all inside it."""
    for name in ("whole", "open"):
        before = task_seconds(session)
        page.click(f"[data-crumb={name}]")
        page.wait_for_timeout(400)
        yield f"{(task_seconds(session) - before) * 1000:.0f}"
    for _ in range(2):
        page.click("[data-crumb=close]")
    page.wait_for_timeout(800)


def measure(page: Page, session: CDPSession, kind: str, frames: int = FRAMES) -> tuple[str, str]:
    """Frames a second, and main-thread milliseconds per frame."""
    before = task_seconds(session)
    times: list[float] = page.evaluate(MEASURE, [kind, frames])
    busy = task_seconds(session) - before
    spent = (times[-1] - times[0]) / 1000
    return f"{frames / spent:.0f}", f"{busy / frames * 1000:.1f}"


def task_seconds(session: CDPSession) -> float:
    metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


if __name__ == "__main__":
    main()
