"""Parts that the engines of all families are put together from."""
