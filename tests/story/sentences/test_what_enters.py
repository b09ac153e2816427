"""What is said of pictures that go in: each patch becomes a vector, be it one of several pictures of a video."""

from dataclasses import replace

import pytest
from story.sentences.pools import TOWERS

from xray.story.anatomy.tree import EntrancePart
from xray.story.sentences.of_ends import describe_entrance


@pytest.mark.parametrize(
    ("reads", "kernel", "told"),
    [
        ("image", (7, 7), "An image becomes vectors, one for each patch."),
        ("image", (2, 7, 7), "An image becomes vectors, one for each patch."),  # repeated in time (Qwen2-VL)
        ("video", (7, 7), "The pictures of a video become vectors, one for each patch."),
        ("video", (1, 7, 7), "The pictures of a video become vectors, one for each patch."),
        ("video", (2, 7, 7), "The pictures of a video become vectors, one for each patch of 2 pictures."),
    ],
)
def test_patches_of_several_pictures_are_told_of_a_video_alone(reads, kernel, told):
    tower = replace(TOWERS["image"], reads=reads, entrance=(EntrancePart("patches", 35, kernel=kernel),))

    assert describe_entrance(tower) == told
