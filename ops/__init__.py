"""The top floor: what people hold."""
