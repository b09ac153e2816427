"""A mask that flex attention runs through by blocks is drawn and told by them."""

from xray.ir.records import MaskBlocks, MaskFacts
from xray.story.cards.mask_pictures import MaskCard
from xray.story.facts.masks import describe_blocks, draws_blocks, quarter_blocks
from xray.story.shapes import ShapeText

BLOCKS = MaskBlocks(64, 128, (("/x", "./"),))


def card(blocks):
    facts = MaskFacts("causal", 0.45, blocks=blocks)
    return MaskCard("m", "MASK", ShapeText(("128", "256"), ("", "")), facts, "", ())


def test_each_block_is_four_cells():
    assert ["".join(row) for row in quarter_blocks(BLOCKS)] == [".xxx", "x.xx", "...x", "..x."]


def test_the_caption_tells_the_size_of_a_block_and_how_many_there_are_of_each_kind():
    assert describe_blocks(BLOCKS) == "2×2 blocks of 64×128: 1 full, 2 partial, 1 skipped"
    assert card(BLOCKS).remark == f"hides the future: 45% of its cells; {describe_blocks(BLOCKS)}"
    assert card(BLOCKS).rows == quarter_blocks(BLOCKS)


def test_one_block_alone_is_not_drawn():
    assert not draws_blocks(MaskFacts("causal", 0.5, blocks=MaskBlocks(128, 128, (("/",),))))
