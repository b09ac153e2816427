from dataclasses import replace

import pytest
from measured import count_calls
from small_blocks import call, chain_of_layers, flat_chain, layer, model_of

from xray.story.blocks.repeats import Run, find_repeats, portray_steps
from xray.story.blocks.tree import grow_tree


def runs_of(one_pass):
    tree = grow_tree(one_pass)
    return find_repeats(tree, tree.inside[0], portray_steps(tree))


def names_of(one_pass):
    tree = grow_tree(one_pass)
    neighbours = tree.inside[0]
    return [
        ([tree.steps[neighbours[run.start + at]].path for at in range(run.period)], run.count)
        for run in find_repeats(tree, neighbours, portray_steps(tree))
    ]


def test_blocks_that_do_the_same_are_one_run_whatever_their_names():
    steps, source = chain_of_layers(2, "first{}")
    steps += layer("net.other", source)
    assert runs_of(model_of(*steps)) == (Run(0, 1, 3),)


def test_a_block_of_another_shape_ends_a_run():
    steps, source = chain_of_layers(3)
    steps += layer("net.wide", source, shape=(2, 11))
    assert runs_of(model_of(*steps)) == (Run(0, 1, 3),)


def test_a_block_with_other_parameters_ends_a_run():
    steps, source = chain_of_layers(3)
    steps += layer("net.other", source, params=13)
    assert runs_of(model_of(*steps)) == (Run(0, 1, 3),)


def test_a_block_with_another_operation_splits_a_run():
    steps, source = chain_of_layers(2)
    steps += layer("net.odd", source, ("linear", "tanh"))
    more, last = [], steps[-1].id
    for number in (3, 4):
        more += layer(f"net.layer{number}", last)
        last = more[-1].id
    assert runs_of(model_of(*steps, *more)) == (Run(0, 1, 2), Run(3, 1, 2))


def test_a_block_with_other_settings_inside_ends_a_run():
    steps, source = chain_of_layers(2)
    odd = layer("net.odd", source)
    odd[1] = replace(odd[1], settings={"p": 0.5})
    assert runs_of(model_of(*steps, *odd)) == (Run(0, 1, 2),)


def test_a_blocks_own_number_does_not_keep_it_apart():
    steps, _ = chain_of_layers(3)
    steps = [replace(one, settings={"layer_idx": one.path[9]}) if one.op == "layer" else one for one in steps]
    assert runs_of(model_of(*steps)) == (Run(0, 1, 3),)


def test_two_blocks_that_take_turns_are_one_run_of_two():
    steps, source = [], ""
    for number in range(3):
        for name, ops in (("a", ("linear", "tanh")), ("b", ("conv2d", "relu"))):
            steps += layer(f"net.{name}{number}", source, ops)
            source = steps[-1].id
    assert names_of(model_of(*steps)) == [(["net.a0", "net.b0"], 3)]


def test_alike_blocks_that_are_read_differently_stay_apart():
    query, key, value = (layer(f"net.{name}", "") for name in ("query", "key", "value"))
    scores = call("net.scores", "matmul", [query[-1].id, key[-1].id], parent="net#0")
    mixed = call("net.mixed", "matmul", [scores.id, value[-1].id], parent="net#0")
    assert runs_of(model_of(*query, *key, *value, scores, mixed)) == ()


def test_branches_that_are_joined_at_one_place_are_a_run():
    branches = [layer(f"net.branch{number}", "") for number in range(3)]
    join = call("net.cat", "cat", [one[-1].id for one in branches], parent="net#0")
    assert runs_of(model_of(*(step for one in branches for step in one), join)) == (Run(0, 1, 3),)


def test_layers_whose_outputs_skip_to_different_places_stay_apart():
    steps, source = chain_of_layers(2)
    first, second = steps[2].id, steps[5].id
    up = call("net.up", "add", [source, second], parent="net#0")
    top = call("net.top", "add", [up.id, first], parent="net#0")
    assert runs_of(model_of(*steps, up, top)) == ()


def test_layers_whose_outputs_are_all_stacked_at_the_end_are_a_run():
    steps, _ = chain_of_layers(3)
    made = [steps[place].id for place in (2, 5, 8)]
    assert runs_of(model_of(*steps, call("net.stack", "stack", made, parent="net#0"))) == (Run(0, 1, 3),)


def test_a_layer_that_reads_another_one_than_its_neighbour_ends_a_run():
    steps, source = chain_of_layers(3)
    odd = layer("net.odd", steps[2].id)
    join = call("net.join", "add", [source, odd[-1].id], parent="net#0")
    assert Run(0, 1, 4) not in runs_of(model_of(*steps, *odd, join))


def test_a_block_called_again_and_again_is_a_run():
    steps, source = [], ""
    for number in range(4):
        steps.append(call("net.cell", "cell", [source], parent="net#0", number=number, module="Cell"))
        steps.append(call("net.cell.step", "tanh", [source], parent=f"net.cell#{number}", number=number))
        source = steps[-1].id
    assert runs_of(model_of(*steps)) == (Run(0, 1, 4),)


def test_three_equal_operations_in_a_row_are_not_worth_folding():
    assert runs_of(model_of(*flat_chain(3, ["relu"]))) == ()


def test_a_flat_loop_is_found_without_any_block():
    ops = ["linear", "relu", "linear", "add", "view"]
    assert runs_of(model_of(*flat_chain(500, ops))) == (Run(0, 5, 100),)


def test_the_longer_fold_wins():
    ops = ["relu"] * 6 + ["add"]
    assert runs_of(model_of(*flat_chain(70, ops))) == (Run(0, 7, 10),)


def test_sizes_do_not_matter_to_kin():
    steps, source = [], ""
    for number in range(5):
        steps += layer(f"net.layer{number}", source, shape=(2, 7 + number))
        source = steps[-1].id
    tree = grow_tree(model_of(*steps))
    assert find_repeats(tree, tree.inside[0], portray_steps(tree)) == ()
    assert find_repeats(tree, tree.inside[0], portray_steps(tree, loosely=True)) == (Run(0, 1, 5),)


@pytest.mark.parametrize(("names", "count"), [("ab", 0), (("past.0", "past.1"), 2)])
def test_blocks_that_read_other_arguments_of_the_model_are_not_alike(names, count):
    steps = []
    for number, name in enumerate(names):
        first, *others = layer(f"net.layer{number}", "")
        inside = replace(others[0], inputs=(replace(others[0].inputs[0], argument=name),))
        steps += [first, inside, *others[1:]]
    join = call("net.cat", "cat", [steps[2].id, steps[5].id], parent="net#0")
    assert runs_of(model_of(*steps, join)) == ((Run(0, 1, count),) if count else ())


@pytest.mark.slow
def test_twelve_thousand_steps_take_a_few_calls_each():
    steps, _ = chain_of_layers(126, ops=("linear", "relu", "add", "view", "mul") * 19)
    one_pass = model_of(*steps)
    assert runs_of(one_pass) == (Run(0, 1, 126),)
    assert count_calls(lambda: runs_of(one_pass)) < 30 * len(steps)


def test_which_slice_is_taken_does_not_keep_experts_apart():
    gate = call("net.gate", "softmax", [""], parent="net#0")
    steps, total = [gate], call("net.zeros", "zeros", [""], parent="net#0")
    steps.append(total)
    for number in range(4):
        share = call("net.index", "index", [gate.id], parent="net#0", number=number)
        expert = layer(f"net.expert{number}", "")
        weighed = call("net.mul", "mul", [share.id, expert[-1].id], parent="net#0", number=number)
        total = call("net.add", "add", [total.id, weighed.id], parent="net#0", number=number)
        steps += [replace(share, settings={"index": f"..., {number}"}), *expert, weighed, total]
    assert runs_of(model_of(*steps)) == (Run(2, 4, 4),)
