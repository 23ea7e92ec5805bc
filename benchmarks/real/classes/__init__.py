"""The benchmark of classifiers: data sets, pools, rivals, runs and their summary."""
