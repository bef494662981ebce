"""The inference engine: NumPy and SciPy only, nothing here knows scikit-learn.

Read in this order, the modules are the paper: ``gaussian`` (moments of products, Eq. 3-6),
``activations`` (Eq. 11-12), ``network`` (prior, forward and backward pass, Eq. 8-10 and 14-16),
``batch`` (rows of a batch are correlated), ``noise`` (observation model, Eq. 1 and 14), ``tree``
(classes, App. C), ``training`` (epochs, minibatches, early stopping), ``units`` (other units for
the same function), ``merging`` (posteriors of different rows).

Arrays may carry leading axes, as in ``numpy.linalg``: each index is a network of its own.
"""
