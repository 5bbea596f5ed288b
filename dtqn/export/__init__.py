"""A trained agent taken away: exported with a certificate, verified elsewhere, sent to a hub."""
