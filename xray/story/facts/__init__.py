"""What a trace adds up to and what its tables say: outline, masks, totals, settings, what a cache keeps."""
