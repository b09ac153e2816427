"""Models by their name: found, built without weights, and fed with inputs made for them."""
