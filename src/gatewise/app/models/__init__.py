"""From a data file to a model and its predictions: tables, pools of experts, fits with a score, model files."""
