"""What stands under the title of a drawing by blocks."""

from small_blocks import layer, model_of

from xray.ir.trace import Trace
from xray.renderers.sheet.poster import draw_poster
from xray.story.blocks.opening import Choice


def test_a_title_says_how_deep_is_drawn_and_not_that_so_many_levels_are_opened():
    first = layer("net.first", "")
    second = layer("net.second", first[-1].id, ("conv2d", "tanh"))
    trace = Trace("T", {}, {}, (model_of(*first, *second),))

    drawn = draw_poster(trace, "dot", blocks=Choice(depth=0, opened=("net.first",)))

    assert "drawn down to level 2 of 2. 1 block is closed" in drawn
