from dataclasses import replace

from small_traces import layer_steps, record, small_training_pass, src_mask, step

from xray.ir.records import MaskFacts
from xray.ir.trace import Pass
from xray.story.facts.folding import Fold, fold_layers, layer_of, steps_shown


def encoder_pass(*layers):
    return Pass("encode", 0, {}, (step("encoder", "encoder"), *(each for layer in layers for each in layer)))


def change(steps, path_end, **changes):
    return [replace(each, **changes) if each.path.endswith(path_end) else each for each in steps]


def encoder_layers(count=3):
    return [layer_steps("encoder", number, src_mask()) for number in range(count)]


def test_alike_layers_fold_into_one():
    assert fold_layers(encoder_pass(*encoder_layers(3))) == (Fold("encoder.layers", (0, 1, 2)),)


def test_layers_of_two_kinds_that_take_turns_are_two_groups():
    layers = [
        change(one, "self_attention_add", op="mul" if odd % 2 else "add") for odd, one in enumerate(encoder_layers(6))
    ]

    assert [fold.layers for fold in fold_layers(encoder_pass(*layers))] == [(0, 2, 4), (1, 3, 5)]


def test_what_ran_between_layers_parts_those_before_from_those_behind():
    first, second, third, last = encoder_layers(4)
    between = [step("encoder.pool", "pool")]

    folds = fold_layers(encoder_pass(first, second, between, third, last))
    assert [fold.layers for fold in folds] == [(0, 1), (2, 3)]


def test_encoder_and_decoder_fold_apart():
    folds = fold_layers(small_training_pass())

    assert folds == (Fold("encoder.layers", (0, 1)), Fold("decoder.layers", (0, 1)))


def test_a_layer_with_another_operation_stands_alone():
    first, second, third = encoder_layers()
    second = change(second, "self_attention_add", op="mul")

    folds = fold_layers(encoder_pass(first, second, third))

    assert [fold.layers for fold in folds] == [(0, 2), (1,)]


def test_a_layer_with_another_shape_stands_alone():
    first, second, third = encoder_layers()
    third = change(third, "expand", outputs=(record("out", "batch src_len d_ff", d_ff=29),))

    assert [fold.layers for fold in fold_layers(encoder_pass(first, second, third))] == [(0, 1), (2,)]


def test_a_layer_with_other_axis_words_stands_alone():
    first, second, third = encoder_layers()
    third = change(third, "expand", outputs=(record("out", "batch tgt_len d_ff", tgt_len=5),))

    assert [fold.layers for fold in fold_layers(encoder_pass(first, second, third))] == [(0, 1), (2,)]


def test_a_layer_with_another_mask_stands_alone():
    other = src_mask((("...pp",), (".....",)))
    layers = [layer_steps("encoder", 0, src_mask()), layer_steps("encoder", 1, other)]

    assert [fold.layers for fold in fold_layers(encoder_pass(*layers))] == [(0,), (1,)]


def test_a_layer_with_other_settings_stands_alone():
    first, second, third = encoder_layers()
    second = change(second, "expand", settings={"p": 0.5})

    assert [fold.layers for fold in fold_layers(encoder_pass(first, second, third))] == [(0, 2), (1,)]


def test_layers_with_something_between_them_do_not_fold():
    first, second = encoder_layers(2)

    assert len(fold_layers(encoder_pass(first, [step("encoder.pool", "pool")], second))) == 2


def test_a_layer_that_ran_twice_does_not_fold():
    first, second = encoder_layers(2)
    again = [replace(each, id=each.path + "#1", call=1) for each in layer_steps("encoder", 0, src_mask())]

    assert [fold.layers for fold in fold_layers(encoder_pass(first, second, again))] == [(0,), (1,)]


def test_values_do_not_keep_layers_apart():
    first, second = encoder_layers(2)
    second = change(second, "scores", location="other.py:7")

    assert [fold.count for fold in fold_layers(encoder_pass(first, second))] == [2]


def test_a_pass_without_layers_has_no_folds():
    assert fold_layers(Pass("forward", 0, {}, (step("net", "net"),))) == ()


def test_only_the_first_of_alike_layers_is_shown():
    shown = steps_shown(small_training_pass())

    assert {place for place in map(layer_of, shown) if place} == {("encoder.layers", 0), ("decoder.layers", 0)}


def test_steps_outside_of_layers_are_all_shown():
    one_pass = small_training_pass()

    outside = [each for each in one_pass.steps if layer_of(each) is None]

    assert [each for each in steps_shown(one_pass) if layer_of(each) is None] == outside


def test_the_outermost_number_names_the_layer():
    assert layer_of(step("net.blocks.3.mlp.0", "linear")) == ("net.blocks", 3)


def test_mask_facts_with_other_shares_keep_layers_apart():
    masks = [replace(src_mask(), mask=MaskFacts("padding", share)) for share in (0.25, 0.5)]
    layers = [layer_steps("encoder", number, mask) for number, mask in enumerate(masks)]

    assert [fold.count for fold in fold_layers(encoder_pass(*layers))] == [1, 1]
