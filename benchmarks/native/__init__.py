"""Proofs and measurements of the generated C of native programs."""
