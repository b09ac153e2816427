"""What is said of experts and gates, where not all layers have as many."""

from dataclasses import replace

from story.sentences.makers import EXPERTS, FALSE, GATED, PLAIN, ROUTING, make_anatomy

from xray.story.anatomy.tree import Anatomy
from xray.story.sentences.of_feed_forwards import describe_experts, describe_gate, describe_routing


def with_others(*others: object) -> Anatomy:
    """A network with experts in one sublayer, and others in the next ones."""
    return make_anatomy(FALSE, replace(EXPERTS, experts=8, chosen=2, shared=0), *others)


def test_one_kind_of_experts_is_told_with_its_numbers() -> None:
    assert describe_experts(with_others()) == "Experts: what chooses them sends each place to 2 of 8."


def test_experts_are_said_of_some_layers_where_others_have_none() -> None:
    alone, dense = with_others(), make_anatomy(FALSE, PLAIN)
    mixed = replace(alone, towers=(*alone.towers, *dense.towers))

    assert describe_experts(with_others(PLAIN)).startswith("Experts: ")
    assert describe_experts(mixed).startswith("Experts in some layers: ")


def test_experts_and_gates_are_said_of_the_one_tower_that_has_them_in_every_layer() -> None:
    own, plain = make_anatomy(FALSE, replace(EXPERTS, chosen=2), GATED).towers[0], make_anatomy(FALSE, PLAIN).towers[0]
    two = make_anatomy(FALSE)
    two = replace(two, towers=(replace(own, name="text"), replace(plain, name="vision")))

    assert describe_experts(two).startswith("Experts in the text tower: ")
    assert describe_gate(two).startswith("Gated feed-forward in the text tower: ")


def test_a_gate_is_said_of_some_layers_only_where_others_have_none() -> None:
    gated, plain = make_anatomy(FALSE, GATED), make_anatomy(FALSE, PLAIN)
    mixed = replace(gated, towers=(*gated.towers, *plain.towers))

    assert describe_gate(gated).startswith("Gated feed-forward: ")
    assert describe_gate(mixed).startswith("Gated feed-forward in some layers: ")
    assert describe_gate(make_anatomy(FALSE, GATED, PLAIN)).startswith(
        "Gated feed-forward, beside one without a gate: "
    )


def test_a_gate_in_each_layer_of_one_tower_is_told_beside_those_without_one_in_some_of_its_layers() -> None:
    gated, both = (make_anatomy(FALSE, *kinds).towers[0] for kinds in ((GATED,), (GATED, PLAIN)))
    plain = make_anatomy(FALSE, PLAIN).towers[0]
    layers = replace(gated, name="decoder", groups=(*gated.groups, *both.groups))
    evolla = replace(make_anatomy(FALSE), towers=(layers, replace(plain, name="encoder")))

    assert describe_gate(evolla).startswith(
        "Gated feed-forward in the decoder, in some layers beside one without a gate: "
    )


def test_pyramids_of_experts_are_told_with_the_least_and_the_most() -> None:
    more = [replace(EXPERTS, experts=count, chosen=2, shared=0) for count in (4, 64)]

    assert describe_experts(with_others(*more)).endswith(" each place to 2 of 4 to 64.")


def test_several_choices_are_told_beside_each_other() -> None:
    other = replace(EXPERTS, experts=256, chosen=8, shared=1)

    told = describe_experts(with_others(other))
    assert (
        " each place to 2 of 8 or 8 of 256, in some layers beside a feed-forward that every place goes through." in told
    )


def test_several_experts_for_all_places_are_counted() -> None:
    told = describe_experts(make_anatomy(FALSE, replace(EXPERTS, experts=8, chosen=2, shared=2)))

    assert told.endswith(" each place to 2 of 8, beside 2 feed-forwards that every place goes through.")


def test_a_second_set_of_experts_is_told_behind_the_first() -> None:
    one = replace(EXPERTS, experts=8, chosen=2, shared=0)
    parted, more = replace(one, others=replace(one, d_ff=7)), replace(one, others=replace(one, experts=5))

    told = describe_experts(make_anatomy(FALSE, parted))
    assert told.endswith(
        " each place to 2 of 8. There are 2 such sets, 140 and 7 wide, each with a router of its own; a place goes"
        " through one set alone."
    )
    for other in (with_others(parted), make_anatomy(FALSE, more)):
        assert describe_experts(other).endswith(" Some places go through others, which a router of their own scores.")


def test_experts_of_which_a_place_may_go_through_none_say_so() -> None:
    told = make_anatomy(FALSE, replace(EXPERTS, experts=8, chosen=None, chosen_or_none=2, shared=0))

    assert describe_experts(told) == (
        "Experts: what chooses them sends each place to 2 of 8, or to none: one score more is for none of them."
    )


def test_what_a_router_chooses_by_is_told_where_some_layers_choose_by_a_table() -> None:
    listed = replace(EXPERTS, chosen_by="table", routing=ROUTING)
    routed = replace(EXPERTS, chosen_by="router", routing=replace(ROUTING, biased=True))
    weights = "Weights of experts: sigmoid of each score, divided by the sum of the chosen"
    choice = "by scores with a bias that counts for the choice alone."

    assert describe_routing(make_anatomy(routed)) == f"{weights}; chosen {choice}"
    assert describe_routing(make_anatomy(listed, routed)) == f"{weights}; where a router chooses, it does so {choice}"
    assert describe_routing(make_anatomy(listed)) == f"{weights}."
