"""Two traces held against each other, and what differs marked in any picture."""
