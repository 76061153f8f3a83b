"""The command line: each verb is one function."""
