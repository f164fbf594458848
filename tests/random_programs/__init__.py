"""Random nested JAX programs, and what is known of them by the way they were made."""
