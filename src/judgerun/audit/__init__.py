"""One function per check: snapshot columns and rows in, Findings out."""
