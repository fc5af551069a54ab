"""The command line (extra ``cli``): parse arguments, call the other rooms, print. May import every room."""
