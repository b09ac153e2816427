"""What stands under the title of a drawing by blocks, and at the top of a block."""

import re
from types import SimpleNamespace
from typing import Any, cast

from small_blocks import call, layer, model_of

from xray.ir.trace import Trace
from xray.renderers.blocks.nodes import head_line
from xray.renderers.sheet.poster import draw_poster
from xray.story.blocks.opening import Choice
from xray.story.layout import Run


def test_a_title_says_how_deep_is_drawn_and_not_that_so_many_levels_are_opened():
    first = layer("net.first", "")
    second = layer("net.second", first[-1].id, ("conv2d", "tanh"))
    trace = Trace("T", {}, {}, (model_of(*first, *second),))

    drawn = draw_poster(trace, "dot", blocks=Choice(depth=0, opened=("net.first",)))

    assert "drawn down to level 2 of 2. 1 block is closed" in drawn


def test_a_title_counts_the_blocks_that_bundles_close():
    source, steps = "", []
    for number in range(97):  # no two neighbours repeat
        ops = [("relu", "tanh", "sigmoid")[number // 3**place % 3] for place in range(5)]
        steps += layer(f"net.one{number}", source, ("linear", *ops))
        source = steps[-1].id

    assert "97 blocks in bundles are closed" in draw_poster(Trace("T", {}, {}, (model_of(*steps),)), "dot")


def test_a_bundle_counts_its_blocks_apart_from_its_steps():
    """So where a model does much itself between its blocks (Titans)."""
    source, steps = "", []
    for number in range(64):  # no two neighbours repeat
        ops = [("relu", "tanh", "sigmoid")[number // 3**place % 3] for place in range(4)]
        steps += layer(f"net.one{number}", source, ("linear", *ops))
        steps.append(call(f"net.add{number}", "add", [steps[-1].id], (2, 3), parent="net#0"))
        source = steps[-1].id

    drawn = draw_poster(Trace("T", {}, {}, (model_of(*steps),)), "dot")
    assert re.search(r"\b\d+ blocks and \d+ steps\b", drawn)
    assert not re.search(r">\d+ blocks<", drawn)


def test_a_title_says_what_took_no_part():
    steps = layer("net.first", "")
    unused = {"net.third": 7777, "net.fourth": 55, "net.fifth": 13, "net.sixth": 11}

    drawn = draw_poster(Trace("T", {}, {}, (model_of(*steps),), unused=unused), "dot")
    assert "Took no part: net.third (7,777 parameters), net.fourth (55 parameters) and 2 more (24)" in drawn
    assert "Took no part" not in draw_poster(Trace("T", {}, {}, (model_of(*steps),), unused={}), "dot")


def test_a_file_stands_apart_from_the_name_of_a_class_however_long_that_is():
    item = cast(Any, SimpleNamespace(count=1))

    told = [head_line(Run("conv", 13, "text"), item, name, "file.py:3")[-1].text for name in ("Conv", "C" * 37)]
    assert told == ["  file.py:3", "\N{NO-BREAK SPACE}" * 6 + "  file.py:3"]
