"""Schedulers to profile: started here, or found where the user says."""
