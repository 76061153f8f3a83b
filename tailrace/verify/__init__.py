"""Checking views against their definition. Never uses the code that maintains them."""
