"""What is said of ways of a stream: past a sublayer, with rows beside it, to another tower from behind some layers."""

from collections import Counter
from collections.abc import Sequence

from xray.story.anatomy.tree import Stage
from xray.story.recognition.added_rows import AddedRows
from xray.story.sentences.of_models import describe_ops
from xray.story.sentences.sentence import Sentence, fixed, say_first
from xray.story.wording import plural


def describe_past(names: Sequence[str]) -> str:
    """What the stream goes through on its way past a sublayer; empty where it comes by as it is."""
    return say_first(OF_PASTS, names)


def describe_added(added: AddedRows | None) -> str:
    """That the stream comes by with rows that were put beside it; empty where none were."""
    return "" if added is None else say_first(OF_ADDED, added)


def describe_source(behind: int | None) -> str:
    """Behind which layer of its tower rows are taken that another tower adds; empty where that is not known."""
    return say_first(OF_SOURCES, behind)


def describe_elsewhere(layers: Sequence[int]) -> str:
    """Behind which layers, from 0, rows are added in the same way; empty where they are behind no others."""
    return say_first(OF_ELSEWHERE, layers)


def describe_passed(ops: Counter[str]) -> str:
    """What is worked out on the ways of arrows into a box, and stands in none; empty where nothing is."""
    return say_first(OF_ARROWS, ops)


def describe_taken(stage: Stage) -> str:
    """What becomes of the stream where nothing is added to it; empty where something is."""
    return say_first(OF_STAGES, stage)


def spell_rows_beside(added: AddedRows) -> str:
    further = f"; {'this goes' if added.count == 1 else 'these go'} no further" if added.left_off else ""
    return f"the stream comes by with {plural(added.count, 'row')} beside it{further}"


OF_PASTS: tuple[Sentence[Sequence[str]], ...] = (
    Sentence("past a sublayer", lambda names: f"the stream comes by through {', '.join(names)}" if names else ""),
)
"""What is said of a sum to which the stream does not come as it was."""
OF_ADDED: tuple[Sentence[AddedRows], ...] = (Sentence("rows beside", spell_rows_beside),)
"""What is said of a sum to which the stream comes with more rows than it had."""
OF_SOURCES: tuple[Sentence[int | None], ...] = (
    Sentence("rows of a layer", lambda behind: "" if behind is None else f"behind its layer {behind + 1}"),
)
"""What is said of rows that another tower made."""
OF_ELSEWHERE: tuple[Sentence[Sequence[int]], ...] = (
    Sentence(
        "rows behind others",
        lambda layers: (
            f"as behind layer{'s' * (len(layers) > 1)} {', '.join(str(one + 1) for one in layers)}" if layers else ""
        ),
    ),
)
"""What is said of a sum that is drawn once for several layers."""
OF_ARROWS: tuple[Sentence[Counter[str]], ...] = (
    Sentence("before a box", lambda ops: f"before it, in no box: {describe_ops(ops)}" if ops else ""),
)
"""What is said in a box to which an arrow leads over steps in no box."""
OF_STAGES: tuple[Sentence[Stage], ...] = (
    fixed("taken place", "takes the stream's place: nothing is added", lambda stage: stage.replaces),
)
"""What is said of a sublayer that has no sum."""
