"""Judgement: does it fit."""
