"""An engine: a long-lived process with its own Spark application that takes in queries and gives them up again."""
