"""A sheet as a drawing: DOT, SVG, PNG and PDF, on one paper or on several."""
