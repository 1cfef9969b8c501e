"""How quickly the pages of the admin answer with millions of jobs behind them."""
