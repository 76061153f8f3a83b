"""The text of statements: parsing, names, functions, and clear refusals."""
