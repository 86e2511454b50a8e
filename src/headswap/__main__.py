"""`python -m headswap`, and what torchrun starts.

The current folder is removed from `sys.path` before anything else is imported: see core/current_folder.py.
"""

from headswap.core.current_folder import leave_out_current_folder

if __name__ == "__main__":
    leave_out_current_folder()

    from headswap.cli.main import main

    main()
