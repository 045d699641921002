"""Importers of what providers say that they charged: one module for each provider, each from rows to lines of a Statement."""
