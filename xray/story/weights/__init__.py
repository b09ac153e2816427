"""Attention weights as pictures: who looks at whom, layer by layer and head by head, in any network."""
