"""Server-sent events: sources, journals, cursors and streams."""
