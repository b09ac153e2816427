"""Any model by blocks: as a layered drawing, and as Mermaid."""
