"""Words that are looked up once more behind the layers, and laid beside what these gave, for several heads."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, VOCAB = 12, 31


class Guesses(nn.Module):
    """Layers, and heads each of which reads their rows beside those of one more word before (Hydra)."""

    def __init__(self):
        super().__init__()
        self.words, self.layers = (
            nn.Embedding(VOCAB, WIDTH),
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="after") for _ in range(3)),
        )
        self.made = nn.ModuleList(nn.Linear(times * WIDTH, WIDTH) for times in (2, 3))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, VOCAB) for _ in range(2))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        rows, guesses = [x], []
        words = self.words(ids)
        for number, (made, head) in enumerate(zip(self.made, self.heads, strict=True)):
            rows.append(words.roll(number + 1, 1))
            guesses.append(head(made(torch.cat(rows, -1)).relu()))
        return torch.stack(guesses)


def test_the_layers_lead_to_what_reads_them_and_not_to_what_looks_words_up():
    (column,) = read_columns(xray.trace(Guesses().eval(), torch.randint(VOCAB, (2, 5))))

    chart = column.exit
    labels = {node.key: node.label for node in chart.nodes}
    led = {labels[edge.target] for edge in chart.edges if labels[edge.source] == "TOKEN IDS"}
    assert led == {"TABLE LOOKUP"}
    assert [labels[key].split()[0] for key in chart.feet] == ["SIDE", "SIDE"]
