"""What papers prove of their protocols: fluid models, integrated, and the equilibria and bounds to hold them against.

Needs numpy, as figures do.
"""
