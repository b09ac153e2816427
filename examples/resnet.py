"""A small residual network: no transformer at all. See inside it: xray trace examples/resnet.py:build -o resnet.svg"""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions beside a way that skips them, halved in size and widened where `stride` is 2."""

    def __init__(self, narrow: int, wide: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(narrow, wide, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(wide)
        self.second = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(wide)
        fits = narrow == wide and stride == 1
        self.skip = nn.Identity() if fits else nn.Conv2d(narrow, wide, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.skip(x))


class ResNet(nn.Module):
    """Pictures in, a score for each class out."""

    def __init__(self, width: int = 16, depth: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(width)
        self.stages = nn.ModuleList()
        narrow = width
        for stage in range(3):
            wide = width * 2**stage
            blocks = [Block(narrow if n == 0 else wide, wide, 2 if n == 0 and stage else 1) for n in range(depth)]
            self.stages.append(nn.Sequential(*blocks))
            narrow = wide
        self.classify = nn.Linear(narrow, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.stem_norm(self.stem(x)))
        for stage in self.stages:
            x = stage(x)
        return self.classify(x.mean(dim=(2, 3)))


def build() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model, and two pictures of 32 by 32."""
    torch.manual_seed(0)
    return ResNet().eval(), (torch.randn(2, 3, 32, 32),)
