"""Rows that are chosen by their scores, as the queries of a decoder are (RT-DETR)."""

from xray.ir.flow.dataflow import Flow

NEAR_BEHIND = 8


def picks_best(flow: Flow, here: int) -> bool:
    """Whether a step picks the rows that scored best: they begin another stream (RT-DETR)."""
    if flow.op(here) not in ("gather", "index", "index_select"):
        return False
    found = (maker for record, maker in flow.given(here) if not record.is_float)
    return any(flow.op(one) == "topk" for maker in found for one in flow.behind(maker, most=NEAR_BEHIND))
