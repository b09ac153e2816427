"""What a forward cannot do without is made for it, though its signature asks for less; a family's class is found."""

from types import SimpleNamespace

import torch
from torch import nn

from xray.sources.family_inputs import propose_inputs
from xray.sources.library import find_class
from xray.sources.sizes import Wishes

SETTINGS = SimpleNamespace(image_size=16, patch_size=4, num_channels=3, num_frames=5, spatial_merge_size=2)


class HeardAndSeen(nn.Module):
    """Sounds and films together, neither of which its signature asks for (PE's encoder of both)."""

    main_input_name = "input_values"

    def forward(self, input_values=None, pixel_values_videos=None):
        return input_values.mean() + pixel_values_videos.mean()


class OfPieces(nn.Module):
    """Square pieces of images, one for each row that goes out, their channels last (Inkling 2)."""

    def forward(self, pixel_values, image_grid_thw):
        patches = pixel_values.reshape(-1, 2, 4, 2, 4, pixel_values.shape[-1]).transpose(2, 3)
        return patches.reshape(4 * int(image_grid_thw.prod(-1).sum()), 48)


def run_first(model):
    for made in propose_inputs(model, SETTINGS, Wishes(), has_storage=True):
        try:
            model(**made.values)
        except Exception:
            continue
        return {name: tuple(one.shape) for name, one in made.values.items()}
    return None


def test_films_are_made_for_a_forward_that_takes_no_images():
    found = run_first(HeardAndSeen())

    assert found is not None
    assert found["pixel_values_videos"] == (2, 5, 3, 16, 16)


def test_images_may_come_as_square_pieces_with_their_channels_last():
    found = run_first(OfPieces())

    assert found == {"pixel_values": (32, 8, 8, 3), "image_grid_thw": (2, 3)}


class Mapping(dict):
    """A map of settings to classes that lost the family's own, as its settings are listed under a second name."""

    @property
    def _model_mapping(self):
        return {"evolla": "EvollaModel"}

    def _load_attr_from_module(self, family, name):
        return f"{family}.{name}"


def test_a_class_is_found_by_its_family_where_the_library_lost_its_settings():
    settings = SimpleNamespace(model_type="evolla")

    assert find_class(Mapping(), settings) == "evolla.EvollaModel"
    assert find_class(Mapping({SimpleNamespace: torch.nn.Linear}), settings) is torch.nn.Linear
    assert find_class(Mapping(), SimpleNamespace(model_type="bert")) is None
