"""The scikit-learn faces: the only place that wires the rooms together."""

from gatewise.estimators.shared import SharedRoutedRegressor

__all__ = ["SharedRoutedRegressor"]
