"""Theory of the papers' protocols: integrated fluid models, and their equilibria and bounds.

Needs numpy, as figures do.
"""
