"""Where something holds of attentions is named if these have one name, and no other has it."""

from dataclasses import replace

import pytest
from story.sentences.makers import FALSE, make_anatomy, make_tower

from xray.story.anatomy.branches import Unknown
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.where import tell_where

YES = replace(FALSE, qk_norm=True)
ACROSS, YES_ACROSS = replace(FALSE, source="encoder"), replace(YES, source="encoder")
BESIDE = replace(FALSE, beside="image")
UNKNOWN = Unknown(("mixer",))


def where(**towers):
    found = [replace(make_tower(*branches), name=name) for name, branches in towers.items()]
    return tell_where(replace(make_anatomy(FALSE), towers=tuple(found)), lambda branch: branch.qk_norm)


@pytest.mark.parametrize(
    ("towers", "told"),
    [
        ({"text": (FALSE,)}, None),
        ({"text": (YES,)}, ""),
        ({"text": (YES, FALSE)}, " in some attentions"),
        ({"decoder": (YES, ACROSS)}, " in self-attention"),
        ({"decoder": (FALSE, YES_ACROSS)}, " in cross-attention"),
        ({"decoder": (FALSE, YES, YES_ACROSS)}, " in some attentions"),
        ({"decoder": (YES, BESIDE)}, " in some attentions"),
        ({"encoder": (YES,), "decoder": (YES, ACROSS)}, " in self-attention"),
        ({"encoder": (YES,), "decoder": (FALSE, ACROSS)}, " in the encoder"),
        ({"encoder": (FALSE,), "decoder": (YES, YES_ACROSS)}, " in the decoder"),
        ({"encoder": (FALSE,), "decoder": (YES, ACROSS)}, " in the decoder's self-attention"),
        ({"encoder": (FALSE,), "decoder": (YES, FALSE, ACROSS)}, " in some attentions"),
        ({"vision": (YES,), "text": (FALSE,)}, " in the vision tower"),
        ({"vision": (YES,), "audio": (YES,), "text": (FALSE,)}, " in some attentions"),
        ({"encoder 2": (YES, ACROSS), "encoder": (FALSE,)}, " in encoder 2's self-attention"),
        ({"text": (YES, ACROSS), "vision": (FALSE,)}, " in the text tower's self-attention"),
    ],
)
def test_where_it_holds_is_named(towers, told):
    assert where(**towers) == told


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        (((YES,), (UNKNOWN,)), " in some attentions"),
        (((YES, ACROSS), (UNKNOWN,)), " in some attentions"),
        (((YES, UNKNOWN),), ""),
        (((FALSE,), (UNKNOWN,)), None),
    ],
)
def test_nothing_holds_of_all_attentions_where_layers_look_in_a_way_that_is_not_known(layers, told):
    groups = [make_tower(*branches).groups[0] for branches in layers]
    tower = replace(make_tower(YES), groups=tuple(groups))

    assert tell_where(replace(make_anatomy(FALSE), towers=(tower,)), lambda branch: branch.qk_norm) == told


def test_attention_does_not_run_in_one_kernel_where_what_else_runs_is_not_known():
    fused = replace(FALSE, kernel="efficient")
    groups = (make_tower(fused).groups[0], make_tower(UNKNOWN).groups[0])
    said = list_sentences(replace(make_anatomy(FALSE), towers=(replace(make_tower(fused), groups=groups),)))

    assert any(text.startswith("Some attentions run in one kernel: ") for text in said)


@pytest.mark.parametrize(("other", "told"), [("none", "in the encoder"), (None, "in some attentions at least")])
def test_where_places_are_known_so_is_not_named_if_it_may_be_so_elsewhere(other, told):
    knowing, look = (replace(FALSE, positions=positions) for positions in ("relative", other))
    towers = [replace(make_tower(one), name=name) for one, name in ((knowing, "encoder"), (look, "decoder"))]
    said = list_sentences(replace(make_anatomy(FALSE), towers=tuple(towers)))

    assert any(text.startswith(f"Relative places {told}: ") for text in said)
