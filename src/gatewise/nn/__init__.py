"""Mixture-of-experts layers for PyTorch. The only room that imports torch: ``pip install gatewise[nn]``."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("gatewise.nn needs PyTorch: pip install 'gatewise[nn]'", name="torch") from error
