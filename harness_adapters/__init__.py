"""The ground floor: foreign records in, exchanges and traces out. Knows no model and no network."""
