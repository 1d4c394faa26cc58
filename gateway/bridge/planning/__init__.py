"""Plans of a topology for another broker."""
