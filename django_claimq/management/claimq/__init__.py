"""The subcommands of `manage.py claimq`, one module for each kind."""
