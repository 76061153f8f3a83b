"""From SQL to what runs: text, plan nodes, rewrites, physical plan. No store is read and no Spark is started."""
