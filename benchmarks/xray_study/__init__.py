"""The X-ray of eight small mixture language models that are trained on the text of a Debian machine."""
