"""From the parsed query to plan nodes."""
