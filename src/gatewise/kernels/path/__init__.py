"""Compiled fits of penalised softmax gates: products with the Hessian, and a truncated Newton method on them."""
