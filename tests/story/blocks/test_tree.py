from dataclasses import replace

from small_blocks import call, forward, layer, model_of

from xray.story.blocks.tree import OUTSIDE, grow_tree, name_place


def test_what_a_block_holds_stands_behind_it():
    one_pass = model_of(*layer("net.a", ""), *layer("net.b", "net.a.part1#0"))
    tree = grow_tree(one_pass)
    assert [step.path for step in tree.steps[tree.inside[0][1] : tree.ends[tree.inside[0][1]]]] == [
        "net.b",
        "net.b.part0",
        "net.b.part1",
    ]


def test_steps_in_any_order_find_their_block():
    one_pass = model_of(*layer("net.a", ""))
    first, block, *parts = one_pass.steps
    tree = grow_tree(replace(one_pass, steps=(first, block, call("net.z", "relu", [""], parent="net#0"), *parts)))
    assert [step.path for step in tree.steps] == ["net", "net.a", "net.a.part0", "net.a.part1", "net.z"]


def test_an_input_from_outside_has_no_place():
    assert grow_tree(forward(call("a", "relu", [""]))).sources == ((OUTSIDE,),)


def handing_on(path, source, **options):
    step = call(path, "dropout", [source], **options)
    return replace(step, outputs=(replace(step.outputs[0], source=source),))


def test_what_was_handed_on_comes_from_who_handed_it_on():
    first = call("net.first", "linear", [""], parent="net#0")
    idle = handing_on("net.idle", first.id, parent="net#0")
    last = call("net.last", "relu", [first.id], parent="net#0")
    tree = grow_tree(model_of(first, idle, last))
    assert tree.sources[3] == (2,)


def test_what_was_handed_on_inside_a_block_is_not_seen_from_outside():
    first = call("net.first", "linear", [""], parent="net#0")
    block = call("net.block", "block", [first.id], parent="net#0")
    idle = handing_on("net.block.idle", first.id, parent=block.id)
    last = call("net.last", "relu", [first.id], parent="net#0")
    assert grow_tree(model_of(first, block, idle, last)).sources[4] == (1,)


def test_a_number_is_named_with_the_word_before_it():
    assert name_place(call("net.layers.3", "linear")) == "layers.3"
    assert name_place(call("net.layers.3.norm", "norm")) == "norm"


def test_what_a_block_hands_on_at_its_end_comes_from_there():
    first = call("net.block.first", "linear", [""], parent="net.block#0")
    idle = handing_on("net.block.idle", first.id, parent="net.block#0")
    block = call("net.block", "block", [""], parent="net#0")
    block = replace(block, outputs=(replace(block.outputs[0], source=first.id),))
    last = call("net.last", "relu", [first.id], parent="net#0")
    assert grow_tree(model_of(block, first, idle, last)).sources[4] == (3,)
