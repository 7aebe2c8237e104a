"""The control side of several engines: collect from their agents, decide, record, apply what is recorded."""
