"""What `bench/run` is made of: servers to measure, pieces to measure them by, and the table."""
