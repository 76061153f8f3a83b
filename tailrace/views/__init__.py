"""What views there are, and reading them."""
