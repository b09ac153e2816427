"""Which operand of the scores is the keys: the one whose axis the softmax runs along."""

from xray.ir.trace import Step


def operand_of_axis(product: Step, softmax: Step) -> int | None:
    """The input of the product that gives the axis along which softmax makes weights; None where that is unknown."""
    count = len(product.inputs)
    if not product.outputs or not softmax.outputs or count < 2:
        return None
    first, second = count - 2, count - 1
    back = read_axis(softmax)
    letters = read_equation(product)
    if letters is not None:
        left, right, out = letters
        if -back > len(out):
            return None
        letter = out[back]
        in_left, in_right = letter in left, letter in right
        return None if in_left == in_right else (first if in_left else second)
    if back == -1:
        return second
    return first if back == -2 else None


def read_pair(product: Step, softmax: Step) -> tuple[int, int]:
    """Where queries and keys lie in scores, counted from the last axis: the last two, unless letters tell otherwise.

    Weights are made along the keys, be they in front (Transformer-XL's "ibnd,jbnd->ijbn").
    """
    letters, keys = read_equation(product), read_axis(softmax)
    if keys == -1 or letters is None or -keys > len(letters[2]):
        return -2, -1
    left, right, made = letters
    asked = next((one for one in (left, right) if made[keys] in one), "")
    queries = [place for place, one in enumerate(made, -len(made)) if one not in asked]
    return (queries[0], keys) if len(queries) == 1 and made[keys] not in set(left) & set(right) else (-2, -1)


def list_added_along(product: Step) -> list[str | None]:
    """The names of the axes along which a product adds up, as far as its first operand names them."""
    left = product.inputs[-2]
    letters = read_equation(product)
    if letters is None:
        return [*left.axes[-1:]]
    ours, theirs, made = letters
    both = zip(ours[::-1], left.axes[::-1], strict=False)
    return [axis for letter, axis in both if letter in theirs and letter not in made]


def read_axis(softmax: Step) -> int:
    """The axis along which a softmax makes weights, counted from the last one, -1."""
    rank = len(softmax.outputs[0].shape)
    dim = softmax.settings.get("dim", softmax.settings.get("arg1", -1))
    if not isinstance(dim, int) or isinstance(dim, bool) or rank == 0:
        dim = -1
    return dim - rank if dim >= 0 else dim


def read_equation(step: Step) -> tuple[str, str, str] | None:
    """The letters of both operands and of the result of an einsum, ellipses left out; None for other products."""
    text = next((value for value in step.settings.values() if isinstance(value, str) and "->" in value), None)
    if step.op != "einsum" or text is None:
        return None
    given, _, out = text.replace(" ", "").replace("...", "").partition("->")
    left, comma, right = given.partition(",")
    return (left, right, out) if comma and "," not in right else None
