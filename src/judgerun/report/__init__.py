"""Estimates and Findings to Markdown, JSON, HTML and plots."""
