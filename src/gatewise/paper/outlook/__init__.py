"""The outlook of section 7 as procedures, each with an experiment that could have failed."""
