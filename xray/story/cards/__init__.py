"""What is said around the frames: title, sizes, sentences, legend, formulas, masks, parameters, costs, ranks."""
