"""Damage: is everything on disk what it should be?"""
