"""What one can point at on a sheet: words and ids at its foot, ledgers, long ways, pictures, what stands above."""
