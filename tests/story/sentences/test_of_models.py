"""What is said of a model whose layers differ: what one of them does stands not for all."""

from dataclasses import replace

import pytest
from story.sentences.pools import FALSE, make_anatomy

from xray.story.sentences.of_models import describe_chosen_keys
from xray.story.sentences.of_norms import describe_inner_norm


def test_keys_that_some_attentions_choose_are_chosen_in_some():
    chosen = replace(FALSE, chosen_keys=True)

    assert describe_chosen_keys(make_anatomy(chosen)).startswith("Keys are chosen: ")
    assert describe_chosen_keys(make_anatomy(chosen, FALSE)).startswith("Keys are chosen in some attentions: ")
    assert describe_chosen_keys(make_anatomy(FALSE)) == ""


@pytest.mark.parametrize(("norms", "where"), [(("rms", "rms"), "attention"), (("rms", None), "some attentions")])
def test_inner_norms_are_said_of_all_attentions_only_where_each_has_one(norms, where):
    anatomy = make_anatomy(*(replace(FALSE, inner_norm=norm) for norm in norms))

    assert describe_inner_norm(anatomy).startswith(f"Inner norms: in {where}, rows")
