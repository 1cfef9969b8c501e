"""All writes to the tables, and the reads that decide them."""
