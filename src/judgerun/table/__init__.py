"""Rows and replies in, rows out: coordinates, conditions, parse, join, where, explode, fold, pair, map; pure."""
