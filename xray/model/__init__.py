"""The readable transformer, every operation a module that hooks see.

"The paper", here and below, is "Attention Is All You Need" (Vaswani et al. 2017).
"""
