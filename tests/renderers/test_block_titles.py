"""What stands under the title of a drawing by blocks, and at the top of a block."""

from types import SimpleNamespace
from typing import Any, cast

from small_blocks import layer, model_of

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


def test_a_file_stands_apart_from_the_name_of_a_class_however_long_that_is():
    item = cast(Any, SimpleNamespace(count=1))

    told = [head_line(Run("conv", 13, "text"), item, name, "file.py:3")[-1].text for name in ("Conv", "C" * 37)]
    assert told == ["  file.py:3", "\N{NO-BREAK SPACE}" * 6 + "  file.py:3"]
