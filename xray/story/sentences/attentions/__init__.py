"""What the card says of attentions: how they know places, their heads, their scores, and what they see."""
