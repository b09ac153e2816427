"""Which parts of a model took no part in what was recorded: modules with parameters that no step worked with."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from xray.capture.calls import Counted, OpenCall


def list_unused(
    parts: Sequence[Counted], calls: Sequence[OpenCall], kept: Collection[int], *, exact: bool
) -> Mapping[str, int] | None:
    """The outermost modules, by their paths, and single parameters that took no part, each with how many it holds.

    `parts` are the modules, each after the one that holds it; `kept` are the identities of the tensors that the model
    keeps beside its parameters. Without `exact`, parameters may run in another form than the one they are kept in: then
    what a module that ran holds itself counts as used. None where nothing ran, where the model did not come to its end,
    and where something was worked out unseen in a module with parameters that nobody was seen to read.
    """
    if not calls or any(call.parent is None and call.error is not None for call in calls):
        return None
    used = {id(known.tensor()) for call in calls for _, known, _ in call.inputs}
    ran = {id(call.params) for call in calls if isinstance(call.params, Counted)}
    hazy = set(list_hazy(calls, kept, {identity for part in parts for identity, _ in part.own}))
    outer = set(list_outer(parts))
    used.update(
        identity for part in parts if id(part) in ran and not (exact and id(part) in outer) for identity, _ in part.own
    )
    if any(identity not in used for part in list_inside(parts, ran, hazy) for identity, _ in part.own):
        return None
    return dict(list_outermost(parts, used))


def list_inside(parts: Sequence[Counted], ran: Collection[int], hazy: Collection[int]) -> Iterator[Counted]:
    """The modules that are hazy, or did not run and stand in one that is."""
    for part in parts:
        nearest: Counted | None = part
        while nearest is not None and id(nearest) not in ran:
            nearest = nearest.above
        if nearest is not None and id(nearest) in hazy:
            yield part


def list_hazy(calls: Sequence[OpenCall], kept: Collection[int], own: Collection[int]) -> Iterator[int]:
    """The modules in which something was worked out unseen: nobody knows what parameters that needed.

    There a tensor comes from nowhere, or a parameter is read that is none of the model's `own`, put in its place.
    """
    given = {id(known) for call in calls if call.parent is None for _, known, _ in call.inputs}
    for call in calls:
        if isinstance(call.params, Counted) and any(known.maker == call.serial for _, known, _ in call.outputs):
            yield id(call.params)
        for _, known, _ in call.inputs if call.parent is not None else ():
            if known.maker is not None or id(known) in given or known.role not in ("activation", "parameter"):
                continue
            tensor = known.tensor()
            if tensor is None or id(tensor) not in (kept if known.role == "activation" else own):
                block: OpenCall | None = call.parent
                while block is not None and not isinstance(block.params, Counted):
                    block = block.parent
                if block is not None:
                    yield id(block.params)


def list_outer(parts: Sequence[Counted]) -> Iterator[int]:
    """The modules that hold others with parameters: what they themselves hold is read by steps that are seen."""
    seen = set[int]()
    for part in parts:
        above = part.above if part.own else None
        while above is not None and id(above) not in seen:
            seen.add(id(above))
            yield id(above)
            above = above.above


def list_outermost(parts: Sequence[Counted], used: Collection[int]) -> Iterator[tuple[str, int]]:
    """What is unused as a whole by its path, and the single parameters of other modules by their names."""
    held, idle = dict.fromkeys(map(id, parts), 0), dict.fromkeys(map(id, parts), 0)
    for part in reversed(parts):
        held[id(part)] += sum(size > 0 for _, size in part.own)
        idle[id(part)] += sum(size > 0 and identity not in used for identity, size in part.own)
        if part.above is not None:
            held[id(part.above)] += held[id(part)]
            idle[id(part.above)] += idle[id(part)]
    told: dict[int, str] = {}
    counts: dict[str, int] = {}
    seen = set[int]()
    for part in parts:
        is_whole = 0 < held[id(part)] == idle[id(part)]
        path = told.get(id(part.above)) or (part.path if is_whole else None)
        if path is not None:
            told[id(part)] = path
        for name, (identity, size) in zip(part.names, part.own, strict=True):
            if identity not in used and identity not in seen and size:
                seen.add(identity)
                whole = path or (name if part is parts[0] else f"{part.path}.{name}")
                counts[whole] = counts.get(whole, 0) + size
    yield from counts.items()
