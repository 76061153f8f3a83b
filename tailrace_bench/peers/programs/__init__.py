"""One program per peer, run by the Python of the peer's venv."""
