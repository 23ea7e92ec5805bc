"""X-ray of trained mixture-of-experts models: what each expert does, and whether its specialization is real."""

from gatewise.nn.xray.inspector import Xray, xray
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.trace import Trace

__all__ = ["LayerTrace", "Trace", "Xray", "xray"]
