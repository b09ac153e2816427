"""Record the page's performance for the README: python docs/make_recording.py page.html [-o examples/page.webp]

It plays from the question to the second word in a headless Chromium whose clock is moved by hand, so that every machine
records the same frames, and writes them as one WebP that repeats. It needs playwright, and a Chromium.
"""

import argparse
import io
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

ROOT = Path(__file__).parent.parent
SIZE: ViewportSize = {"width": 1040, "height": 650}
SHOWN = 760
"""So many pixels wide is the picture: large enough to be read in a README."""
FRAMES_A_SECOND = 6
SPEED = 4.0
"""As many times quicker than the page plays by itself."""
HELD_S = 1.6
QUALITY = 60
CLOCK = """
(() => {
  let time = 0, waiting = new Map(), number = 0;
  performance.now = () => time;
  window.requestAnimationFrame = (call) => { waiting.set(++number, call); return number; };
  window.cancelAnimationFrame = (key) => waiting.delete(key);
  window.passTime = (ms) => {
    for (let gone = 0; gone < ms; gone += 20) {
      time += 20;
      const calls = [...waiting.values()];
      waiting.clear();
      for (const call of calls) call(time);
    }
  };
})();
"""
SECOND_WORD = """
() => {
  const turn = document.getElementById("show_where").textContent.match(/turn (\\d+)/);
  return turn !== null && Number(turn[1]) > 2;
}
"""


def main(page: Path, target: Path) -> None:
    """Play, take a picture of every moment, and write them as one."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        sys.exit("no Chromium was found. Install one to record the page.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        shown = browser.new_page(viewport=SIZE, color_scheme="dark", reduced_motion="no-preference")
        shown.add_init_script(CLOCK)
        shown.goto(f"{page.resolve().as_uri()}#view=show")
        shown.wait_for_selector("html[data-ready=yes]")
        frames, seconds = [], []
        for image, lasts in list_frames(shown):
            if frames and image.tobytes() == frames[-1].tobytes():
                seconds[-1] += lasts
            else:
                frames.append(image)
                seconds.append(lasts)
        browser.close()
    frames[0].save(
        target,
        save_all=True,
        append_images=frames[1:],
        duration=[round(one * 1000) for one in seconds],
        loop=0,
        quality=QUALITY,
        method=4,
        minimize_size=True,
    )
    print(f"{target}: {len(frames)} frames, {sum(seconds):.0f} s, {target.stat().st_size:,} bytes")


def list_frames(page: Page) -> Iterator[tuple[Image.Image, float]]:
    """Pictures from the question to the second word, each with the seconds that it stays."""
    page.evaluate("passTime(100)")
    yield take(page), HELD_S
    page.click("#show_start")
    last = int(page.get_attribute("#show_time", "max") or 0)
    while not page.evaluate(SECOND_WORD) and int(page.input_value("#show_time")) < last:
        page.evaluate("ms => passTime(ms)", 1000 * SPEED / FRAMES_A_SECOND)
        yield take(page), 1 / FRAMES_A_SECOND
    yield take(page), HELD_S


def take(page: Page) -> Image.Image:
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.thumbnail((SHOWN, SHOWN), Image.Resampling.LANCZOS)
    return image


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Record the performance of a page as a WebP.")
    parser.add_argument("page", type=Path, help="a page as xray page writes it")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "examples" / "page.webp")
    given = parser.parse_args()
    main(given.page, given.output)
