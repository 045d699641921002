"""judgerun: an async batch runner with budgeted, audited LLM calls."""
