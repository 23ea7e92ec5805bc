"""The learned list: gates fitted to held-out forecasts of experts, their aggregation by AFTER, and the verdict."""
