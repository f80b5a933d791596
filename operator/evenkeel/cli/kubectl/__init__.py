"""`kubectl evenkeel`: plans of moves as people see and decide them, through the API server alone."""
