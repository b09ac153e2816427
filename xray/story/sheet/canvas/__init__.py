"""The canvas: where the boxes of a chart stand, what is written in them, and how lines run between them."""
