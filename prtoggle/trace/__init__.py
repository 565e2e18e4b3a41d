"""Both variants of a function on the same inputs, inside the program that calls it."""
