"""Tests are many small products: one BLAS thread is faster than several, alone or side by side."""

from threadpoolctl import threadpool_limits

threadpool_limits(limits=1, user_api="blas")
