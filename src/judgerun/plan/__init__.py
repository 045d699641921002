"""From an experiment to its requests, the same bytes every time: prompts, expansion, quote."""
