"""`ScoreRouter` on 9,032 questions of MMLU-Pro with the answers of 28 models."""
