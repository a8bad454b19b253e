"""A model -> smaller and faster ones, and what each costs in quality."""
