"""gym-gridverse's worlds: a general vectorised engine, tables for static worlds, and Gymnasium interfaces."""
