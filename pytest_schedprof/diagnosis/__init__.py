"""Why a backend cannot work somewhere, and what to do about it."""
