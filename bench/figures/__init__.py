"""Parts of `bench/run`: the servers, the measurements, and the table."""
