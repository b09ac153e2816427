"""Ways up to an attention: what the parts of each way of queries, keys and values do, and what they are called."""
