"""A state that goes from place to place, and how each place reads it."""

import torch
from story.charts.test_operations_chart import chart_of, rows
from torch import nn

WIDTH, HELD = 8, 5


class Scan(nn.Module):
    """Each place fades a state, adds to it, and reads it by a product of its own (Mamba)."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.keep, self.write, self.read = nn.Linear(WIDTH, HELD), nn.Linear(WIDTH, HELD), nn.Linear(WIDTH, HELD)

    def forward(self, x):
        given = self.first(x)
        keep, write, read = self.keep(given).sigmoid(), self.write(given), self.read(given)
        state, found = torch.zeros(x.shape[0], WIDTH, HELD), []
        for place in range(x.shape[1]):
            state = keep[:, place, None, :] * state + write[:, place, None, :] * given[:, place, :, None]
            found.append(torch.matmul(state, read[:, place, :, None])[:, :, 0])
        return self.last(torch.stack(found, dim=1))


def test_what_each_place_reads_off_a_state_is_one_box_between_it_and_the_rows():
    chart = chart_of(Scan(), rows(WIDTH))
    labels = {node.key: node.label for node in chart.nodes}
    ways = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}

    state = "STATE, HANDED FROM PLACE TO PLACE"
    (product,) = (node for node in chart.nodes if node.label == "PRODUCT, AT EACH PLACE")
    assert [target for source, target in ways if source == state] == [product.label]
    assert {target for source, target in ways if source == product.label} <= {"STACKED", "LINEAR"}
    assert len([step for step in product.steps if step.op == "matmul"]) == rows(WIDTH).shape[1]
