"""What stands before the first layer: what comes in, how it becomes the stream, and the chart of it."""
