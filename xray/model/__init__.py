"""The readable transformer, "Attention Is All You Need" (Vaswani et al. 2017), every operation a module that hooks see."""
