"""`tailrace doctor`: checks whether Tailrace can work on this machine and with a store, and says what to do if not."""
