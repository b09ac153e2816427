"""Fast twins of the readable model: the same numbers in fewer calls. What is traced is the readable one, never they."""
