"""Exact aggregation over product nets on a device that PyTorch knows."""
