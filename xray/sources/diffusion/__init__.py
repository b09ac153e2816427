"""Models of diffusers from their settings: what each argument of a forward must be follows from the model itself."""
