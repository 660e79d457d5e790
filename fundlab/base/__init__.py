"""What every room may rest on: errors, values, atomic files, threads, Arrow, the terminal."""
