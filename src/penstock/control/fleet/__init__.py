"""Several applications on several engines, by priority: placement, accuracies, moves.

Reference: Alves and Veiga, "Stream-Economics: Resource Efficiency in Flink Stream Processing with Accuracy Awareness
and Load-Shedding".
"""
