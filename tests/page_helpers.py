"""What tests of the page need: screens to see it on, and the facts behind what it shows."""

import gzip
import json
import re
from base64 import b64decode

LAPTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PROJECTOR = {"width": 1920, "height": 1080}


def find_pass(trace, kind, number=0):
    """The pass of a kind and number."""
    return next(one for one in trace.passes if (one.kind, one.number) == (kind, number))


def find_step(trace, path, kind, number=0):
    """A step by its path, in the pass of a kind and number."""
    return find_pass(trace, kind, number).by_id[f"{path}#0"]


def sizes(record):
    """A record's shape as the page writes it."""
    return "×".join(map(str, record.shape))


def rest(page):
    """Wait until the map moves no more and is drawn sharp: a busy machine may be late with it."""
    page.evaluate("() => new Promise(done => setTimeout(() => requestAnimationFrame(() => setTimeout(done))))")
    page.wait_for_selector("#stage:not(.moving)", state="attached")
    return page


def record_family(name):
    """The trace of a small model of a family, with the values that a page keeps."""
    import torch
    from families.specimens import BY_NAME

    from xray.capture.recorder import Recorder
    from xray.capture.targets.page_values import preview_for_page

    specimen = BY_NAME[name]
    model = specimen.build().eval()
    recorder = Recorder(model, operations=True, preview=preview_for_page, shows_ids=True, weighs=True)
    with torch.no_grad(), recorder:
        model(**specimen.make_inputs())
    return recorder.trace


def unpack(html):
    """What a page knows, read from its text."""
    return unpacked(re.search(r'id="facts">([^<]*)<', html)[1])


def unpacked(facts):
    """What a page knows, as it is packed into it."""
    return json.loads(gzip.decompress(b64decode(facts)))
