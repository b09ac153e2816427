"""What commands are told: options that several of them share, gathered, checked, refused where they are of no use."""
