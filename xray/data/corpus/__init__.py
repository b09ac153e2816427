"""A corpus made ready once: cut into ids, sifted, stored, and some of it held out."""
