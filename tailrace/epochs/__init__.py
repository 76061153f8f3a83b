"""Runs epochs: intent, work, commit, and recovery after a crash."""
