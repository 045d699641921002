"""Readers of what other programs left: one module for each family of files, each from bytes to the records of a foreign Run."""
