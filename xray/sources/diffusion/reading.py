"""What a model's own code tells of an argument: how it calls the sizes, and which layer is the first to read it."""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from torch import nn

MOST_CALLS = 8
"""So deep are calls followed, from the forward of a model to the layer that reads an argument."""
CASTS = {"to", "float", "type", "type_as", "contiguous", "clone", "detach", "half", "bfloat16"}
"""Methods of a tensor that leave its shape as it is."""
JOINS = {"cat", "concat", "stack", "where"}
"""Functions that put a tensor together with others."""
MANY = (nn.ModuleList, nn.Sequential, list, tuple)
UNKNOWN = object()
Order = tuple[int, ...] | None


@dataclass(frozen=True)
class Reading:
    """The names for the sizes of an argument, and the layer that reads it first.

    `order` is that in which the layer has the axes of the argument: () where it is the same, None where it is unknown.
    """

    sizes: tuple[str, ...] = ()
    layer: nn.Module | None = None
    order: Order = ()

    @property
    def is_bare(self) -> bool:
        """Whether the layer reads the argument in the shape in which it is given."""
        return self.order == ()


def read_argument(model: nn.Module, name: str) -> Reading:
    """What the forward of a model tells of one of its arguments; an empty reading where it tells nothing."""
    given = inspect.signature(inspect.unwrap(type(model).forward)).parameters.values()
    switches = {one.name: one.default for one in given if isinstance(one.default, bool)}  # nobody turns these
    return follow(type(model).forward, {**switches, "self": model}, name, MOST_CALLS)


def follow(function: Callable[..., Any], known: Mapping[str, Any], name: str, depth: int) -> Reading:
    """What a function tells of its argument `name`, where some of its other names are known."""
    tree = parse(inspect.unwrap(function))
    if tree is None or depth == 0:
        return Reading()
    walk = Walk(dict(known), name, depth, getattr(inspect.unwrap(function), "__globals__", {}))
    walk.over(tree.body)
    return walk.reading


@lru_cache(maxsize=512)
def parse(function: Callable[..., Any]) -> ast.FunctionDef | None:
    """A function as a tree; None where its text is not to be had."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    return tree if isinstance(tree, ast.FunctionDef) else None


def is_layer(module: object) -> bool:
    """Whether a module is a layer by itself: it has a weight, and no parts."""
    return (
        isinstance(module, nn.Module)
        and getattr(module, "weight", None) is not None
        and not any(True for _ in module.children())
    )


def is_plain(module: object) -> bool:
    """Whether a module is one of torch's own that has no weights, such as a dropout."""
    return (
        isinstance(module, nn.Module)
        and type(module).__module__.startswith("torch.nn")
        and not any(True for _ in module.parameters())
    )


class Walk:
    """A walk over the lines of one function, along with the tensor that it is given under a name."""

    def __init__(self, known: dict[str, Any], name: str, depth: int, names: Mapping[str, Any]) -> None:
        self.known = known
        self.orders: dict[str, Order] = {name: ()}  # the names of the tensor, and the order of its axes under each
        self.depth = depth
        self.outside = names  # of the module that the function is written in
        self.reading = Reading()

    def over(self, lines: Sequence[ast.stmt]) -> bool:
        """Whether, in one of these lines, a layer reads the tensor."""
        return any(self.look(line) for line in lines)

    def look(self, line: ast.stmt) -> bool:
        """Whether a layer reads the tensor in this line, or in those inside of it."""
        match line:
            case ast.If():
                holds = self.decide(line.test)
                if holds is UNKNOWN:
                    return self.either(line.body, line.orelse)
                return self.over(line.body if holds else line.orelse)
            case ast.For():
                self.bind(line.target, line.iter)
                return self.over(line.body)
            case ast.With() | ast.Try():
                return self.over(line.body)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Return():
                return isinstance(line.value, ast.expr) and self.read(line, line.value)
        return False

    def either(self, *branches: Sequence[ast.stmt]) -> bool:
        """Whether a layer reads the tensor in one of several branches; behind them it goes by the names from before."""
        before = dict(self.orders)
        for lines in branches:
            if self.over(lines):
                return True
            self.orders = dict(before)
        return False

    def read(self, line: ast.stmt, value: ast.expr) -> bool:
        """Whether a layer reads the tensor in a plain line; how its sizes and it itself are called from here on."""
        if isinstance(value, ast.IfExp) and (holds := self.decide(value.test)) is not UNKNOWN:
            value = value.body if holds else value.orelse
        if any(self.call(one) for one in list_calls(value)):
            return True
        targets = line.targets if isinstance(line, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Tuple) and (found := self.unpacked(value)) is not None:
                self.note_sizes(target, found[1])
            elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                self.rename_all(target, value)
            elif isinstance(target, ast.Tuple):
                self.forget(target)
            elif isinstance(target, ast.Name):
                self.rename(target.id, value)
        return False

    def note_sizes(self, target: ast.Tuple, order: Order) -> None:
        """Keep the names for all of the sizes, in the order in which the tensor is given."""
        names = tuple(one.id for one in target.elts if isinstance(one, ast.Name))
        if order is not None and not self.reading.sizes and len(names) == len(target.elts):
            self.reading = replace(self.reading, sizes=put_back(names, order))

    def forget(self, target: ast.Tuple) -> None:
        """Let go of names that stand for other things from here on."""
        for one in target.elts:
            if isinstance(one, ast.Name):
                self.orders.pop(one.id, None)
                self.known.pop(one.id, None)

    def unpacked(self, value: ast.expr) -> tuple[str, Order] | None:
        """The tensor whose whole shape this is, as `trace` gives it; None where it is none."""
        named = value.func if isinstance(value, ast.Call) and not value.args else value
        if isinstance(named, ast.Attribute) and named.attr in {"shape", "size"}:
            return self.trace(named.value)
        return None

    def rename(self, name: str, value: ast.expr) -> None:
        """Whether from here on the tensor goes by this name, or no more; else what other thing it names."""
        found = self.trace(value)
        self.known.pop(name, None)
        if found is not None:
            self.orders[name] = found[1]
            return
        self.orders.pop(name, None)
        thing = self.resolve(value)
        if thing is not UNKNOWN:
            self.known[name] = thing

    def rename_all(self, target: ast.Tuple, value: ast.Tuple) -> None:
        """The same for several names at once."""
        for name, one in zip(target.elts, value.elts, strict=True):
            if isinstance(name, ast.Name):
                self.rename(name.id, one)

    def trace(self, value: ast.expr) -> tuple[str, Order] | None:
        """The tensor's name in an expression that is it, maybe in another shape; and the order of its axes then."""
        order: Order = ()
        while True:
            match value:
                case ast.Name(id=name):
                    return (name, compose(self.orders[name], order)) if name in self.orders else None
                case ast.Call(func=func, args=[inner, *_]) if is_plain(self.resolve(func)):
                    value = inner
                case ast.Call(func=ast.Attribute(attr=attr, value=inner), args=given) if self.joined(value) is None:
                    value, order = inner, compose(read_order(attr, given), order)
                case ast.Call():
                    joined = self.joined(value)
                    return None if joined is None else (joined, None)
                case ast.Subscript(value=ast.Name(id=name)) if name in self.orders:
                    return name, None
                case ast.BinOp(left=left, right=right) if self.trace(left) is None:
                    return self.trace(right)
                case ast.BinOp(left=left):
                    value = left
                case _:
                    return None

    def joined(self, call: ast.Call) -> str | None:
        """The tensor's name, where a call puts it together with others, or is of another kind of thing than it."""
        parts = [
            one for given in call.args for one in (given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given])
        ]
        is_join = isinstance(call.func, ast.Attribute) and call.func.attr in JOINS
        found = [self.trace(one) for one in parts] if is_join else []
        return next((one[0] for one in found if one is not None), None)

    def call(self, call: ast.Call) -> bool:
        """Whether the tensor is an argument of this call, and is read by a layer there."""
        given = [(place, self.trace(one)) for place, one in enumerate(call.args)]
        named = [(one.arg, self.trace(one.value)) for one in call.keywords if one.arg is not None]
        arguments: list[tuple[int | str, tuple[str, Order] | None]] = [*given, *named]
        mine = next(((place, found) for place, found in arguments if found is not None), None)
        if mine is None:
            return False
        place, (_, order) = mine
        target = self.resolve(call.func)
        if is_layer(target):
            self.reading = replace(self.reading, layer=target, order=order)
            return True
        return self.enter(target, call, place, order)

    def enter(self, target: object, call: ast.Call, place: int | str, order: Order) -> bool:
        """Whether a layer reads the tensor inside of what is called."""
        if isinstance(target, nn.Sequential):
            found = read_in_turn(target, self.depth - 1)
        else:
            function, known = open_up(target)
            if function is None:
                return False
            names = list(inspect.signature(inspect.unwrap(function)).parameters)[1 if known else 0 :]
            name = place if isinstance(place, str) else (names[place] if place < len(names) else "")
            inside = bind_known(function, names, call, self.resolve)
            inside.pop(name, None)
            found = follow(function, {**inside, **known}, name, self.depth - 1)
        if found.sizes and order is not None and not self.reading.sizes:
            self.reading = replace(self.reading, sizes=put_back(found.sizes, order))
        if found.layer is not None:
            self.reading = replace(self.reading, layer=found.layer, order=compose(order, found.order))
        return found.layer is not None

    def bind(self, target: ast.expr, source: ast.expr) -> None:
        """Let the name of a loop stand for the first of those that it goes over."""
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "enumerate":
            source = source.args[0]
            target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
        many = self.resolve(source)
        if isinstance(target, ast.Name) and isinstance(many, MANY) and len(many):
            self.known[target.id] = many[0]

    def resolve(self, value: ast.expr | None) -> Any:
        """The thing that an expression names, UNKNOWN where that is not clear before the model runs."""
        match value:
            case ast.Constant(value=constant):
                return constant
            case ast.Name(id=name):
                return self.known.get(name, self.outside.get(name, getattr(builtins, name, UNKNOWN)))
            case ast.Attribute(value=inner, attr=attr):
                thing = self.resolve(inner)
                return UNKNOWN if thing is UNKNOWN else getattr(thing, attr, UNKNOWN)
            case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
                thing = self.resolve(inner)
                return thing[key] if isinstance(thing, MANY) and isinstance(key, int) and key < len(thing) else UNKNOWN
        return UNKNOWN

    def decide(self, test: ast.expr) -> Any:
        """Whether a condition holds, UNKNOWN where that is not clear; what is followed is there, and no None."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                holds = self.decide(inner)
                return UNKNOWN if holds is UNKNOWN else not holds
            case ast.BoolOp(op=op, values=values):
                return decide_all([self.decide(one) for one in values], is_and=isinstance(op, ast.And))
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]) if name in self.orders:
                return self.resolve(kind) not in (tuple, list, dict)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                if isinstance(left, ast.Name) and left.id in self.orders:
                    is_none = isinstance(right, ast.Constant) and right.value is None
                    return isinstance(op, ast.IsNot) if is_none else UNKNOWN
                return compare(op, self.resolve(left), self.resolve(right))
        thing = self.resolve(test)
        return UNKNOWN if thing is UNKNOWN else bool(thing) or isinstance(thing, nn.Module)


def read_order(method: str, given: Sequence[ast.expr]) -> Order:
    """The order of the axes after a method of a tensor, () where it leaves them as they are."""
    numbers = tuple(one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, int))
    if method == "permute" and len(numbers) == len(given):
        return numbers
    if method == "transpose" and numbers == (1, 2):
        return (0, 2, 1)
    return () if method in CASTS else None


def compose(first: Order, then: Order) -> Order:
    """The order of axes that were put in one order, and then in another."""
    if not first or then is None:
        return then if first is not None else None
    return tuple(first[place] for place in then) if then and len(then) == len(first) else (None if then else first)


def put_back(words: Sequence[str], order: Order) -> tuple[str, ...]:
    """The words for axes in another order as they were before; none where there are not so many."""
    if not order:
        return tuple(words)
    places = sorted(range(len(order)), key=lambda place: order[place])
    return tuple(words[place] for place in places) if len(words) == len(order) else ()


def open_up(target: object) -> tuple[Callable[..., Any] | None, dict[str, Any]]:
    """The function behind what is called, and itself by the name that it has there; None where it is not followed."""
    if isinstance(target, nn.Module):
        return type(target).forward, {"self": target}
    if inspect.ismethod(target):
        return target.__func__, {"self": target.__self__}
    if inspect.isfunction(target) or isinstance(target, type) or not callable(target):
        return None, {}
    return type(target).__call__, {"self": target}


def read_in_turn(parts: nn.Sequential, depth: int) -> Reading:
    """What the parts tell of a tensor of which each hands on to the next what it makes: the first that has weights."""
    first = next((one for one in parts if any(True for _ in one.parameters())), None)
    if first is None or is_layer(first):
        return Reading(layer=first)
    if isinstance(first, nn.Sequential):
        return read_in_turn(first, depth)
    names = list(inspect.signature(first.forward).parameters)
    return follow(type(first).forward, {"self": first}, names[0], depth) if names else Reading()


def decide_all(holding: Sequence[Any], *, is_and: bool) -> Any:
    """Whether all of some conditions hold, or with `is_and` not any of them; UNKNOWN where it hangs on an unknown."""
    ends = [one is not UNKNOWN and bool(one) is not is_and for one in holding]
    if any(ends):
        return not is_and
    return UNKNOWN if any(one is UNKNOWN for one in holding) else is_and


def compare(op: ast.cmpop, left: Any, right: Any) -> Any:
    """Whether a comparison of two things holds."""
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    match op:
        case ast.Is() | ast.Eq():
            return left is right or (not isinstance(op, ast.Is) and bool(left == right))
        case ast.IsNot() | ast.NotEq():
            return left is not right if isinstance(op, ast.IsNot) else bool(left != right)
    return UNKNOWN


def list_calls(value: ast.expr) -> Iterator[ast.Call]:
    """The calls in an expression, those inside of others first."""
    for inner in ast.iter_child_nodes(value):
        if isinstance(inner, ast.expr):
            yield from list_calls(inner)
        elif isinstance(inner, ast.keyword):
            yield from list_calls(inner.value)
    if isinstance(value, ast.Call):
        yield value


def bind_known(
    function: Callable[..., Any], names: Sequence[str], call: ast.Call, resolve: Callable[[ast.expr], Any]
) -> dict[str, Any]:
    """The arguments of a call that are known before the model runs, and the defaults of those that are left out."""
    given: dict[str, ast.expr] = dict(zip(names, call.args, strict=False))
    given |= {one.arg: one.value for one in call.keywords if one.arg is not None}
    found = {name: resolve(value) for name, value in given.items()}
    defaults = {
        name: one.default
        for name, one in inspect.signature(inspect.unwrap(function)).parameters.items()
        if name not in given and one.default is not inspect.Parameter.empty
    }
    return {**defaults, **{name: thing for name, thing in found.items() if thing is not UNKNOWN}}
