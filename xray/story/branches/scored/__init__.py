"""Scores before softmax: by what they are multiplied, what is added to them, what is hidden, what is seen."""
