"""Tables as they are given: categories, missing values and heavy tails become inputs.

``frames``      columns of frames and arrays as numbers, and categories as numbers of levels
``columns``     what each column becomes: one-hot levels, "missing" columns, clipped tails
``completion``  what a missing value may be, given the others of its row
"""
