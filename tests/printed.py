"""What a composed poster says: its lines, its shapes, its words; and what a trace would allow it to say."""


def text_of(line):
    return "".join(run.text for run in line)


def lines_of(layout):
    return [text_of(line) for box in layout.boxes for line in box.lines]


def words_of(layout):
    return " ".join(lines_of(layout))


def printed_shapes(layout):
    """Every shape with more than one axis: numbers in the hues of axes, with times signs between them."""
    found = set()
    for box in layout.boxes:
        for line in box.lines:
            sizes = []
            for run in (*line, None):
                if run is not None and run.ink.startswith("axis:") and run.weight == "bold":
                    sizes.append(run.text.strip())
                elif run is None or run.text != "×":
                    found |= {tuple(sizes)} if len(sizes) > 1 else set()
                    sizes = []
    return {sizes for sizes in found if "=" not in "".join(sizes)}


def recorded_shapes(trace):
    """Every recorded shape as it may be printed, the turn's number as t, a size that turns differ in as a range."""
    found = set()
    for one_pass in trace.passes:
        for step in one_pass.steps:
            for record in (*step.inputs, *step.outputs):
                turns = {str(one_pass.number): "t", str(one_pass.number + 1): "t+1"} if one_pass.number > 1 else {}
                sizes = [str(size) for size in record.shape]
                named = [
                    turns.get(size, size) if "tgt_len" in axis else size
                    for size, axis in zip(sizes, record.axes, strict=True)
                ]
                found |= {tuple(sizes), tuple(named)}
    return found
