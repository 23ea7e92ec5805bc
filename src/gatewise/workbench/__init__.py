"""From a file to a fitted model and the facts about it: tables, pools of experts, model files, evidence."""
