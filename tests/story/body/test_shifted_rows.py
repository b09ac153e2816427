"""A stream to whose rows another tower's mean is added: that tower's rows are none of its own."""

import torch
from story.body.test_former_rows import PLACES, Led, list_panels

import xray
from xray.story.sentences.of_parts import LED_IN


class Shifted(Led):
    """Words led to layers of others, to each row of which their mean is added first (MotionDiffuse)."""

    def forward(self, ids, others):
        x, y = self.words(ids), self.others(others)
        for layer in self.before:
            x = layer(x)
        led = self.last(x)
        for part in self.assigning:
            y = part(y + led.mean(1, keepdim=True), led)
        return y


def test_rows_that_shift_the_stream_are_no_former_ones():
    trace = xray.trace(Shifted().eval(), torch.arange(22).view(2, PLACES), torch.arange(14).view(2, 7))

    nodes = [node for chart in list_panels(trace) for node in chart.nodes]
    assert any(node.label.startswith("1 AT") for node in nodes)
    assert not any(LED_IN in node.told for node in nodes)
