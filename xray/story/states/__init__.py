"""States: the queries, keys and values that read and change them, what these are called, and where they stand."""
