"""One program per peer, run by the peer's own Python."""
