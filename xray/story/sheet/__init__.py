"""The sheet: charts put into frames, frames beside each other, and what is said around them."""
