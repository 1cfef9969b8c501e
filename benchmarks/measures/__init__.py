"""What is measured of a peer: each measure takes a trial and returns figures by their names."""
