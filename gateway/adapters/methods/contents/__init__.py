"""Classes of content besides ``basic``: their properties, staged files, paced streams."""
