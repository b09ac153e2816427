"""Pairs of question and answer: read, checked, cut into words, and laid side by side as batches of ids."""
