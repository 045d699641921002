"""Cells that are asked again under higher caps, and by other models."""
