"""Attention: its charts, three ways up, the square of scores, and the way back to the stream."""
