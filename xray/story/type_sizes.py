"""Text sizes, the heights of nodes, and the page that all parts of a poster agree on, in points."""

OP, DIGIT, SYMBOL, NOTE, LABEL = 12, 18, 11, 11, 13
"""Text sizes: names of operations, digits of shapes, axis words, remarks, headings of parts."""

PAGE_RATIO = 2**0.5
"""Height over width of the A papers."""

TALLEST = 2270.0
"""A higher page would have letters below 8 points on A2 paper."""

TWO_LINES, THREE_LINES, FOUR_LINES = 36.0, 48.0, 61.0
"""How high nodes with so many lines are."""
LINE = 13.0
"""How much higher a node is for each line of small type more."""

MARGIN, PANEL_PAD = 28.0, 9.0
"""What is kept free around the page, and inside a frame."""
