"""What the card says of the ways between towers, and between layers of one."""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby

from xray.story.anatomy.beside_layers import Boxes
from xray.story.anatomy.tree import Anatomy, Link, Tower
from xray.story.wording import join_words, spell_layers

SHARING = {True: ", with one set of weights", False: ", each time with other weights", None: ""}
"""Parts of an entrance that change rows, and bring none."""
FEWEST_AT_ONCE = 4
"""So many skips of layers that mirror each other are told at once."""
MOST_NUMBERS = 6
"""More numbers of layers than these are shortened in the middle."""


def describe_rows_added(anatomy: Anatomy) -> str:
    return " ".join(
        f"Behind {spell_numbers(tower.rows_added)} of the {tower.name} tower, rows that another tower made are added "
        "to rows of its stream."
        for tower in anatomy.towers
        if tower.rows_added
    )


def describe_tapped(anatomy: Anatomy) -> str:
    """Behind which layers something is handed out beside what a tower ends with; of several towers in one sentence."""
    tapped = [tower for tower in anatomy.towers if tower.tapped]
    whole = [tower for tower in tapped if {*range(tower.layers - 1)} <= {*tower.tapped} and tower.layers > 2]
    told = []
    for is_last, but, too in ((True, "", ""), (False, " before the last", " too")):
        every = [tower.name for tower in whole if (tower.layers - 1 in tower.tapped) == is_last]
        named = "" if len(anatomy.towers) == 1 else f" of the {join_words(every)} tower{'s' * (len(every) > 1)}"
        told += [f"Behind every layer{but}{named} something is handed out{too}."] if every else []
    for tower in tapped:
        if tower not in whole:
            of = f" of the {tower.name} tower" if len(anatomy.towers) > 1 else ""
            before = "" if tower.layers - 1 in tower.tapped else ", before the last layer"
            told.append(f"Behind {spell_numbers(tower.tapped)}{of}, something is handed out too{before}.")
    return " ".join(told)


def describe_added_between(anatomy: Anatomy) -> str:
    added = [(tower.name, [one.before for one in tower.bridges if one.added]) for tower in anatomy.towers]
    return " ".join(
        f"Between layers {', and '.join(f'{number} and {number + 1}' for number in numbers)} of the {name} tower, "
        "something is made of the stream and added to it."
        for name, numbers in added
        if numbers
    )


def describe_spans(anatomy: Anatomy) -> str:
    """Which groups of layers a sum reaches over, and whether more is done before it."""
    told = [(tower.name, spell_spans(tower)) for tower in anatomy.towers if tower.spans]
    if len(anatomy.towers) > 1:
        return " ".join(f"In the {name} tower: {text[0].lower()}{text[1:]} is added." for name, text in told)
    return " ".join(f"{text} is added." for _, text in told)


def spell_spans(tower: Tower) -> str:
    """Behind which of its layers what each began with is added, or behind which groups what the first of each did."""
    sizes = {one.last - one.first + 1 for one in tower.spans}
    every = sizes.pop() if len(sizes) == 1 else 0
    made = ", something is made of what the last gave, and" * all(one.made for one in tower.spans)
    if every == 1:
        several, numbers = len(tower.spans) > 1, spell_layers([one.first for one in tower.spans])
        made = made.replace("the last", "each" if several else "it")
        begun = f"{made or ','} what {'each' if several else 'it'} began with"
        return f"Behind layer{'s' * several} {numbers} of the {tower.name} tower{begun}"
    if every * len(tower.spans) == tower.layers:
        return f"Groups of {every} layers: behind each{made or ','} what the first of them began with"
    groups = ", and ".join(f"{one.first + 1} to {one.last + 1}" for one in tower.spans)
    return f"Behind layers {groups} of the {tower.name} tower{made or ','} what the first of them began with"


def describe_repeated(anatomy: Anatomy) -> str:
    found = [(tower.name, one) for tower in anatomy.towers for one in tower.bridges if one.counted is not None]
    return " ".join(
        f"Between layers {one.before} and {one.before + 1} of the {name} tower each row is repeated as often as "
        f"weights work out of what layer {one.counted + 1} gave."
        for name, one in found
        if one.counted is not None
    )


def describe_put_back(anatomy: Anatomy) -> str:
    """What earlier layers gave or read that is laid beside the stream, and before which layers (a U-Net's skips)."""
    told = []
    for tower in anatomy.towers:
        pairs = [(one.before, one.earlier) for one in tower.bridges if one.earlier is not None]
        if pairs:
            laid = chain(*(spell_laid(list(run)) for _, run in groupby(enumerate(pairs), key=name_mirror)))
            of = f" of the {tower.name} tower" if len(anatomy.towers) > 1 else ""
            told.append(f"What came before is laid beside the stream{of}: {', '.join(laid)}.")
    return " ".join(told)


def describe_renewed(anatomy: Anatomy) -> str:
    """Before which layers other numbers take the place of some of those of rows (FIBO's texts)."""
    told = [
        f"{spell_numbers(tower.renewed)}{f' of the {tower.name} tower' * (len(anatomy.towers) > 1)}"
        for tower in anatomy.towers
        if tower.renewed
    ]
    return f"Before {join_words(told)} other numbers take the place of some of those of rows." if told else ""


def name_mirror(numbered: tuple[int, tuple[int, tuple[int, str]]]) -> tuple[object, ...]:
    """What is one for layers in a row that each read what one came before that of the layer before them."""
    number, (before, (layer, way)) = numbered
    return before - number, before + layer, way


def spell_laid(run: Sequence[tuple[int, tuple[int, tuple[int, str]]]]) -> Iterator[str]:
    """What is laid beside the stream before which layers, where these are many, and mirror each other, at once."""
    (_, (first, (taken, way))), (_, (last, (least, _))) = run[0], run[-1]
    if len(run) < FEWEST_AT_ONCE:
        yield from (f"before layer {before + 1} what {spell_earlier(*earlier)}" for _, (before, earlier) in run)
    else:
        layers = f"layers {taken + 1}–{least + 1}"
        what = f"{layers} gave" if way == "gave" else f"went into {layers}"
        yield f"before layers {first + 1}–{last + 1} what {what}, one each"


def spell_earlier(layer: int, way: str) -> str:
    """What a layer gave, or what it read."""
    return f"layer {layer + 1} gave" if way == "gave" else f"went into layer {layer + 1}"


def describe_boxes(anatomy: Anatomy) -> str:
    told = [(tower, tower.boxes) for tower in anatomy.towers if tower.boxes is not None]
    return " ".join(
        f"Boxes, 4 numbers for each row, are {spell_behind(tower, boxes)} by what it gives"
        f"{SHARING[boxes.shared]}; the next layer reads them.{tell_begun(boxes)}"
        for tower, boxes in told
    )


def tell_begun(boxes: Boxes) -> str:
    """What is corrected from the layer on behind which it begins, and how boxes are made of that."""
    if boxes.begun is None:
        return ""
    again = f" Behind layer {boxes.begun + 1} they are corrected by other weights first." * (
        boxes.begun in boxes.behind
    )
    if boxes.steps is None:
        return again
    of_first = " and of those corrected first" * (boxes.begun in boxes.behind)
    return (
        f"{again} From there on layers add to {boxes.steps:,} numbers for each of the 4: a softmax of these weighs "
        f"{boxes.steps:,} others, the same for every row, and boxes are worked out of the means{of_first}."
    )


def spell_behind(tower: Tower, boxes: Boxes) -> str:
    """Behind which layers of a tower its boxes are corrected."""
    if len(boxes.behind) == tower.layers:
        return f"corrected behind each layer of the {tower.name} tower"
    if boxes.begun is not None and boxes.behind == tuple(range(boxes.begun + 1, tower.layers)):
        return f"made behind layer {boxes.begun + 1} of the {tower.name} tower, and corrected behind each later one"
    return f"corrected behind {spell_numbers(boxes.behind)} of the {tower.name} tower"


def describe_lent_weights(anatomy: Anatomy) -> str:
    return " ".join(
        f"The layers of the {tower.name} tower work with the weights of the {tower.weights_of} tower's."
        for tower in anatomy.towers
        if tower.weights_of
    )


def describe_divided(anatomy: Anatomy) -> str:
    told = join_words([f"{one:g}" for one in anatomy.divided], "or")
    return f"Before any of them worked, some weights were divided in place: by {told}." if told else ""


def describe_weights_in_common(anatomy: Anatomy) -> str:
    return " ".join(
        f"Some weights of the {tower.name} tower's layers are those of the {tower.some_weights_of} tower's too."
        for tower in anatomy.towers
        if tower.some_weights_of
    )


def describe_links(anatomy: Anatomy) -> str:
    """What is put into another tower's stream, or what that begins with, where no other rows go in there."""
    given: dict[str, list[str]] = {}
    for link in anatomy.links:
        if link.kind == "joined" and link.joins and not link.behind:  # of layers it is told behind which ones
            given.setdefault(link.target, []).append(link.source)
    whole = {link.target for link in anatomy.links if link.joins == "whole"}
    begun = [name for name in given if name in whole]
    told = [f"The {name} tower's stream begins with what {name_givers(given.pop(name))}." for name in begun]
    if given:
        (first, sources), *rest = given.items()
        more = "".join(f"; what {name_givers(others)}, into that of the {target} tower" for target, others in rest)
        told.append(f"What {name_givers(sources)} is put into the {first} tower's stream{more}.")
    return " ".join(told)


def describe_met(anatomy: Anatomy) -> str:
    """What meets what another tower gives, behind its layers; of layers it is told behind which ones."""
    return " ".join(
        f"What the {link.source} tower gives is also put together with what the {link.target} tower gives."
        for link in anatomy.links
        if link.kind == "met" and not link.behind
    )


def describe_multiplied(anatomy: Anatomy) -> str:
    given: dict[str, list[str]] = {}
    for link in anatomy.links:
        if link.kind == "multiplied":
            given.setdefault(link.target, []).append(link.source)
    told = (
        f"Inside its layers the {target} tower's stream is multiplied with something that {name_givers(sources)}."
        for target, sources in given.items()
    )
    return " ".join(told)


def describe_keys(anatomy: Anatomy) -> str:
    """Which layers of another tower made the keys and values that stand beside those of a tower's own."""
    return " ".join(
        f"What stands beside the keys and values of each layer of the {link.target} tower was made by the layer of the "
        f"same number of the {link.source} tower."
        for link in anatomy.links
        if link.kind == "keys"
    )


def describe_chosen_ids(anatomy: Anatomy) -> str:
    given: dict[str, list[str]] = {}
    for link in anatomy.links:
        if link.kind == "chosen":
            given.setdefault(link.target, []).append(link.source)
    told = (
        f"Ids that the {target} tower looks up are worked out of what {name_givers(sources)}."
        for target, sources in given.items()
    )
    return " ".join(told)


def describe_scored(anatomy: Anatomy) -> str:
    added = [(link.source, link.target) for link in anatomy.links if link.kind == "scored"]
    told = []
    for source, target in added:
        is_mutual = (target, source) in added
        if not is_mutual or added.index((source, target)) < added.index((target, source)):
            told.append(
                f"The {source} tower's scores are added to those of the {target} tower"
                f"{', and the other way round' * is_mutual}."
            )
    return " ".join(told)


def name_givers(sources: Sequence[str]) -> str:
    """The towers that give something, and that they do."""
    return f"the {' and '.join(sources)} {'towers give' if len(sources) > 1 else 'tower gives'}"


def describe_earlier(anatomy: Anatomy) -> str:
    told = []
    for link in anatomy.links:
        source = anatomy.tower(link.source)
        if not link.behind or source is None or not link.joins:
            continue
        behind = f"the {link.source} tower gives behind {spell_numbers(link.behind)} of {source.layers}"
        if link.kind == "joined":
            target = anatomy.tower(link.target)  # what is put in between its layers is told apart
            first = "" if target is not None and target.rows_added else " before its first layer"
            told.append(f"What {behind} is put into the {link.target} tower's stream{first}.")
        elif link.kind == "met":
            told.append(f"What {behind} is put together with what the {link.target} tower gives.")
        elif not begins_another(anatomy, link):  # not all layers need to read it (Grounding DINO)
            told.append(f"The {link.target} tower reads what {behind}.")
    return " ".join(told)


def begins_another(anatomy: Anatomy, link: Link) -> bool:
    """Whether a tower begins with the same rows which the target reads too: it may be those that are read (SAM 2)."""
    begun = {
        one.target
        for one in anatomy.links
        if one.kind == "joined" and (one.source, one.behind) == (link.source, link.behind)
    }
    return any(one.kind == "memory" and one.source in begun and one.target == link.target for one in anatomy.links)


def spell_numbers(layers: Sequence[int]) -> str:
    """Numbers of layers, which are from 0, as they are told: from 1, a long list shortened in the middle."""
    numbers = [number + 1 for number in layers]
    listed = f"{numbers[0]}, {numbers[1]} … {numbers[-1]}" if len(numbers) > MOST_NUMBERS else str(numbers)[1:-1]
    return f"layer{'s' * (len(numbers) > 1)} {listed}"


def describe_comparison(anatomy: Anatomy) -> str:
    compared = [link for link in anatomy.links if link.kind == "compared"]
    told: list[str] = []
    for target in dict.fromkeys(link.target for link in compared):
        sources = [link.source for link in compared if link.target == target]
        given = f"{sources[0]} tower gives is" if len(sources) == 1 else f"{' and '.join(sources)} towers give is"
        told.append(f"What the {given} compared with what the {target} tower gives.")
    return " ".join(told)
