"""What runs: the lowered plan, the states it keeps, where its rows are placed, and what it costs."""
