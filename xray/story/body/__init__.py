"""What kind of network a trace is of: towers of layers on residual streams, read off the data flow alone."""
