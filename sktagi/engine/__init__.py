"""The inference engine: NumPy, SciPy and threadpoolctl; nothing here knows scikit-learn.

Read in this order, the modules are the paper and what goes beyond it:

``posterior``     layers, prior, forgetting; the network
``activations``   hidden units, Eq. 11-12
``passes``        forward and backward pass, Eq. 8-10 and 15-16
``observations``  what targets say of outputs, Eq. 1
``probit``        signs; ``tree`` of classes, App. C, ``softmax`` and ``multilabel``
``covariance``    rows of a batch are correlated
``messages``      from observations to outputs, Eq. 14: independent, joint, guarded
``noise``         sigma_v: learned, or searched on held-out rows; ``noise_network`` of each row,
                  ``noise_stream`` of single ones
``inputs``        uncertain inputs, Eq. 7 and 18
``encoding``      what the first layer sees of the inputs: in pieces, or whitened
``full``          full covariances, Eq. 3-6 and 10-16
``rows``          rows and batches of them; ``sparse`` ones; ``keys`` find copies
``learning``      one pass over rows
``validation``    scores on rows held out; ``sources`` say where rows are
``runs``          epochs of a kind, early stopping, in several ``jobs``; ``interrupts``
``training``      all epochs of a fit; ``streaming`` rows that come once
``kinds``         networks that are tried for a table; ``mixture`` of them, and their weights
``predicting``    moments of the outputs
``held_out``      rows that members hold out, as these predict them
``calibration``   how sure a mixture should be; ``shape`` of errors that are not Gaussian
``class_calibration``  how sure of classes, and what is not known of them
``rescaling``     the same function in other units
``merging``       one posterior of several
``fast``          typed scalars, memory, products and threads; ``memory`` of the machine

Arrays of units are (..., units, rows), as in the paper's z = W a: a column is a row of data.
Leading axes are as in ``numpy.linalg``: each index is a network of its own.
"""
