"""What each TFLite operator is and needs, one entry per operator."""
