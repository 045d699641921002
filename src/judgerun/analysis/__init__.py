"""Arrays in, Estimates out: numpy and scipy only; knows no request, no model, no file."""
