"""The Triton kernels: pointers and descriptors in, nothing out; `launch` and `sorting` call them."""
