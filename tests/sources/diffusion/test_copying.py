"""A small copy of a model of diffusers."""

from torch import nn

from xray.sources.diffusion.copying import copy_small


class Layered(nn.Module):
    def __init__(self, num_layers=7, num_single_layers=1, width=9, kinds=()):
        super().__init__()
        self.kinds = kinds
        self.width, self.count = width, num_layers + num_single_layers

    @classmethod
    def from_config(cls, settings):
        return cls(**settings)


def test_a_copy_has_fewer_layers_and_says_so():
    small = copy_small(Layered, {"width": 5})

    assert small.make().count == 3
    assert small.make().width == 5
    assert small.cuts == ("num_layers 2 of 7",)


def test_a_model_with_few_layers_has_no_copy():
    assert copy_small(Layered, {"num_layers": 2}) is None


def test_a_list_with_an_entry_for_each_layer_is_as_short():
    assert copy_small(Layered, {"kinds": list(range(8))}).make().kinds == [0, 1, 2]
