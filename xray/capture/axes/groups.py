"""Axes that are the same one, in groups; what a reshape cuts or joins is remembered, so products have words too."""

from collections.abc import Mapping, Sequence


class Groups:
    """Axes by number, each with its size. Axes of different sizes are never the same one.

    Each group may have a word, and keeps the first it was given.
    """

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._sizes: list[int] = []
        self._words: dict[int, str] = {}
        self._products: list[tuple[int, tuple[int, ...]]] = []
        self._parts: dict[int, tuple[int, ...]] = {}
        self._stretched: set[int] = set()

    def add(self, sizes: Sequence[int]) -> int:
        """Place for the axes of one tensor; gives the number of the first."""
        first = len(self._parents)
        self._parents += range(first, first + len(sizes))
        self._sizes += sizes
        return first

    def size(self, axis: int) -> int:
        """How long an axis is."""
        return self._sizes[axis]

    def find(self, axis: int) -> int:
        """The axis that stands for the group."""
        parents = self._parents
        while (above := parents[axis]) != axis:
            parents[axis] = axis = parents[above]
        return axis

    def join(self, one: int, other: int) -> None:
        """The two are the same, unless their sizes or their words tell otherwise."""
        first, second = self.find(one), self.find(other)
        if first == second or self._sizes[first] != self._sizes[second]:
            return
        word, lost = self._words.get(first), self._words.get(second)
        if word and lost and word != lost:
            return
        self._parents[second] = first
        if lost:
            self._words[first] = self._words.pop(second)
        parts, others = self._parts.get(first), self._parts.pop(second, None)
        if others is not None:
            self._parts.setdefault(first, others)
            if parts is not None:
                self._join_parts(parts, others)

    def stretch(self, axis: int) -> None:
        """Every axis of the group, of size 1, stands beside longer ones somewhere, and so for any of them."""
        self._stretched.add(self.find(axis))

    def freeze_stretched(self) -> None:
        """Keep each axis that is stretched by its own number, before groups grow."""
        self._stretched = {axis for axis in range(len(self._parents)) if self.find(axis) in self._stretched}

    def is_stretched(self, axis: int) -> bool:
        """Whether what the axis belonged to before operations joined any is stretched somewhere."""
        return axis in self._stretched

    def compose(self, whole: int, parts: Sequence[int]) -> None:
        """One axis holds several others, the first of them outermost: (batch, heads) as batch*heads."""
        root = self.find(whole)
        known = self._parts.setdefault(root, tuple(parts))
        if known is not parts:
            self._join_parts(known, parts)
        self._products.append((whole, tuple(parts)))

    def name(self, axis: int, word: str) -> None:
        """Give the group of an axis its word, if it has none."""
        if word:
            self._words.setdefault(self.find(axis), word)

    def word(self, axis: int) -> str:
        """The word of an axis's group, or nothing."""
        return self._words.get(self.find(axis), "")

    def parts(self, axis: int) -> tuple[int, ...]:
        """The axes that a reshape cut this one into, or made it from; none where there was no reshape."""
        return self._parts.get(self.find(axis), ())

    def list_products(self) -> Sequence[tuple[int, tuple[int, ...]]]:
        """Every axis that holds others, with those that it holds."""
        return self._products

    def name_products(self, proper: Mapping[str, str]) -> None:
        """A word for every axis without one that holds others which all have theirs: "batch*heads".

        `proper` has words that a product is given instead if all of that word is as large: not where one tower's width
        is that of another one's heads (π0).
        """
        sizes: dict[str, set[int]] = {}
        for root, word in self._words.items():
            sizes.setdefault(word, set()).add(self._sizes[root])
        for _ in range(2):  # a product may be part of another one
            for whole, parts in self._products:
                words = [self.word(part) for part in parts if self._sizes[part] != 1]
                if words and all(words) and not self.word(whole):
                    product = "*".join(words)
                    word = proper.get(product, "")
                    self.name(whole, word if sizes.get(word) == {self._sizes[whole]} else product)

    def _join_parts(self, parts: Sequence[int], others: Sequence[int]) -> None:
        if [self._sizes[one] for one in parts] == [self._sizes[one] for one in others]:
            for one, other in zip(parts, others, strict=True):
                self.join(one, other)
