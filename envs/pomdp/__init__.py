"""Classic POMDPs, given as tables: Hallway, HeavenHell, and whatever a .pomdp file holds."""
