"""The inference engine: NumPy, SciPy and threadpoolctl; nothing here knows scikit-learn.

Read in this order, the modules are the paper: ``gaussian`` (the density), ``activations``
(Eq. 11-12), ``network`` (prior, forward and backward pass, Eq. 8-10 and 14-16),
``batch`` (rows of a batch are correlated), ``noise`` (observation model, Eq. 1 and 14), ``tree``
(classes, App. C), ``inputs`` (uncertain inputs in predictions, Eq. 18), ``full`` (full covariances,
Eq. 10-16), ``learning`` (batches of rows, one after the other), ``training`` (epochs, early
stopping), ``calibration`` (how sure a mixture should be), ``shape`` (quantiles of errors that are
not Gaussian). ``keys`` finds copies of rows, ``units`` says the same in other units, ``merging``
joins posteriors of different rows, ``threads`` keeps small products on one thread.

Arrays may carry leading axes, as in ``numpy.linalg``: each index is a network of its own.
"""
