"""What is recorded: the chatbot, or somebody's own model with its inputs."""
