"""What makes a signal of a head's numbers: the way back from frequencies, and pieces laid over each other."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow

INVERSES = frozenset({"fft_ifft", "fft_irfft", "fft_ifftn", "fft_irfftn", "fft_ifft2", "fft_irfft2", "istft"})
"""What brings numbers back from frequencies."""


def list_waves(flow: Flow, top: int, others: Collection[int]) -> list[tuple[str, tuple[int, ...]]]:
    """What a tower's last step goes through back to a signal: what each part is called, and its steps, the last first.

    Only where all goes through one way back from frequencies, in which nothing is learned, and nothing else is read
    that data made.
    """
    ahead = set(flow.ahead(top, within=lambda one: one not in others)) - {top}
    inverses = [node for node in ahead if flow.op(node) in INVERSES]
    if len(inverses) != 1 or any(flow.steps[node].params for node in ahead):
        return []
    back = inverses[0]
    before = collect(flow, top, back)
    behind = set(flow.ahead(back)) - {back}
    if before is None or {top, back} | before | behind < {top} | ahead:
        return []
    found = [("INVERSE FOURIER TRANSFORM", (back, *sorted(before, reverse=True)))]
    folds = [node for node in behind if flow.op(node) == "fold"]
    last = max(behind, default=back)
    laid = collect(flow, back, last) if len(folds) == 1 else None
    if laid is not None and {last, *laid} >= {node for node in behind if flow.is_leaf(node)}:
        found.append(("PIECES LAID OVER EACH OTHER", (last, *sorted(laid, reverse=True))))
    return found


def collect(flow: Flow, start: int, end: int) -> set[int] | None:
    """The steps between two, with those that no data leads to; None where data comes in from elsewhere."""
    inner = {node for node in flow.behind(end, within=lambda one: one > start) if flow.is_leaf(node)} - {end}
    return inner if all(is_of(flow, node, {start, *inner}) for node in (*inner, end)) else None


def is_of(flow: Flow, node: int, known: Collection[int]) -> bool:
    """Whether a step reads steps that are known alone, or what no step made."""
    return all(maker is None or maker in known for maker in flow.makers[node])
