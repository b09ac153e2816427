"""What is told, with a layout and a theme, as DOT, SVG, PNG, PDF, HTML page and tables for a terminal."""
