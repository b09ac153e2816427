"""The stations and what happens at each, one below the other."""

from types import SimpleNamespace

from xray.renderers.fonts import text_width
from xray.story.canvas import Canvas
from xray.story.cards.reading import draw_reading


def test_a_station_of_two_lines_stands_as_far_below_the_one_before_as_above_the_next():
    long = "Every place looks back, never ahead; a window is set. Each place alone, wider and back, and once again."
    told = SimpleNamespace(left=0, width=300, stations=((1, "Ids become vectors."), (2, long), (3, "A score.")))
    canvas = Canvas(text_width)
    draw_reading(told, canvas, 700)  # type: ignore[arg-type]  # all that it reads of what is told

    above, two, below = (box for box in canvas.boxes if not box.filled and box.x > 30 and box.y < 690)
    assert len(two.lines) == 2
    assert abs((above.bottom - two.top) - (two.bottom - below.top)) < 1.5
    badges = [box.y for box in canvas.boxes if box.filled]
    assert badges[0] - badges[1] == badges[1] - badges[2]
