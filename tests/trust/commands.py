"""The settings of a training run that ends at once."""

SMALL = ["--d-model", "22", "--heads", "2", "--d-ff", "13", "--encoder-layers", "1", "--decoder-layers", "1"]
QUICK = [*SMALL, "--epochs", "1", "--out", "new"]
