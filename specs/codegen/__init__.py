"""From the XML files in ``specs/`` to committed modules: load, check, emit, compare."""
