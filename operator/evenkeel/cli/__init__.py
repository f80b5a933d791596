"""The command `evenkeel`: one module per subcommand, imported only when it is asked for."""
