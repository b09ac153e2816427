"""Answers of a model: searched for, written as sentences, and judged."""
