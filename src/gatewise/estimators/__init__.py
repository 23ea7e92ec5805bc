"""The scikit-learn faces: the only place that wires the rooms together."""
