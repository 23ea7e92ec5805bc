"""Mixture-of-experts layers for PyTorch. The only room that imports torch: ``pip install gatewise[nn]``."""
