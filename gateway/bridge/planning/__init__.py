"""What a topology becomes on another broker."""
