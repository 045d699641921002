"""The simulated provider: a server with faults and its own bill; knows the dialects' wire shapes and nothing else of ours."""
