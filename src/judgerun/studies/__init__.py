"""One module per study: its gold rules and its questions, one function per published number."""
