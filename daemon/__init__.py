"""The service: puts the street together and keeps it running."""
