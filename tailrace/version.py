"""The version, in one place: the changelog and the package metadata are checked against it."""

VERSION = "0.1.0"
