"""Arrays in, arrays out: least squares over simplices, penalised softmax paths, cross-entropy, local descent."""
