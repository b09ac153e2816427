"""The sizes of a tower in the title: those of all its attentions, be it that they look at another tower."""

from dataclasses import replace

from story.sentences.makers import FALSE, make_anatomy

from xray.story.anatomy.attentions import DeformableAttention
from xray.story.anatomy.branches import Convolution, Experts
from xray.story.cards.title import list_sizes
from xray.story.cards.told import Scored


def sizes_of(*branches):
    (tower,) = make_anatomy(*branches).towers
    return {name: value for name, _, value in list_sizes(tower, Scored())}


def test_heads_of_a_cross_attention_count_in_the_title_too():
    found = sizes_of(replace(FALSE, heads=3, d_k=7), replace(FALSE, source="encoder", heads=5, d_k=11))

    assert (found["heads"], found["d_k"]) == ("3 or 5", "7 or 11")


def test_of_more_than_two_sizes_the_range_is_told():
    found = sizes_of(*(replace(FALSE, heads=heads, source=str(heads)) for heads in (3, 5, 9)))

    assert found["heads"] == "3–9"


def test_layers_of_convolutions_alone_are_called_residual():
    assert sizes_of(Convolution((3, 3), 1))["residual layers"] == "2"
    assert sizes_of(Convolution((3, 3), 1), FALSE)["layers"] == "2"


def test_the_width_of_convolutions_alone_is_a_number_of_channels():
    alone, mixed = sizes_of(Convolution((3, 3), 1)), sizes_of(Convolution((3, 3), 1), FALSE)

    assert ("channels" in alone, "d_model" in alone) == (True, False)
    assert ("channels" in mixed, "d_model" in mixed) == (False, True)


def test_a_tower_that_only_looks_at_another_has_heads():
    found = sizes_of(replace(FALSE, source="encoder", heads=5, d_k=11))

    assert (found["heads"], found["d_k"]) == ("5", "11")


def test_heads_without_keys_are_heads_too_and_have_a_width():
    deformable = DeformableAttention("self", heads=5, d_v=13, levels=1, points=2)

    found = sizes_of(replace(FALSE, heads=3, d_k=7, d_v=7), deformable)
    assert (found["heads"], found["d_k"], found["d_v"]) == ("3 or 5", "7", "7 or 13")

    found = sizes_of(deformable)
    assert (found["heads"], found["d_v"], "d_k" in found) == ("5", "13", False)


def test_values_as_wide_as_keys_have_no_line_of_their_own():
    assert "d_v" not in sizes_of(FALSE)
    assert "d_v" not in sizes_of(FALSE, DeformableAttention("self", heads=5, d_v=FALSE.d_k, levels=1, points=2))


def test_experts_that_every_place_goes_through_may_be_wider():
    chosen = Experts(5, 2, 1, 17, "relu", gated=False, shared_d_ff=23)

    assert sizes_of(FALSE, chosen)["d_ff"] == "17 or 23"
    assert sizes_of(FALSE, replace(chosen, shared=0, shared_d_ff=None))["d_ff"] == "17"
    assert "d_ff" not in sizes_of(FALSE, replace(chosen, shared_d_ff=None))
