"""What is run day by day: ``fl.Store``, its status, who is told of a job, and schedules."""
