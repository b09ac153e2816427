from small_blocks import call, layer, model_of

from xray.ir.trace import Trace
from xray.renderers.blocks.names import find_room, follow, move_names
from xray.renderers.sheet.image import draw_dot
from xray.renderers.sheet.poster import draw_poster
from xray.story.blocks.opening import Choice


def test_a_name_stays_where_no_line_crosses_it():
    assert find_room(10, 50, 200, [(80, 90)]) == 10


def test_a_crossed_name_moves_behind_the_line():
    assert find_room(10, 50, 200, [(30, 40), (44, 50)]) == 58


def test_a_name_without_room_stays():
    assert find_room(10, 50, 80, [(30, 40)]) == 10


def test_a_line_is_followed_to_its_tip():
    points = list(follow("e,0,40 0,0 0,10 0,20 0,30"))
    assert (points[0], points[-1]) == ((0, 0), (0, 40))


def names_and_lines(dot):
    """Of a drawing that is laid out: where its frames' names are, and the points of its lines."""
    import pygraphviz

    graph = pygraphviz.AGraph(string=move_names(draw_dot(dot, "dot", "dot").decode()))
    frames = graph.subgraphs()
    for frame in frames:
        frames += frame.subgraphs()
    names = [tuple(map(float, frame.graph_attr["lp"].split(","))) for frame in frames]
    return names, [point for edge in graph.edges() for point in follow(edge.attr["pos"])]


def test_no_line_goes_through_the_name_of_a_frame():
    left = layer("net.left", "")
    fork = call("net.right.fork", "tanh", [left[-1].id], parent="net.right#0")
    right = [call("net.right", "right", [left[-1].id], parent="net#0", module="RightHandSide"), fork]
    right += [call(f"net.right.{n}", f"op{n}", [fork.id], parent="net.right#0") for n in ("a", "b", "c")]
    join = call("net.join", "cat", [one.id for one in right[2:]], parent="net#0")
    trace = Trace("T", {}, {}, (model_of(*left, *right, join),))
    names, points = names_and_lines(draw_poster(trace, "dot", blocks=Choice(depth=9)))
    assert not [1 for x, y in names for px, py in points if abs(px - x) < 4 and abs(py - y) < 8]
