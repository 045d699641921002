"""The batch APIs of the simulated provider: jobs that take time, keep books of their own and go wrong in their own ways."""
