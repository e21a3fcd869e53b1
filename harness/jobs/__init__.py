"""The jobs of a suite: planned, named, checked beforehand; what one quality or timing job does."""
