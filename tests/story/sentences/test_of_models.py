"""What is said of a model whose layers differ: what one of them does stands not for all."""

from dataclasses import replace

from story.sentences.pools import FALSE, make_anatomy

from xray.story.sentences.of_models import describe_chosen_keys


def test_keys_that_some_attentions_choose_are_chosen_in_some():
    chosen = replace(FALSE, chosen_keys=True)

    assert describe_chosen_keys(make_anatomy(chosen)).startswith("Keys are chosen: ")
    assert describe_chosen_keys(make_anatomy(chosen, FALSE)).startswith("Keys are chosen in some attentions: ")
    assert describe_chosen_keys(make_anatomy(FALSE)) == ""
