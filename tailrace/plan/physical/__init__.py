"""The physical plan of a view: lowered operators, their states, the placement of rows on shards, and the cost."""
