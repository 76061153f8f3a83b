"""Consistency checking: which level does a recorded history of views reach?"""
