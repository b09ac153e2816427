"""Charts: what is drawn of each kind of part, as nodes in rows and lanes, with the data flow between them."""
