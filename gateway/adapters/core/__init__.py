"""Parts that the engines of all families are composed of."""
