"""The nouns: frozen values; no I/O, no clock, no price may live here."""
